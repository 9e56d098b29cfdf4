//! Paused lanes hide nobody's job, however many of them have work.

use std::{process::ExitCode, time::Duration};

use jobs_core::Queue;
use jobs_testkit::kit::{NAME, QUEUE, job, push, wants};

mod common;

use common::{Test, drop_schema, run_sql, store, unique};

const TESTS: &[Test] = tests![a_due_job_behind_paused_lanes, behind_more_than_one_call_looks_at];

fn main() -> ExitCode {
    common::run(&[common::URL], TESTS)
}

/// Stores a waiting job of each of so many tenants, whose lanes are paused; all sort before `z`.
async fn pause(schema: &str, tenants: usize) {
    run_sql(&format!(
        "SET search_path = \"{schema}\";
         INSERT INTO body (id, tenant, queue, name, action, authorized_by, payload, priority, max_attempts,
           timeout, key_scope, pushed_at, due)
         SELECT gen_random_uuid(), 'p' || g, '{QUEUE}', '{NAME}', 'work.do', 'suite', 'null', 0, 5, 0, 0, 1,
           1000 + g FROM generate_series(1, {tenants}) g;
         INSERT INTO live (id, tenant, queue, name, state, rank, run_at, max_attempts)
         SELECT id, tenant, queue, name, 1, 0, due, max_attempts FROM body;
         INSERT INTO lane (queue, tenant, paused_until)
         SELECT queue, tenant, 7289654399999 FROM body;
         ANALYZE live; ANALYZE body; ANALYZE lane"
    ))
    .await;
}

/// Of a handle that knows nothing yet, the first reserve; of one that has looked around, the next.
async fn a_due_job_behind_paused_lanes() {
    let schema = unique("paused");
    let pushes = store(&schema).await;
    pause(&schema, 6_000).await;
    let due = push(&pushes, job("z")).await;
    let looks = store(&schema).await;
    let taken = looks.reserve(&wants(5)).await.expect("it answers").deliveries;
    assert_eq!(taken.iter().map(|taken| taken.job.id).collect::<Vec<_>>(), [due.id]);
    let due = push(&pushes, job("z")).await;
    tokio::time::sleep(Duration::from_millis(250)).await;
    let taken = looks.reserve(&wants(5)).await.expect("it answers").deliveries;
    assert_eq!(taken.iter().map(|taken| taken.job.id).collect::<Vec<_>>(), [due.id]);
    drop_schema(&schema).await;
}

/// An answer that has not looked at all of them says to ask again at once, one that has does not.
async fn behind_more_than_one_call_looks_at() {
    let schema = unique("more");
    let pushes = store(&schema).await;
    pause(&schema, 30_000).await;
    let looks = store(&schema).await;
    for _ in 0..2 {
        let due = push(&pushes, job("z")).await;
        tokio::time::sleep(Duration::from_millis(250)).await;
        let mut calls = 0;
        let taken = loop {
            calls += 1;
            let answer = looks.reserve(&wants(5)).await.expect("it answers");
            if !answer.deliveries.is_empty() {
                break answer.deliveries;
            }
            assert_eq!(answer.next_due, Some(Duration::ZERO), "after {calls} calls");
            assert!(calls < 6, "it is not found in {calls} calls");
        };
        assert_eq!(taken.iter().map(|taken| taken.job.id).collect::<Vec<_>>(), [due.id]);
    }
    // Where nothing is due, nobody asks without end.
    let mut calls = 0;
    while looks.reserve(&wants(5)).await.expect("it answers").next_due.is_some() {
        calls += 1;
        assert!(calls < 6, "there is nothing, and it asks again and again");
    }
    drop_schema(&schema).await;
}
