//! What a reserve costs grows neither with what waits nor with what was claimed.

use std::{
    process::ExitCode,
    time::{Duration, Instant},
};

use jobs_core::Queue;
use jobs_mongo::Mongo;
use jobs_testkit::kit::{NAME, QUEUE, wants};
use mongodb::{
    Database,
    bson::{DateTime, Document, doc},
};

mod common;

use common::{
    URL,
    run::{Own, Test, all},
    variable,
};

const TESTS: &[Test] = &[
    ("as_much_with_100_000_as_with_10_000", || Box::pin(waiting())),
    ("after_50_000_claims_no_more_than_twice_as_long", || Box::pin(claimed())),
];

fn main() -> ExitCode {
    all(TESTS, variable(URL).err())
}

/// Stores waiting jobs of one tenant as pushes do.
async fn fill(database: &Database, jobs: i64) {
    let stored = database.collection::<Document>("jobs_jobs");
    let line = format!("r/{QUEUE}/{NAME}/0/acme/100");
    let of = |at: i64| {
        let id = uuid::Uuid::from_u128(u128::from(at.unsigned_abs()) | 7 << 76 | 2 << 62);
        doc! {
            "_id": format!("{id}/acme"), "queue": QUEUE, "tenant": "acme", "name": NAME,
            "action": "work.do", "authorized_by": "suite", "payload": "null", "priority": 0,
            "rank": "100", "max_attempts": 5, "timeout": 0_i64, "pushed_at": DateTime::from_millis(1),
            "run_at": DateTime::from_millis(1_000 + at), "state": 1, "line": &line, "fence": 0_i64,
            "attempt": 0, "token": 1_i64,
        }
    };
    for part in 0..jobs / 10_000 {
        let rows: Vec<_> = (part * 10_000..(part + 1) * 10_000).map(of).collect();
        stored.insert_many(rows).await.expect("stores");
    }
}

/// Keys and documents that the server looked at for reserves, and how long the median one took.
async fn cost(store: &Mongo, database: &Database) -> (i64, Duration) {
    database.run_command(doc! { "profile": 2 }).await.expect("it profiles");
    let mut took = Vec::new();
    for _ in 0..15 {
        let began = Instant::now();
        let taken = store.reserve(&wants(10)).await.expect("it answers").deliveries.len();
        took.push(began.elapsed());
        assert_eq!(taken, 10);
    }
    database.run_command(doc! { "profile": 0 }).await.expect("it stops");
    took.sort_unstable();
    let profile = database.collection::<Document>("system.profile");
    let sum = doc! { "$group": {
        "_id": null,
        "keys": { "$sum": "$keysExamined" },
        "docs": { "$sum": "$docsExamined" },
    } };
    let mut sums = profile.aggregate([sum]).await.expect("it answers");
    assert!(sums.advance().await.expect("it answers"), "something was profiled");
    let sums = Document::try_from(sums.current()).expect("a document");
    let number = |field: &str| {
        let number = sums.get_i64(field).or_else(|_| sums.get_i32(field).map(i64::from));
        number.expect("a number")
    };
    (number("keys") + number("docs"), took[took.len() / 2])
}

/// With JOBS_TEST_TIMES=10 it is 1,000,000.
async fn waiting() {
    let times = std::env::var("JOBS_TEST_TIMES").ok().and_then(|times| times.parse().ok());
    let mut costs = Vec::new();
    for jobs in [10_000, 100_000 * times.unwrap_or(1)] {
        let own = Own::new(&format!("depth{jobs}")).await;
        let store = own.store().await;
        fill(&own.database, jobs).await;
        let (looked_at, took) = cost(&store, &own.database).await;
        println!("15 reserves of 10 of {jobs}: {looked_at} keys and documents, median {took:?}");
        costs.push(looked_at);
        own.drop().await;
    }
    assert!(costs[1] * 2 <= costs[0] * 3, "{costs:?}");
}

async fn claimed() {
    let own = Own::new("claimed").await;
    let store = own.store().await;
    fill(&own.database, 60_000).await;
    let (_, first) = cost(&store, &own.database).await;
    let mut taken = 0;
    while taken < 50_000 {
        let count = store.reserve(&wants(500)).await.expect("it answers").deliveries.len();
        assert!(count > 0, "{taken} were taken");
        taken += count;
    }
    // Whatever else the machine does falls on some, and none of what is claimed is gone by then.
    let mut last = Duration::MAX;
    for _ in 0..3 {
        let own = own.database.clone();
        own.collection::<Document>("system.profile").drop().await.expect("drops");
        last = last.min(cost(&store, &own).await.1);
    }
    println!("a reserve of 10 took {first:?}, after {taken} claims {last:?}");
    assert!(last < first * 2, "{first:?}, then {last:?}");
    own.drop().await;
}
