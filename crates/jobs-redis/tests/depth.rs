//! Many of everything: lanes that run, names, jobs due at one instant; and what waiting costs.

use std::{
    collections::HashSet,
    process::ExitCode,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use jobs_core::{
    Admin, AuthorizedJob, Claim, Outcome, Payload, Queue, Settlement, Timestamp,
    queue::{Delivery, Lease, Pushed, Reserve},
    retention::Retention,
    time::from_millis,
};
use jobs_redis::Redis;
use jobs_servers::PrivateRedis;
use jobs_testkit::{
    fixture::Fixture,
    kit::{checked, job, operator, take, wants},
};

mod common;

use common::{
    URL,
    prefixes::Prefixes,
    runner::{Test, run},
    times, variable,
};

const TESTS: &[Test] = &[
    ("a_lost_lease_behind_hundreds_of_renewed_lanes_is_found", || Box::pin(crowded())),
    ("what_a_reserve_promotes_is_bounded_over_all_its_names", || Box::pin(names())),
    ("what_a_count_looks_at_in_one_script_is_bounded", || Box::pin(counted())),
    ("thirty_thousand_due_at_one_instant_run_once_each", || Box::pin(instant())),
    ("a_job_thirty_days_ahead_runs_once", || Box::pin(ahead())),
    ("a_waiting_job_of_100_bytes_takes_less_than_a_kilobyte", || Box::pin(memory())),
];

fn main() -> ExitCode {
    let missing = PrivateRedis::find().is_none();
    let missing = missing.then(|| "there is no redis-server".to_owned());
    run(TESTS, missing.or_else(|| variable(URL).err()))
}

async fn start() -> (PrivateRedis, Redis) {
    let server = PrivateRedis::start().expect("it starts");
    let store = Redis::connect(&server.url()).await.expect("the server answers");
    store.migrate().await.expect("it migrates");
    (server, store)
}

async fn stored(store: &Redis, jobs: &[AuthorizedJob]) {
    let answers = store.enqueue(jobs).await;
    assert!(answers.iter().all(|answer| matches!(answer, Ok(Pushed::Stored))));
}

/// By the process's clock, which here is the server's.
fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
    from_millis(i64::try_from(since.as_millis()).expect("a sane time"))
}

fn done(held: Delivery) -> Settlement {
    Settlement { claim: held.claim, outcome: Outcome::Done }
}

/// All of them begin with the same lease; all but the last lane's is renewed, and it alone is lost.
async fn crowded() {
    let (_server, store) = start().await;
    let tenant = |at: usize| format!("t{at:03}");
    let jobs: Vec<_> = (0..350).map(|at| checked(job(&tenant(at)))).collect();
    stored(&store, &jobs).await;
    let short = Lease::new(Duration::from_secs(1)).expect("a second");
    let held = store.reserve(&wants(350).lease(short)).await.expect("it answers").deliveries;
    let (lost, live): (Vec<Claim>, Vec<Claim>) =
        held.into_iter().map(|held| held.claim).partition(|claim| claim.job.tenant == tenant(349));
    assert_eq!((lost.len(), live.len()), (1, 349));
    store.renew(Lease::default(), &live).await.expect("it answers");
    tokio::time::sleep(short.length() + Duration::from_millis(50)).await;
    // As a worker does, which then rests for five seconds.
    let mut found = Vec::new();
    loop {
        let swept = store.sweep().await.expect("it answers");
        found.extend(swept.lost.into_iter().map(|lost| lost.job));
        if !swept.more {
            break;
        }
    }
    assert_eq!(found, [lost[0].job.clone()]);
}

