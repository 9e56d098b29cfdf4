//! Many lanes, many processes, many names: what one reserve does stays bounded, and it never says
//! that there is nothing while there is something.

use std::{
    collections::{HashMap, HashSet},
    process::ExitCode,
    time::Duration,
};

use jobs_core::{AuthorizedJob, Job, Nonce, Queue, queue::Reserve};
use jobs_mongo::Mongo;
use jobs_testkit::kit::{NAME, QUEUE, checked, job, wants};
use mongodb::bson::{DateTime, Document, doc};

mod common;

use common::{
    URL,
    run::{Own, Test, all},
    variable,
};

const TESTS: &[Test] = &[
    ("a_crowd_that_comes_due_is_put_in_line_bit_by_bit", || Box::pin(due())),
    ("nobody_among_many_hears_that_there_is_nothing", || Box::pin(nothing())),
    ("turns_stay_small_whatever_the_names_and_lanes", || Box::pin(turns())),
    ("more_lanes_than_are_remembered_share_evenly", || Box::pin(rounds())),
    ("a_nonce_takes_once_though_no_other_record_is_left", || Box::pin(once())),
    ("a_worker_may_know_five_hundred_names", || Box::pin(names())),
];

fn main() -> ExitCode {
    all(TESTS, variable(URL).err())
}

async fn push(store: &Mongo, jobs: Vec<AuthorizedJob>) {
    assert!(store.enqueue(&jobs).await.iter().all(Result::is_ok));
}

async fn due() {
    const TENANTS: usize = 300;
    const EACH: usize = 20;
    let own = Own::new("due").await;
    let store = own.store().await;
    let later = jobs_core::Timestamp::now() + Duration::from_secs(3600);
    let jobs = (0..TENANTS * EACH).map(|at| job(&format!("t{}", at % TENANTS)).at(later));
    push(&store, jobs.map(checked).collect()).await;
    let stored = own.database.collection::<Document>("jobs_jobs");
    let now = doc! { "$set": { "run_at": DateTime::from_millis(0) } };
    stored.update_many(doc! {}, now).await.expect("they come due");
    store.forget();
    let first = store.reserve(&wants(16)).await.expect("it answers");
    assert_eq!(first.deliveries.len(), 16);
    let left = stored.count_documents(doc! { "state": 0 }).await.expect("it answers");
    let moved = TENANTS * EACH - usize::try_from(left).expect("a number");
    assert!(moved <= 1024, "one reserve of 16 put {moved} jobs in line");
    // And nobody hears in between that there is nothing.
    let mut taken = first.deliveries.len();
    while taken < TENANTS * EACH {
        let reserved = store.reserve(&wants(500)).await.expect("it answers");
        let count = reserved.deliveries.len();
        assert!(count > 0 || reserved.next_due == Some(Duration::ZERO), "{taken} were taken");
        taken += count;
    }
    own.drop().await;
}

async fn nothing() {
    const JOBS: usize = 6_000;
    let own = Own::new("nothing").await;
    let first = own.store().await;
    let jobs = (0..JOBS).map(|at| checked(job(["a", "b", "c", "d"][at % 4])));
    push(&first, jobs.collect()).await;
    let reserving: Vec<_> = (0..32)
        .map(|_| {
            let (name, database) = (own.name.clone(), own.database.clone());
            tokio::spawn(async move {
                let store = Own { name, database: database.clone() }.store().await;
                let ready = database.collection::<Document>("jobs_jobs");
                let mut taken = Vec::new();
                loop {
                    let reserved = store.reserve(&wants(10)).await.expect("no error surfaces");
                    let again = reserved.next_due == Some(Duration::ZERO);
                    if reserved.deliveries.is_empty() && !again {
                        // Nothing is pushed any more: what is in line now was there before.
                        let left = ready.count_documents(doc! { "state": 1 }).await;
                        return (taken, left.expect("it answers"));
                    }
                    taken.extend(reserved.deliveries.into_iter().map(|held| held.claim.job.id));
                }
            })
        })
        .collect();
    let (mut all, mut lied) = (Vec::new(), 0);
    for reserver in reserving {
        let (taken, left) = reserver.await.expect("no panic");
        lied += usize::from(left > 0);
        all.extend(taken);
    }
    assert_eq!(lied, 0, "so many of 32 heard that there is nothing while there was");
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), JOBS, "each once, and none is left");
    own.drop().await;
}

