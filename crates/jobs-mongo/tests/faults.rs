//! What only a replica set does: it elects another primary, it is a standalone, it gives a fence again.

use std::{
    collections::HashMap,
    future::Future,
    pin::Pin,
    process::ExitCode,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use jobs_core::{
    ErrorKind, Outcome, Queue, Settled, Settlement, State,
    queue::{Pushed, Renewed},
};
use jobs_mongo::{Mongo, Options};
use jobs_servers::PrivateMongo;
use jobs_testkit::{
    harness::REQUIRE,
    kit::{checked, job, push, take, wants},
};
use libtest_mimic::{Arguments, Failed, Trial};
use mongodb::{
    Client,
    bson::{Document, doc},
};

type Test = (&'static str, fn() -> Pin<Box<dyn Future<Output = ()>>>);

const TESTS: &[Test] = &[
    ("a_standalone_is_refused_and_told_what_to_do", || Box::pin(standalone())),
    ("nothing_works_before_migrate", || Box::pin(unmigrated())),
    ("many_processes_migrate_at_once", || Box::pin(migrations())),
    ("a_fence_that_was_given_again_is_refused_by_its_nonce", || Box::pin(given_again())),
    ("a_killed_primary_loses_no_push_and_doubles_none", || Box::pin(killed())),
    ("thirty_two_reservers_meet_without_an_error", || Box::pin(reservers())),
    ("a_job_that_fails_ten_thousand_times_stays_small", || Box::pin(small("it fails", 32 * 1024))),
    ("with_the_longest_cause_it_stays_bounded", || {
        Box::pin(small("x".repeat(16 * 1024).leak(), 2 * 1024 * 1024))
    }),
];

fn main() -> ExitCode {
    let missing = PrivateMongo::find().is_none();
    let skip = missing && std::env::var_os(REQUIRE).is_none();
    if skip {
        eprintln!("{} tests are skipped: there is no mongod", TESTS.len());
    }
    let trials = TESTS.iter().map(|(name, test)| {
        let trial = Trial::test(*name, move || {
            let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
            runtime.map_err(|error| Failed::from(error.to_string()))?.block_on(test());
            Ok(())
        });
        trial.with_ignored_flag(skip)
    });
    libtest_mimic::run(&Arguments::from_args(), trials.collect()).exit_code()
}

async fn store(url: &str) -> Mongo {
    let store = Mongo::connect(url).await.expect("the server answers");
    store.migrate().await.expect("it migrates");
    store
}

async fn jobs(url: &str) -> mongodb::Collection<Document> {
    let client = Client::with_uri_str(url).await.expect("a client");
    client.database("jobs").collection("jobs_jobs")
}

async fn standalone() {
    let server = PrivateMongo::start_standalone().expect("it starts");
    let refused = Mongo::connect(&server.url_of_standalone()).await.expect_err("no set");
    assert_eq!(refused.kind(), ErrorKind::Unsafe);
    let what = refused.to_string();
    assert!(what.contains("--replSet") && what.contains("rs.initiate()"), "{what}");
}

async fn unmigrated() {
    let server = PrivateMongo::start().expect("it starts");
    let store = Mongo::connect(&server.url()).await.expect("the server answers");
    let answers = store.enqueue(&[checked(job("acme"))]).await;
    let refused = answers.into_iter().next().expect("an answer").expect_err("no collections");
    assert_eq!(refused.kind(), ErrorKind::Schema);
    assert!(refused.to_string().contains("migrate()"), "{refused}");
    let client = Client::with_uri_str(server.url()).await.expect("a client");
    let made = client.database("jobs").list_collection_names().await.expect("names");
    assert!(made.is_empty(), "a refused push makes no collection: {made:?}");
}

async fn migrations() {
    let server = PrivateMongo::start().expect("it starts");
    let url = server.url();
    let migrating: Vec<_> = (0..8).map(|_| tokio::spawn(store_of(url.clone()))).collect();
    for migrated in migrating {
        migrated.await.expect("no panic");
    }
    let indexes = jobs(&url).await.list_index_names().await.expect("names");
    assert!(indexes.contains(&"held".to_owned()) && indexes.len() == 15, "{indexes:?}");
}

async fn store_of(url: String) {
    store(&url).await;
}

/// A claim that a failover took back, and then gave to another under the same fence.
async fn given_again() {
    let server = PrivateMongo::start().expect("it starts");
    let store = store(&server.url()).await;
    let pushed = push(&store, job("acme")).await;
    let stale = take(&store, 1).await.remove(0).claim;
    // As the set's new primary has it, which never saw the claim.
    let never = doc! {
        "$set": { "state": 1, "fence": 0_i64, "attempt": 0,
            "line": format!("r/{}/{}/0/acme/100", pushed.queue, pushed.name) },
        "$unset": { "run": "", "nonce": "", "lease_until": "", "renewed_at": "", "started_at": "",
            "worker": "" },
    };
    let moved = jobs(&server.url()).await.update_one(doc! {}, never).await.expect("moves");
    assert_eq!(moved.modified_count, 1);
    store.forget();
    let again = take(&store, 1).await.remove(0).claim;
    assert_eq!((stale.fence, &stale.job), (again.fence, &again.job), "the fence is given again");
    let lost = store.renew(Default::default(), std::slice::from_ref(&stale)).await;
    assert_eq!(lost.expect("it answers"), [Renewed::Lost]);
    for outcome in [Outcome::Done, Outcome::Release, Outcome::Park { cause: "no".into() }] {
        let late = Settlement { claim: stale.clone(), outcome };
        assert_eq!(store.settle(&[late]).await.expect("it answers"), [Settled::Lost]);
    }
    let done = Settlement { claim: again, outcome: Outcome::Done };
    let settled = store.settle(&[done]).await.expect("it answers");
    assert_eq!(settled, [Settled::Applied(State::Done)]);
}

/// Pushes and drains go on while the primary is killed, more than once.
async fn killed() {
    let mut server = PrivateMongo::start_three().expect("it starts");
    let url = server.url();
    let store = Arc::new(store(&url).await);
    let over = Arc::new(AtomicBool::new(false));
    let pushing = tokio::spawn({
        let (store, over) = (store.clone(), over.clone());
        async move {
            let mut acknowledged = Vec::new();
            while !over.load(Ordering::Relaxed) {
                let job = checked(job("acme"));
                let id = job.id;
                // An unknown outcome is asked again, by the same id.
                for _ in 0..10 {
                    let answer = store.enqueue(std::slice::from_ref(&job)).await.remove(0);
                    if let Ok(Pushed::Stored | Pushed::Duplicate(_)) = answer {
                        acknowledged.push(id);
                        break;
                    }
                }
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
            acknowledged
        }
    });
    let draining = tokio::spawn({
        let (store, over) = (store.clone(), over.clone());
        async move {
            let mut ended = HashMap::new();
            let (mut idle, mut failed) = (0, 0);
            while idle < 3 {
                let Ok(reserved) = store.reserve(&wants(50)).await else {
                    failed += 1;
                    assert!(failed < 1_000, "no reserve is answered any more");
                    continue;
                };
                failed = 0;
                let done = |held: jobs_core::queue::Delivery| Settlement {
                    claim: held.claim,
                    outcome: Outcome::Done,
                };
                let batch: Vec<_> = reserved.deliveries.into_iter().map(done).collect();
                let settled = loop {
                    if let Ok(settled) = store.settle(&batch).await {
                        break settled;
                    }
                };
                for (settlement, settled) in batch.iter().zip(settled) {
                    if settled != Settled::Lost {
                        *ended.entry(settlement.claim.job.id).or_insert(0) += 1;
                    }
                }
                store.sweep().await.ok();
                let last = over.load(Ordering::Relaxed) && batch.is_empty();
                idle = if last { idle + 1 } else { 0 };
            }
            ended
        }
    });
    for _ in 0..2 {
        tokio::time::sleep(Duration::from_secs(2)).await;
        server = tokio::task::spawn_blocking(move || {
            let primary = server.primary().expect("a primary");
            server.kill(primary).expect("it ran");
            server.primary().expect("another primary");
            server.start_again(primary).expect("it starts");
            server
        })
        .await
        .expect("no panic");
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    over.store(true, Ordering::Relaxed);
    let acknowledged = pushing.await.expect("no panic");
    assert!(acknowledged.len() > 100, "{} pushes", acknowledged.len());
    // What a lost answer left held runs again when its lease is over.
    let jobs = jobs(&url).await;
    let lapsed = doc! { "$set": { "lease_until": mongodb::bson::DateTime::from_millis(0) } };
    let running = doc! { "run": { "$exists": true } };
    jobs.update_many(running, lapsed).await.expect("it answers");
    let ended = draining.await.expect("no panic");
    for id in &acknowledged {
        assert_eq!(ended.get(id), Some(&1), "{id} ends once");
    }
    let done = jobs.count_documents(doc! { "state": 4 }).await.expect("it answers");
    assert!(done >= acknowledged.len() as u64, "{done} of {}", acknowledged.len());
    drop(server);
}

/// Each a process of its own, as far as the store can tell.
async fn reservers() {
    const JOBS: usize = 4_000;
    let server = PrivateMongo::start().expect("it starts");
    let url = server.url();
    let first = store(&url).await;
    let pushed: Vec<_> = (0..JOBS).map(|_| checked(job("acme"))).collect();
    assert!(first.enqueue(&pushed).await.iter().all(Result::is_ok));
    let conflicts = conflicts(&url).await;
    let began = Instant::now();
    let reserving: Vec<_> = (0..32)
        .map(|_| {
            let url = url.clone();
            tokio::spawn(async move {
                let store = Mongo::open(Options::new(&url).await.expect("a URL")).await;
                let store = store.expect("the server answers");
                let mut taken = Vec::new();
                loop {
                    let reserved = store.reserve(&wants(10)).await.expect("no error surfaces");
                    if reserved.deliveries.is_empty() {
                        return taken;
                    }
                    taken.extend(reserved.deliveries.into_iter().map(|held| held.claim.job.id));
                }
            })
        })
        .collect();
    let mut all = Vec::new();
    for reserver in reserving {
        all.extend(reserver.await.expect("no panic"));
    }
    let took = began.elapsed();
    let met = self::conflicts(&url).await - conflicts;
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), JOBS, "each once, and none is left");
    println!("{JOBS} deliveries to 32 reservers in {took:?}, {met} write conflicts");
    assert!(met * 20 < JOBS as i64, "{met} write conflicts are more than 5 % of deliveries");
}

/// Write conflicts so far, by the server's own counter.
async fn conflicts(url: &str) -> i64 {
    let client = Client::with_uri_str(url).await.expect("a client");
    let status = client.database("admin").run_command(doc! { "serverStatus": 1 }).await;
    let status = status.expect("it answers");
    let operation =
        status.get_document("metrics").and_then(|metrics| metrics.get_document("operation"));
    operation.ok().and_then(|counts| counts.get_i64("writeConflicts").ok()).unwrap_or_default()
}

async fn small(cause: &'static str, most: usize) {
    let server = PrivateMongo::start().expect("it starts");
    let url = server.url();
    let store = store(&url).await;
    push(&store, job("acme").max_attempts(1000)).await;
    let jobs = jobs(&url).await;
    let again = doc! { "$set": { "attempt": 0, "fence": 9_900_i64 } };
    for round in 0..200 {
        let held = take(&store, 1).await.remove(0).claim;
        let outcome = Outcome::Retry { after: Duration::ZERO, cause: cause.into() };
        let settled = store.settle(&[Settlement { claim: held, outcome }]).await;
        assert_eq!(settled.expect("it answers"), [Settled::Applied(State::Scheduled)]);
        if round == 99 {
            // As if it had failed 9,900 times: only the newest hundred are there anyway.
            jobs.update_one(doc! {}, again.clone()).await.expect("it answers");
            store.forget();
        }
    }
    let row = jobs.find_one(doc! {}).await.expect("it answers").expect("the job");
    let attempts = row.get_array("attempts").expect("attempts").len();
    let size = mongodb::bson::serialize_to_vec(&row).expect("a size").len();
    assert_eq!(attempts, 100);
    assert!(size < most, "{size} bytes after 10,000 failures");
}
