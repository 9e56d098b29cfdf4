//! A key that was written by hand hides its own job and harms no other of the same call.

use std::{process::ExitCode, time::Duration};

use jobs_core::{
    Admin, AuthorizedJob, ErrorKind, Outcome, Queue, Settled, Settlement, State,
    queue::{Pushed, Renewed},
};
use jobs_redis::Redis;
use jobs_servers::PrivateRedis;
use jobs_testkit::kit::{checked, job, take};

mod common;

use common::runner::{Test, run};

const TESTS: &[Test] = &[
    ("a_push_beside_a_damaged_one_is_stored_whole", || Box::pin(pushed())),
    ("a_reserve_takes_what_is_beside_a_damaged_job", || Box::pin(reserved())),
    ("a_settlement_beside_a_damaged_one_is_applied", || Box::pin(settled())),
    ("a_sweep_takes_back_what_is_beside_a_damaged_job", || Box::pin(swept())),
    ("what_comes_due_beside_a_damaged_job_is_delivered", || Box::pin(promoted())),
];

fn main() -> ExitCode {
    let missing = PrivateRedis::find().is_none();
    run(TESTS, missing.then(|| "there is no redis-server".to_owned()))
}

async fn start() -> (PrivateRedis, Redis) {
    let server = PrivateRedis::start().expect("it starts");
    let store = Redis::connect(&server.url()).await.expect("the server answers");
    store.migrate().await.expect("it migrates");
    (server, store)
}

fn jobs(number: usize) -> Vec<AuthorizedJob> {
    (0..number).map(|_| checked(job("acme"))).collect()
}

async fn all_stored(store: &Redis, jobs: &[AuthorizedJob]) {
    let answers = store.enqueue(jobs).await;
    assert!(answers.iter().all(|answer| matches!(answer, Ok(Pushed::Stored))), "{answers:?}");
}

/// A text where its hash was, or a hash of which a field is missing.
fn damage(server: &PrivateRedis, job: &AuthorizedJob, how: usize) {
    let key = format!("{{jobs:0}}:j/acme/{}", job.id.0.simple());
    match how {
        0 => server.cli(&["set", &key, "a text"]),
        _ => server.cli(&["hdel", &key, "f", "p"]),
    }
    .expect("it is damaged");
}

async fn ids(store: &Redis) -> Vec<jobs_core::JobId> {
    take(store, 50).await.iter().map(|held| held.job.id).collect()
}

async fn pushed() {
    let (server, store) = start().await;
    let jobs = jobs(3);
    damage(&server, &jobs[1], 0);
    let answers = store.enqueue(&jobs).await;
    assert_eq!(answers[0].as_ref().expect("stored"), &Pushed::Stored);
    assert_eq!(answers[2].as_ref().expect("stored"), &Pushed::Stored);
    let refused = answers[1].as_ref().expect_err("no hash");
    assert_eq!(refused.kind(), ErrorKind::Corrupt, "{refused}");
    assert!(refused.to_string().contains(&jobs[1].id.to_string()), "{refused}");
    assert_eq!(ids(&store).await, [jobs[0].id, jobs[2].id]);
    // Many who push one by one share a script, and not its failure.
    let jobs = self::jobs(50);
    damage(&server, &jobs[20], 0);
    let all = jobs.chunks(1).map(|one| store.enqueue(one));
    let answers = futures::future::join_all(all).await;
    let failed = answers.iter().filter(|answer| answer[0].is_err()).count();
    assert_eq!(failed, 1);
    assert_eq!(ids(&store).await.len(), 49);
}

async fn reserved() {
    for how in [0, 1] {
        let (server, store) = start().await;
        let jobs = jobs(3);
        all_stored(&store, &jobs).await;
        damage(&server, &jobs[1], how);
        assert_eq!(ids(&store).await, [jobs[0].id, jobs[2].id], "{how}");
        let record = store.sweep().await.expect("it answers");
        assert_eq!(record.lost, []);
    }
}

async fn settled() {
    for how in [0, 1] {
        let (server, store) = start().await;
        let jobs = jobs(3);
        all_stored(&store, &jobs).await;
        let held = take(&store, 3).await;
        damage(&server, &jobs[1], how);
        let claims: Vec<_> = held.iter().map(|held| held.claim.clone()).collect();
        let renewed = store.renew(Default::default(), &claims).await.expect("it answers");
        assert_eq!(renewed, [Renewed::Held, Renewed::Lost, Renewed::Held], "{how}");
        let done = |claim| Settlement { claim, outcome: Outcome::Done };
        let batch: Vec<_> = claims.into_iter().map(done).collect();
        let settled = store.settle(&batch).await.expect("it answers");
        let done = Settled::Applied(State::Done);
        assert_eq!(settled, [done, Settled::Lost, done], "{how}");
    }
}

async fn swept() {
    for how in [0, 1] {
        let (server, store) = start().await;
        let jobs = jobs(3);
        all_stored(&store, &jobs).await;
        let lease = jobs_core::queue::Lease::new(Duration::from_secs(1)).expect("a second");
        let request = jobs_testkit::kit::wants(3).lease(lease);
        let held = store.reserve(&request).await.expect("it answers").deliveries;
        assert_eq!(held.len(), 3);
        damage(&server, &jobs[1], how);
        let mut lost = Vec::new();
        for _ in 0..200 {
            let swept = store.sweep().await.expect("it answers");
            lost.extend(swept.lost.into_iter().map(|lost| lost.job.id));
            if lost.len() >= 2 {
                break;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        assert_eq!(lost, [jobs[0].id, jobs[2].id], "{how}");
        let counts = store.counts(&jobs_testkit::kit::permit("acme"), &Default::default()).await;
        assert_eq!(counts.expect("it answers").lanes[0].running.number, 0, "{how}");
    }
}

async fn promoted() {
    for how in [0, 1] {
        let (server, store) = start().await;
        let soon = |_| checked(job("acme").after(Duration::from_millis(300)));
        let jobs: Vec<_> = (0..3).map(soon).collect();
        all_stored(&store, &jobs).await;
        damage(&server, &jobs[1], how);
        let mut found = Vec::new();
        for _ in 0..200 {
            found.extend(ids(&store).await);
            if found.len() >= 2 {
                break;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        assert_eq!(found, [jobs[0].id, jobs[2].id], "{how}");
    }
}