fn named(tenant: &str, name: &str) -> AuthorizedJob {
    checked(Job { name: name.to_owned(), ..job(tenant) })
}

async fn turns() {
    const NAMES: usize = 20;
    const LANES: usize = 2_500;
    let own = Own::new("turns").await;
    let store = own.store().await;
    let names: Vec<_> = (0..NAMES).map(|name| format!("n{name}")).collect();
    let jobs = (0..LANES).map(|lane| named(&format!("t{lane}"), &names[lane % NAMES]));
    push(&store, jobs.collect()).await;
    let request = || Reserve::new(QUEUE, &names, "test").expect("legal").slots(500);
    let mut taken = 0;
    while taken < LANES {
        let reserved = store.reserve(&request()).await.expect("it answers").deliveries;
        assert!(!reserved.is_empty());
        taken += reserved.len();
    }
    let turns = own.database.collection::<Document>("jobs_turns");
    let turns = turns.find_one(doc! {}).await.expect("it answers").expect("turns");
    let size = mongodb::bson::serialize_to_vec(&turns).expect("a size").len();
    assert!(size < 256 * 1024, "{size} bytes");
    own.drop().await;
}

async fn rounds() {
    const LANES: usize = 2_200;
    let own = Own::new("rounds").await;
    let store = own.store().await;
    for _ in 0..2 {
        let jobs = (0..LANES).flat_map(|lane| (0..8).map(move |_| job(&format!("t{lane}"))));
        push(&store, jobs.map(checked).collect()).await;
    }
    let mut shares = HashMap::<String, usize>::new();
    let mut taken = 0;
    while taken < LANES * 8 {
        let most = (LANES * 8 - taken).min(1000);
        let reserved = store.reserve(&wants(most)).await.expect("it answers").deliveries;
        taken += reserved.len();
        for held in reserved {
            *shares.entry(held.job.tenant).or_default() += 1;
        }
    }
    let worst = shares.values().max().expect("shares");
    assert_eq!((shares.len(), *worst), (LANES, 8), "each lane has one visit before any has two");
    own.drop().await;
}

async fn once() {
    let own = Own::new("once").await;
    let store = own.store().await;
    push(&store, (0..6).map(|_| checked(job("acme"))).collect()).await;
    let request = wants(3).nonce(Nonce::random());
    let ids = |reserved: jobs_core::queue::Reserved| -> HashSet<_> {
        reserved.deliveries.into_iter().map(|held| held.claim.job.id).collect()
    };
    let first = ids(store.reserve(&request).await.expect("it answers"));
    assert_eq!(first.len(), 3);
    // As after a failover that lost what only the old primary had: the claims are a majority's.
    let taken = own.database.collection::<Document>("jobs_taken");
    taken.delete_many(doc! {}).await.expect("it answers");
    let again = ids(own.store().await.reserve(&request).await.expect("it answers"));
    assert_eq!(again, first, "the same, and no others");
    own.drop().await;
}

async fn names() {
    let own = Own::new("names").await;
    let store = own.store().await;
    push(&store, vec![named("acme", "n499"), checked(job("acme"))]).await;
    let names: Vec<_> = (0..500).map(|name| format!("n{name}")).chain([NAME.to_owned()]).collect();
    let request = Reserve::new(QUEUE, &names, "test").expect("legal").slots(9);
    let reserved = store.reserve(&request).await.expect("it answers");
    assert_eq!(reserved.deliveries.len(), 2);
    own.drop().await;
}
