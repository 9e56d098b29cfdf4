//! What only a cluster does: its slots move from node to node, and a replica takes over.

use std::{
    collections::HashMap,
    process::ExitCode,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use jobs_core::{
    JobId, Outcome, Queue, Settled, Settlement,
    queue::{Delivery, Pushed},
};
use jobs_redis::{Options, Redis};
use jobs_servers::{PrivateRedis, PrivateRedisCluster};
use jobs_testkit::kit::{checked, job, wants};
use tokio::task::JoinHandle;

mod common;

use common::runner::{Test, run};

const TESTS: &[Test] = &[
    ("a_slot_moves_back_and_forth_under_load_and_nothing_is_lost", || Box::pin(moved())),
    ("a_promoted_replica_goes_on_and_lost_only_the_last_moment", || Box::pin(promoted())),
];

fn main() -> ExitCode {
    let missing = PrivateRedis::find().is_none();
    run(TESTS, missing.then(|| "there is no redis-server".to_owned()))
}

/// How long the slot goes on moving.
const LOAD: Duration = Duration::from_secs(8);

/// All in one slot, so that it is the one that moves.
async fn store(url: &str) -> Redis {
    let options = Options::new(url).expect("a URL").shards(1).expect("one");
    let store = Redis::open(options.deadline(Duration::from_secs(30))).await;
    let store = store.expect("the cluster answers");
    store.migrate().await.expect("it migrates");
    store
}

/// Pushes until it is over: what was acknowledged, and when.
fn pushing(store: Redis, over: Arc<AtomicBool>) -> JoinHandle<Vec<(JobId, Instant)>> {
    tokio::spawn(async move {
        let mut acknowledged = Vec::new();
        while !over.load(Ordering::Relaxed) {
            let jobs: Vec<_> = (0..10).map(|_| checked(job("acme"))).collect();
            let answers = store.enqueue(&jobs).await;
            let stored = jobs.iter().zip(answers);
            let stored = stored
                .filter(|(_, answer)| matches!(answer, Ok(Pushed::Stored | Pushed::Duplicate(_))));
            acknowledged.extend(stored.map(|(job, _)| (job.id, Instant::now())));
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        acknowledged
    })
}

/// Drains until it is over and nothing is left: how often each job ended.
fn draining(store: Redis, over: Arc<AtomicBool>) -> JoinHandle<HashMap<JobId, usize>> {
    tokio::spawn(async move {
        let (mut ended, mut idle) = (HashMap::<JobId, usize>::new(), 0);
        while idle < 5 {
            let request = wants(50);
            // Whatever an unheard reserve took is found by its nonce.
            let reserved = loop {
                if let Ok(reserved) = store.reserve(&request).await {
                    break reserved;
                }
            };
            let done = |held: Delivery| Settlement { claim: held.claim, outcome: Outcome::Done };
            let batch: Vec<_> = reserved.deliveries.into_iter().map(done).collect();
            let settled = loop {
                if let Ok(settled) = store.settle(&batch).await {
                    break settled;
                }
            };
            for (settlement, settled) in batch.iter().zip(settled) {
                let mine = matches!(settled, Settled::Applied(_) | Settled::AlreadyApplied(_));
                *ended.entry(settlement.claim.job.id).or_default() += usize::from(mine);
            }
            let last = over.load(Ordering::Relaxed) && batch.is_empty();
            idle = if last { idle + 1 } else { 0 };
            if batch.is_empty() {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        }
        ended
    })
}

/// Moves a slot key by key; answers how many keys moved. A BUSYKEY would be a key made on both sides.
fn move_slot(cluster: &PrivateRedisCluster, slot: &str, from: usize, to: usize) -> usize {
    let id = |node| cluster.cli(node, &["cluster", "myid"]).expect("answers");
    let (source, target) = (id(from), id(to));
    let set = |node, words: &[&str]| {
        let command = [&["cluster", "setslot", slot], words].concat();
        cluster.cli(node, &command).expect("it is set");
    };
    set(to, &["importing", &source]);
    set(from, &["migrating", &target]);
    let port = cluster.ports()[to].to_string();
    let mut moved = 0;
    loop {
        let keys = cluster.cli(from, &["cluster", "getkeysinslot", slot, "40"]).expect("answers");
        let keys: Vec<_> = keys.lines().filter(|key| !key.is_empty()).collect();
        if keys.is_empty() {
            break;
        }
        let migrate = ["migrate", "127.0.0.1", &port, "", "0", "5000", "keys"];
        let answer = cluster.cli(from, &[&migrate[..], &keys].concat()).expect("no BUSYKEY");
        assert!(answer == "OK" || answer == "NOKEY", "{answer}");
        moved += keys.len();
    }
    for node in [to, from, 0, 1, 2] {
        set(node, &["node", &target]);
    }
    moved
}

async fn moved() {
    let cluster = PrivateRedisCluster::start().expect("it starts");
    let (producer, worker) = (store(&cluster.url()).await, store(&cluster.url()).await);
    let over = Arc::new(AtomicBool::new(false));
    let pushing = pushing(producer, over.clone());
    let draining = draining(worker, over.clone());
    let moving = tokio::task::spawn_blocking(move || {
        let slot = cluster.cli(0, &["cluster", "keyslot", "{jobs:0}:meta"]).expect("answers");
        let number: u32 = slot.parse().expect("a slot");
        // As they were dealt: a third each.
        let mut at = ((number * 3) / 16384) as usize;
        let (began, mut moves, mut keys) = (Instant::now(), 0, 0);
        while began.elapsed() < LOAD {
            let to = (at + 1) % 3;
            keys += move_slot(&cluster, &slot, at, to);
            at = to;
            moves += 1;
            std::thread::sleep(Duration::from_millis(300));
        }
        (cluster, moves, keys)
    });
    let (cluster, moves, keys) = moving.await.expect("every move ends");
    over.store(true, Ordering::Relaxed);
    let acknowledged = pushing.await.expect("no panic");
    let ended = draining.await.expect("no panic");
    assert!(moves >= 2 && acknowledged.len() > 100, "{moves} moves, {}", acknowledged.len());
    let lost = acknowledged.iter().filter(|(id, _)| !ended.contains_key(id)).count();
    assert_eq!(lost, 0, "of {} acknowledged, in {moves} moves", acknowledged.len());
    let twice = ended.values().filter(|ended| **ended > 1).count();
    assert_eq!(twice, 0, "of {}", ended.len());
    println!("{moves} moves of {keys} keys, {} jobs", acknowledged.len());
    drop(cluster);
}

async fn promoted() {
    let mut cluster = PrivateRedisCluster::start().expect("it starts");
    // A prefix whose slot is the first master's, which has the replica.
    let prefix = (0..100)
        .map(|number| format!("p{number}"))
        .find(|prefix| {
            let key = format!("{{{prefix}:0}}:meta");
            let slot = cluster.cli(0, &["cluster", "keyslot", &key]).expect("answers");
            slot.parse::<u32>().expect("a slot") < 16384 / 3 - 1
        })
        .expect("one of them is");
    let open = || async {
        let options = Options::new(&cluster.url()).expect("a URL").prefix(&prefix);
        let options = options.expect("a prefix").shards(1).expect("one");
        let store = Redis::open(options.deadline(Duration::from_secs(30))).await;
        let store = store.expect("the cluster answers");
        store.migrate().await.expect("it migrates");
        store
    };
    let (producer, worker) = (open().await, open().await);
    let over = Arc::new(AtomicBool::new(false));
    let pushing = pushing(producer.clone(), over.clone());
    tokio::time::sleep(Duration::from_secs(1)).await;
    let killed = Instant::now();
    let cluster = tokio::task::spawn_blocking(move || {
        cluster.kill(0).expect("it ran");
        cluster.wait_for(3, "role", "master").expect("the replica takes over");
        cluster
    });
    let cluster = cluster.await.expect("no panic");
    let promoted = Instant::now();
    tokio::time::sleep(Duration::from_secs(2)).await;
    over.store(true, Ordering::Relaxed);
    let acknowledged = pushing.await.expect("no panic");
    let ended = draining(worker, over).await.expect("no panic");
    let lost: Vec<_> = acknowledged.iter().filter(|(id, _)| !ended.contains_key(id)).collect();
    let early = killed - Duration::from_secs(1);
    assert!(lost.iter().all(|(_, at)| *at > early && *at < promoted), "only of the last moment");
    let after = acknowledged.iter().filter(|(_, at)| *at > promoted).count();
    assert!(after > 0, "pushes go on, by the same handle");
    assert!(ended.values().all(|ended| *ended == 1), "each is settled once");
    println!("{} of {} acknowledged are lost, {after} came after", lost.len(), acknowledged.len());
    drop(cluster);
}
