//! Somebody's transaction that stays open keeps every dead row: a reserve does not walk over them.

use std::process::ExitCode;

use jobs_core::{Outcome, Queue, Settlement};
use jobs_testkit::kit::{checked, job, wants};
use sqlx::{Executor, Row};
use uuid::Uuid;

mod common;

use common::{
    Test,
    buffers::{Look, of_reserve},
    connect, drop_schema, rows, size, store, unique,
};

const TESTS: &[Test] = tests![a_reserve_reads_no_more];

fn main() -> ExitCode {
    common::run(&[common::URL], TESTS)
}

/// Pushed, delivered and settled as done while it is open; with JOBS_TEST_TIMES=10 it is 200,000.
const CHURN: usize = 20_000;

/// Such a job pushed, taken and done, so many times.
async fn churn(store: &jobs_postgres::Postgres, jobs: usize) {
    for _ in 0..jobs / 500 {
        let batch: Vec<_> = (0..500).map(|_| checked(job("t"))).collect();
        assert!(store.enqueue(&batch).await.iter().all(Result::is_ok));
        let taken = store.reserve(&wants(500)).await.expect("the server answers").deliveries;
        assert_eq!(taken.len(), 500);
        let done = |delivery: &jobs_core::queue::Delivery| Settlement {
            claim: delivery.claim.clone(),
            outcome: Outcome::Done,
        };
        let done: Vec<_> = taken.iter().map(done).collect();
        store.settle(&done).await.expect("the server answers");
    }
}

async fn a_reserve_reads_no_more() {
    let schema = unique("snapshot");
    let store = store(&schema).await;
    let mut conn = connect().await;
    // What each reserve reads: one that is filled, one that is not, and each with a look.
    let mut read = async || {
        let last = format!("SELECT run_at, id FROM \"{schema}\".done ORDER BY id DESC LIMIT 1");
        let last = &rows(&last).await[0];
        let place = ("t", last.get::<i64, _>(0), last.get::<Uuid, _>(1));
        let waiting: Vec<_> = (0..20).map(|_| checked(job("t"))).collect();
        assert!(store.enqueue(&waiting).await.iter().all(Result::is_ok));
        let mut counts = Vec::new();
        for look in [Look::Nothing, Look::OtherLines, Look::AllLines] {
            for most in [10, 100] {
                // Once before, so that what is read for the first time is not counted.
                of_reserve(&mut conn, &schema, place, most, look).await;
                counts.push(of_reserve(&mut conn, &schema, place, most, look).await);
            }
        }
        let taken = store.reserve(&wants(20)).await.expect("the server answers").deliveries;
        for delivery in taken {
            let settlement = Settlement { claim: delivery.claim, outcome: Outcome::Done };
            store.settle(&[settlement]).await.expect("the server answers");
        }
        counts
    };
    churn(&store, 500).await;
    let before = read().await;
    let mut open = connect().await;
    open.execute("BEGIN ISOLATION LEVEL REPEATABLE READ").await.expect("the server answers");
    sqlx::query("SELECT count(*) FROM pg_class").fetch_one(&mut open).await.expect("a snapshot");
    churn(&store, size(CHURN)).await;
    let after = read().await;
    open.execute("COMMIT").await.expect("the server answers");
    println!("buffers before {before:?}, after the churn {after:?}");
    for (at, (before, after)) in before.iter().zip(&after).take(4).enumerate() {
        assert!(*after <= before * 3 / 2 + 32, "reserve {at}: {before} buffers, then {after}");
    }
    // The dead entries are there: a look at all lines walks them, which is why it is made less often.
    assert!(after[4] > 3 * before[4], "{before:?}, {after:?}");
    drop(store);
    drop_schema(&schema).await;
}
