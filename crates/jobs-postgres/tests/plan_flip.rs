//! A worker that idled on an empty table until its statements were planned meets a crowd: the plans are
//! those of a large table from the start.

use std::process::ExitCode;

use jobs_core::{Outcome, Queue, Settlement};
use jobs_postgres::Postgres;
use jobs_testkit::kit::{NAME, QUEUE, wants};

mod common;

use common::{Test, drop_schema, number, run_sql, size, store, unique, until};

const TESTS: &[Test] = tests![no_scan_of_a_table_that_was_empty];

fn main() -> ExitCode {
    common::run(&[common::URL], TESTS)
}

/// How many come; with JOBS_TEST_TIMES=6 it is 300,000.
const CROWD: usize = 50_000;

/// Waiting jobs of tenant `t`, and nobody analyses the tables.
async fn crowd(schema: &str, jobs: usize) {
    run_sql(&format!(
        "INSERT INTO \"{schema}\".body (id, tenant, queue, name, action, authorized_by, payload, priority,
           max_attempts, timeout, key_scope, pushed_at, due)
         SELECT gen_random_uuid(), 't', '{QUEUE}', '{NAME}', 'suite.run', 'suite', 'null', 0, 5, 0, 0, 1, g
         FROM generate_series(1, {jobs}) g;
         INSERT INTO \"{schema}\".live (id, tenant, queue, name, state, rank, run_at, max_attempts)
         SELECT id, tenant, queue, name, 1, 0, due, max_attempts FROM \"{schema}\".body"
    ))
    .await;
}

async fn works(store: &Postgres, rounds: usize, expected: usize) {
    for _ in 0..rounds {
        let taken = store.reserve(&wants(50)).await.expect("the server answers").deliveries;
        assert_eq!(taken.len(), expected);
        let done = |delivery: &jobs_core::queue::Delivery| Settlement {
            claim: delivery.claim.clone(),
            outcome: Outcome::Done,
        };
        let done: Vec<_> = taken.iter().map(done).collect();
        store.settle(&done).await.expect("the server answers");
    }
}

/// How often the live table was read as a whole by such a worker; `altered` is done to the schema first.
async fn scans(altered: &str) -> i64 {
    let schema = unique("flip");
    let store = store(&schema).await;
    run_sql(&format!(
        "ALTER TABLE \"{schema}\".live SET (autovacuum_enabled = off);
         ALTER TABLE \"{schema}\".body SET (autovacuum_enabled = off)"
    ))
    .await;
    // As autovacuum would have done: of a table that it never saw, the planner supposes some pages.
    run_sql(&format!("VACUUM ANALYZE \"{schema}\".live")).await;
    run_sql(&format!("VACUUM ANALYZE \"{schema}\".body")).await;
    run_sql(&altered.replace("jobs.", &format!("\"{schema}\"."))).await;
    // A plan is kept from the sixth use on.
    works(&store, 20, 0).await;
    crowd(&schema, size(CROWD)).await;
    let stat = |column: &str| {
        format!(
            "(SELECT coalesce(sum({column}), 0)::int8 FROM pg_stat_user_tables WHERE relname = 'live' \
             AND schemaname = '{schema}')"
        )
    };
    let before = number(&format!("SELECT {}", stat("seq_scan"))).await;
    works(&store, 20, 50).await;
    // Counted when its connections end.
    drop(store);
    until(&format!("SELECT {} >= 1000", stat("n_tup_upd"))).await;
    let after = number(&format!("SELECT {}", stat("seq_scan"))).await;
    drop_schema(&schema).await;
    after - before
}

async fn no_scan_of_a_table_that_was_empty() {
    assert_eq!(scans("").await, 0, "scans of the live table");
    // Without their settings the same functions do.
    let bare = "ALTER FUNCTION jobs.take RESET ALL; ALTER FUNCTION jobs.finish RESET ALL; \
                ALTER FUNCTION jobs.reserve RESET ALL; ALTER FUNCTION jobs.look RESET ALL; \
                ALTER FUNCTION jobs.settle RESET ALL";
    assert!(scans(bare).await > 0, "the plans that it was made for do not come up");
}
