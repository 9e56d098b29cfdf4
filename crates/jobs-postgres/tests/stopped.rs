//! What somebody keeps or damages stops nobody's queue.

use std::process::ExitCode;

use jobs_core::{Outcome, Queue, Settled, Settlement, State};
use jobs_testkit::kit::{QUEUE, job, push, take, take_one, wants};
use sqlx::{AssertSqlSafe, Executor};

mod common;

use common::{Test, connect, drop_schema, store, unique};

const TESTS: &[Test] =
    tests![settlements_stand_where_the_turns_are_kept, a_row_out_of_range_is_refused];

fn main() -> ExitCode {
    common::run(&[common::URL], TESTS)
}

/// A process that stalled in the middle of a reserve keeps the queue's turns: others get no deliveries for
/// a while, and what they settle in the same call is settled.
async fn settlements_stand_where_the_turns_are_kept() {
    let schema = unique("turns");
    let store = store(&schema).await;
    push(&store, job("acme")).await;
    let held = take_one(&store).await;
    for tenant in ["acme", "globex"] {
        push(&store, job(tenant)).await;
    }
    let mut stalled = connect().await;
    let turns = format!(
        "BEGIN; SELECT pg_advisory_xact_lock(hashtext('\"{schema}\".turn'), hashtext('{QUEUE}'))"
    );
    stalled.execute(sqlx::raw_sql(AssertSqlSafe(turns))).await.expect("the lock is free");
    let done = Settlement { claim: held.claim.clone(), outcome: Outcome::Done };
    let both = store.settle_and_reserve(&[done], &wants(5)).await;
    let (settled, reserved) = both.expect("it is no error");
    assert_eq!(settled, [Settled::Applied(State::Done)]);
    assert!(reserved.deliveries.is_empty(), "nobody's turn can be known");
    assert_eq!(reserved.next_due, Some(std::time::Duration::ZERO), "it is worth asking again");
    stalled.execute("ROLLBACK").await.expect("the server answers");
    assert_eq!(take(&store, 5).await.len(), 2);
    drop(store);
    drop_schema(&schema).await;
}

/// A reserve adds to these, and an overflow would be an error of every reserve of the queue.
async fn a_row_out_of_range_is_refused() {
    let schema = unique("range");
    let store = store(&schema).await;
    push(&store, job("acme")).await;
    let mut conn = connect().await;
    for change in [
        "live SET fence = 9223372036854775807",
        "live SET attempt = 2147483647",
        "live SET rank = -32768",
        "queue SET weight = 0",
        "lane SET weight = 0",
    ] {
        let (table, _) = change.split_once(' ').expect("two words");
        let row = format!(
            "INSERT INTO \"{schema}\".queue (queue) VALUES ('{QUEUE}') ON CONFLICT DO NOTHING;
             INSERT INTO \"{schema}\".lane (queue, tenant) VALUES ('{QUEUE}', 'acme') ON CONFLICT DO NOTHING"
        );
        conn.execute(sqlx::raw_sql(AssertSqlSafe(row))).await.expect("a row of each");
        let sql = format!("UPDATE \"{schema}\".{change}");
        let error =
            conn.execute(sqlx::raw_sql(AssertSqlSafe(sql))).await.expect_err("out of range");
        assert!(error.to_string().contains("check constraint"), "{table}: {error}");
    }
    assert_eq!(take(&store, 5).await.len(), 1);
    drop(store);
    drop_schema(&schema).await;
}
