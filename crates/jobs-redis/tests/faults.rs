//! What only a Redis does: it evicts, it is full, it forgets scripts, it is killed with a second unsaved,
//! it gives a fence again.

use std::{
    process::ExitCode,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use jobs_core::{
    ErrorKind, JobId, Outcome, Payload, Queue, Settled, Settlement, State,
    queue::{Delivery, Pushed, Renewed},
};
use jobs_redis::{
    Durability, Options, Redis,
    fred::{
        interfaces::ClientLike,
        types::{Builder, config::Config},
    },
};
use jobs_servers::PrivateRedis;
use jobs_testkit::kit::{checked, job, push, take, wants};

mod common;

use common::{
    runner::{Test, run},
    times,
};

const TESTS: &[Test] = &[
    ("a_server_that_may_evict_is_refused_and_told_what_to_set", || Box::pin(evicts())),
    ("durable_is_refused_where_the_server_syncs_later", || Box::pin(durable())),
    ("a_full_server_takes_no_push_and_drains_by_itself", || Box::pin(full())),
    ("forgotten_scripts_are_sent_again", || Box::pin(forgotten())),
    ("a_fence_that_was_given_again_is_refused_by_its_nonce", || Box::pin(given_again())),
    ("a_killed_server_loses_nothing_that_it_synced", || Box::pin(killed())),
    ("consumption_resumes_after_every_restart", || Box::pin(resumes())),
    ("what_is_dropped_leaves_no_connection", || Box::pin(dropped())),
    ("a_clock_that_was_set_back_silences_nobody", || Box::pin(set_back())),
    ("a_lent_client_carries_the_calls_and_stays_open", || Box::pin(lent())),
];

fn main() -> ExitCode {
    let missing = PrivateRedis::find().is_none();
    run(TESTS, missing.then(|| "there is no redis-server".to_owned()))
}

async fn store(url: &str) -> Redis {
    let store = Redis::connect(url).await.expect("the server answers");
    store.migrate().await.expect("it migrates");
    store
}

fn done(held: Delivery) -> Settlement {
    Settlement { claim: held.claim, outcome: Outcome::Done }
}

async fn evicts() {
    for policy in ["allkeys-lru", "volatile-ttl"] {
        let server = PrivateRedis::start_with(&["--maxmemory-policy", policy]).expect("it starts");
        let refused = Redis::connect(&server.url()).await.expect_err("it may evict");
        assert_eq!(refused.kind(), ErrorKind::Unsafe);
        let what = refused.to_string();
        assert!(what.contains(policy) && what.contains("maxmemory-policy noeviction"), "{what}");
    }
}

async fn durable() {
    let server = PrivateRedis::start().expect("it starts");
    let options = || {
        let options = Options::new(&server.url()).expect("a URL");
        options.durability(Durability::Durable)
    };
    let refused = Redis::open(options()).await.expect_err("it syncs every second");
    assert_eq!(refused.kind(), ErrorKind::Unsafe);
    assert!(refused.to_string().contains("appendfsync always"), "{refused}");
    server.cli(&["config", "set", "appendfsync", "always"]).expect("it is set");
    Redis::open(options()).await.expect("now it does");
    server.cli(&["config", "set", "appendonly", "no"]).expect("it is set");
    let refused = Redis::open(options()).await.expect_err("there is no file");
    assert!(refused.to_string().contains("appendonly yes"), "{refused}");
}

/// Push answers `Full`; everything that makes room goes on.
async fn full() {
    let server = PrivateRedis::start_with(&["--maxmemory", "16mb"]).expect("it starts");
    let store = store(&server.url()).await;
    let large = || {
        let mut job = job("acme").max_attempts(1000);
        job.payload = Payload::from_json(format!("\"{}\"", "x".repeat(50_000))).expect("JSON");
        checked(job)
    };
    let mut stored = 0;
    let refused = loop {
        match store.enqueue(&[large()]).await.remove(0) {
            Ok(answer) => assert_eq!(answer, Pushed::Stored),
            Err(refused) => break refused,
        }
        stored += 1;
        assert!(stored < 1000, "16 MB hold no thousand of 50 kB");
    };
    assert_eq!(refused.kind(), ErrorKind::Full, "{refused}");
    assert!(refused.is_transient() && refused.to_string().contains("maxmemory"), "{refused}");
    let mut held = take(&store, 5).await;
    assert_eq!(held.len(), 5, "deliveries go on");
    let claims: Vec<_> = held.iter().map(|held| held.claim.clone()).collect();
    let renewed = store.renew(Default::default(), &claims).await.expect("renewals go on");
    assert_eq!(renewed, [Renewed::Held; 5]);
    let outcomes = [
        Outcome::Retry { after: Duration::ZERO, cause: "no".into() },
        Outcome::Park { cause: "no".into() },
        Outcome::Release,
        Outcome::Snooze { after: Duration::ZERO },
        Outcome::Done,
    ];
    let settle = |(held, outcome): (Delivery, _)| Settlement { claim: held.claim, outcome };
    let settlements: Vec<_> = held.drain(..).zip(outcomes).map(settle).collect();
    let settled = store.settle(&settlements).await.expect("settlements go on");
    assert!(settled.iter().all(|settled| matches!(settled, Settled::Applied(_))), "{settled:?}");
    store.sweep().await.expect("sweeps go on");
    // It drains, and what has ended leaves when its time is over: here at once.
    let keeping = jobs_core::retention::Retention {
        done: Duration::ZERO,
        ..jobs_core::retention::Retention::default()
    };
    let options = Options::new(&server.url()).expect("a URL").retention(keeping);
    let sweeper = Redis::open(options).await.expect("the server answers");
    let mut ended = 1;
    while ended < stored - 1 {
        let batch: Vec<_> = take(&store, 50).await.into_iter().map(done).collect();
        ended += batch.len();
        store.settle(&batch).await.expect("settlements go on");
        while sweeper.sweep().await.expect("sweeps go on").more {}
    }
    while sweeper.sweep().await.expect("sweeps go on").pruned > 0 {}
    assert_eq!(store.enqueue(&[large()]).await.remove(0).expect("there is room"), Pushed::Stored);
}

async fn forgotten() {
    let server = PrivateRedis::start().expect("it starts");
    let store = store(&server.url()).await;
    for _ in 0..20 {
        let pushed = push(&store, job("acme")).await;
        server.cli(&["script", "flush"]).expect("it forgets");
        let held = take(&store, 1).await;
        assert_eq!(held[0].job.id, pushed.id);
        server.cli(&["script", "flush"]).expect("it forgets");
        let batch: Vec<_> = held.into_iter().map(done).collect();
        let both = store.settle_and_reserve(&batch, &wants(1)).await.expect("it answers");
        assert_eq!(both.0, [Settled::Applied(State::Done)]);
        server.cli(&["script", "flush"]).expect("it forgets");
    }
}

/// A claim that a failover took back, and then gave to another under the same fence.
async fn given_again() {
    let server = PrivateRedis::start().expect("it starts");
    let store = store(&server.url()).await;
    let pushed = push(&store, job("acme")).await;
    let id = pushed.id.0.simple().to_string();
    let key = |name: &str| format!("{{jobs:0}}:{name}");
    let keys = [key(&format!("j/acme/{id}")), key("r/work/acme/noop"), key("ring/work/noop")];
    let index = [key("i/1/work/acme"), key("c/work/acme")];
    let all: Vec<_> = keys.iter().chain(&index).collect();
    // As the promoted replica has it, which was never sent the claim.
    for at in &all {
        server.cli(&["copy", at, &format!("{at}:before")]).expect("copies");
    }
    let stale = take(&store, 1).await.remove(0).claim;
    for at in &all {
        server.cli(&["copy", &format!("{at}:before"), at, "replace"]).expect("copies");
    }
    server.cli(&["del", &key("l/work/acme"), &key("lease")]).expect("deletes");
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

/// Pushes go on while the server is killed, more than once: whatever was answered is there.
async fn killed() {
    let server = PrivateRedis::start_with(&["--appendfsync", "always"]).expect("it starts");
    let options = Options::new(&server.url()).expect("a URL").durability(Durability::Durable);
    let store = Redis::open(options).await.expect("it is durable");
    store.migrate().await.expect("it migrates");
    let over = Arc::new(AtomicBool::new(false));
    let pushing = tokio::spawn({
        let (store, over) = (store.clone(), over.clone());
        async move {
            let mut acknowledged: Vec<JobId> = Vec::new();
            while !over.load(Ordering::Relaxed) {
                let jobs: Vec<_> = (0..20).map(|_| checked(job("acme"))).collect();
                let answers = store.enqueue(&jobs).await;
                let stored = jobs.iter().zip(answers).filter(|(_, answer)| answer.is_ok());
                acknowledged.extend(stored.map(|(job, _)| job.id));
            }
            acknowledged
        }
    });
    let mut server = server;
    for _ in 0..4 {
        tokio::time::sleep(Duration::from_millis(400)).await;
        server = again(server).await;
    }
    tokio::time::sleep(Duration::from_millis(400)).await;
    over.store(true, Ordering::Relaxed);
    let acknowledged = pushing.await.expect("no panic");
    assert!(acknowledged.len() > 100, "{} pushes", acknowledged.len());
    let mut ended = std::collections::HashSet::new();
    loop {
        let held = take(&store, 500).await;
        if held.is_empty() {
            break;
        }
        for held in &held {
            assert!(ended.insert(held.job.id), "{} is delivered twice", held.job.id);
        }
        let batch: Vec<_> = held.into_iter().map(done).collect();
        store.settle(&batch).await.expect("it answers");
    }
    let lost = acknowledged.iter().filter(|id| !ended.contains(id)).count();
    assert_eq!(lost, 0, "of {} acknowledged", acknowledged.len());
}

/// The server, killed and started again.
async fn again(mut server: PrivateRedis) -> PrivateRedis {
    let restart = move || {
        server.kill().expect("it ran");
        server.start_again().expect("it starts");
        server
    };
    tokio::task::spawn_blocking(restart).await.expect("no panic")
}

/// A worker's loop over one handle goes on within seconds, each time; with JOBS_TEST_TIMES=5 it is fifty
/// restarts.
async fn resumes() {
    let mut server = PrivateRedis::start().expect("it starts");
    let store = store(&server.url()).await;
    let pusher = Redis::connect(&server.url()).await.expect("the server answers");
    for round in 0..times(10) {
        server = again(server).await;
        let began = Instant::now();
        let mine = checked(job("acme"));
        while pusher.enqueue(std::slice::from_ref(&mine)).await.remove(0).is_err() {}
        loop {
            let Ok(reserved) = store.reserve(&wants(10)).await else { continue };
            let found = reserved.deliveries.iter().any(|held| held.job.id == mine.id);
            let batch: Vec<_> = reserved.deliveries.into_iter().map(done).collect();
            store.settle(&batch).await.expect("it answers");
            if found {
                break;
            }
            assert!(began.elapsed() < Duration::from_secs(5), "round {round}");
        }
        assert!(began.elapsed() < Duration::from_secs(5), "round {round}: {:?}", began.elapsed());
    }
}

/// How many clients the server has, redis-cli itself not counted.
fn clients(server: &PrivateRedis) -> usize {
    server.cli(&["client", "list"]).expect("it answers").lines().count() - 1
}

async fn dropped() {
    let server = PrivateRedis::start().expect("it starts");
    let store = store(&server.url()).await;
    push(&store, job("acme")).await;
    let before = clients(&server);
    for _ in 0..5 {
        let own = store.open_own().await.expect("it opens");
        let watch = own.watch(&["work".to_owned()]).await.expect("it watches");
        assert_eq!(own.reserve(&wants(0)).await.expect("it answers").deliveries, []);
        own.sweep().await.expect("it answers");
        assert!(clients(&server) > before, "it has connections of its own");
        drop((watch, own));
    }
    // Of a runtime that ends before its handle.
    let other = store.clone();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.expect("a runtime");
    runtime.spawn(async move { other.sweep().await }).await.expect("no panic").expect("it answers");
    runtime.shutdown_background();
    let began = Instant::now();
    while clients(&server) > before {
        assert!(began.elapsed() < Duration::from_secs(5), "{} of {before}", clients(&server));
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// As after an hour was taken back: the key that keeps publishers silent is there for an hour.
async fn set_back() {
    let server = PrivateRedis::start().expect("it starts");
    let store = store(&server.url()).await;
    let other = Redis::connect(&server.url()).await.expect("the server answers");
    let mut watch = other.watch(&["work".to_owned()]).await.expect("it watches");
    let hour = 3_600_000;
    let future = server.cli(&["time"]).expect("it answers");
    let seconds: u64 = future.lines().next().and_then(|s| s.parse().ok()).expect("a time");
    let future = (seconds * 1000 + hour).to_string();
    server.cli(&["set", "{jobs:0}:wake/work", &future, "px", "3600000"]).expect("it is set");
    push(&store, job("acme")).await;
    let woken = tokio::time::timeout(Duration::from_secs(5), watch.woken()).await;
    woken.expect("it is woken");
    let left = server.cli(&["pttl", "{jobs:0}:wake/work"]).expect("it answers");
    assert!(left.parse::<i64>().expect("a number") <= 50, "{left} ms of silence");
}

async fn lent() {
    let server = PrivateRedis::start().expect("it starts");
    let config = Config::from_url(&server.url()).expect("a URL");
    let pool = Builder::from_config(config).build_pool(2).expect("a pool");
    pool.init().await.expect("the server answers");
    let before = clients(&server);
    let lent = [Options::with_client(pool.next()), Options::with_pool(&pool)];
    for options in lent {
        let store = Redis::open(options.expect("a runtime")).await.expect("the server answers");
        store.migrate().await.expect("it migrates");
        let pushed = push(&store, job("acme")).await;
        let held = take(&store, 1).await;
        assert_eq!(held[0].job.id, pushed.id);
        let batch: Vec<_> = held.into_iter().map(done).collect();
        let settled = store.settle(&batch).await.expect("it answers");
        assert_eq!(settled, [Settled::Applied(State::Done)]);
        assert_eq!(clients(&server), before, "no other connection");
        // Another runtime's calls cannot go over it.
        let other = store.clone();
        let elsewhere = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.expect("a runtime").block_on(async move { other.sweep().await })
        });
        elsewhere.join().expect("no panic").expect("it answers");
    }
    let still: String = pool.ping(None).await.expect("it is open");
    assert_eq!(still, "PONG");
    let outside = std::thread::spawn(move || Options::with_pool(&pool)).join().expect("no panic");
    assert_eq!(outside.expect_err("no runtime").kind(), ErrorKind::Refused);
}