/// Forty names with a crowd each: one script brings some of each in line, and not all.
async fn names() {
    let (server, store) = start().await;
    let names: Vec<_> = (0..40).map(|at| format!("name{at:02}")).collect();
    let due = now() + Duration::from_secs(1);
    let of = |name: &String| {
        let mut job = job("acme").at(due);
        job.name.clone_from(name);
        checked(job)
    };
    for name in &names {
        let jobs: Vec<_> = (0..100).map(|_| of(name)).collect();
        stored(&store, &jobs).await;
    }
    while now() <= due {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let request = Reserve::new("work", names.clone(), "suite").expect("legal").slots(10);
    let taken = store.reserve(&request).await.expect("it answers").deliveries;
    assert_eq!(taken.len(), 10);
    let ready = server.cli(&["zcard", "{jobs:0}:i/1/work/acme"]).expect("it answers");
    let ready: usize = ready.parse().expect("a number");
    assert!(ready + 10 <= 10 + 500 + names.len(), "{ready} of 4000 were promoted by one script");
    for name in &names {
        let line = format!("{{jobs:0}}:r/work/acme/{name}");
        let in_line = server.cli(&["zcard", &line]).expect("it answers");
        assert!(name == "name00" || in_line != "0", "{name} waits behind the others");
    }
}

/// Lanes with many names each.
async fn counted() {
    let (server, store) = start().await;
    for tenant in 0..60 {
        let of = |name| {
            let mut job = job(&format!("t{tenant}")).after(Duration::from_secs(600));
            job.name = format!("name{name}");
            checked(job)
        };
        let jobs: Vec<_> = (0..200).map(of).collect();
        stored(&store, &jobs).await;
    }
    server.cli(&["config", "resetstat"]).expect("it forgets");
    let counts = store.counts(&operator().await, &Default::default()).await.expect("it answers");
    assert_eq!(counts.lanes.len(), 60);
    assert!(counts.lanes.iter().all(|lane| lane.scheduled.number == 200));
    let stats = server.cli(&["info", "commandstats"]).expect("it answers");
    let calls = |command: &str| -> usize {
        let line = stats.lines().find(|line| line.starts_with(&format!("cmdstat_{command}:")));
        let calls = line.and_then(|line| line.split_once("calls=")?.1.split_once(','));
        calls.map_or(0, |(calls, _)| calls.parse().expect("a number"))
    };
    let scripts = calls("evalsha") + calls("eval");
    assert!(calls("zcount") / scripts <= 6000, "{} in {scripts}", calls("zcount"));
}

/// With JOBS_TEST_TIMES=10 it is 300,000.
async fn instant() {
    let (_server, store) = start().await;
    let number = times(30_000);
    let due = now() + Duration::from_secs(3);
    let of = |at: usize| checked(job(&format!("t{}", at % 300)).at(due));
    let jobs: Vec<_> = (0..number).map(of).collect();
    stored(&store, &jobs).await;
    assert!(now() > due || take(&store, 10).await.is_empty(), "none before its time");
    while now() <= due {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let (began, mut ran) = (Instant::now(), HashSet::new());
    while ran.len() < number {
        let held = take(&store, 200).await;
        for held in &held {
            assert!(ran.insert(held.job.id), "{} is delivered twice", held.job.id);
        }
        let batch: Vec<_> = held.into_iter().map(done).collect();
        store.settle(&batch).await.expect("it answers");
        assert!(began.elapsed() < Duration::from_secs(60), "{} of {number}", ran.len());
    }
    println!("{number} due at one instant drained in {:?}", began.elapsed());
}

async fn ahead() {
    let fixture = Prefixes::new("redis", variable(URL));
    let namespace = format!("t_ahead_{}", std::process::id());
    let store = fixture.make(&namespace, Retention::default()).await;
    let month = Duration::from_secs(30 * 24 * 3600);
    let pushed = checked(job("acme").after(month));
    assert_eq!(
        store.enqueue(std::slice::from_ref(&pushed)).await.remove(0).ok(),
        Some(Pushed::Stored)
    );
    for _ in 0..29 {
        fixture.age(&namespace, Duration::from_secs(24 * 3600)).await;
        store.sweep().await.expect("it answers");
        assert!(take(&*store, 10).await.is_empty(), "it is not due yet");
    }
    fixture.age(&namespace, Duration::from_secs(24 * 3600)).await;
    let held = take(&*store, 10).await;
    assert_eq!(held.iter().map(|held| held.job.id).collect::<Vec<_>>(), [pushed.id]);
    assert!(take(&*store, 10).await.is_empty(), "once");
    let batch: Vec<_> = held.into_iter().map(done).collect();
    store.settle(&batch).await.expect("it answers");
    store.sweep().await.expect("it answers");
    assert!(take(&*store, 10).await.is_empty(), "once");
    fixture.remove(&namespace).await;
}

/// Ready, of one tenant, with a payload of 100 bytes; what an empty server takes is not counted.
async fn memory() {
    let (server, store) = start().await;
    let number = times(20_000);
    let used = || -> usize {
        let info = server.cli(&["info", "memory"]).expect("it answers");
        let line = info.lines().find_map(|line| line.trim().strip_prefix("used_memory_dataset:"));
        line.expect("it says so").parse().expect("a number")
    };
    let before = used();
    let of = |_| {
        let mut job = job("acme");
        job.payload = Payload::from_json(format!("\"{}\"", "x".repeat(98))).expect("JSON");
        checked(job)
    };
    let jobs: Vec<_> = (0..number).map(of).collect();
    stored(&store, &jobs).await;
    let each = (used() - before) / number;
    println!("{each} bytes a waiting job with a payload of 100");
    assert!((300..1000).contains(&each), "{each} bytes a waiting job");
}
