//! What a reserve costs does not grow with what waits, with what is finished, or with how many tenants
//! have work; and of ten thousand tenants each is served.

use std::{collections::HashSet, process::ExitCode};

use jobs_core::Queue;
use jobs_testkit::kit::{NAME, QUEUE, wants};
use uuid::Uuid;

mod common;

use common::{
    Test,
    buffers::{Look, of_reserve},
    connect, drop_schema, run_sql, size, store, unique,
};

const TESTS: &[Test] =
    tests![as_much_with_100_000_as_with_10_000, each_of_ten_thousand_tenants_is_served];

fn main() -> ExitCode {
    common::run(&[common::URL], TESTS)
}

/// Stores waiting jobs, spread over this many tenants `t…`, and as many finished ones of `t1`.
async fn fill(schema: &str, jobs: usize, tenants: usize) {
    run_sql(&format!(
        "SET search_path = \"{schema}\";
         INSERT INTO body (id, tenant, queue, name, action, authorized_by, payload, priority, max_attempts,
           timeout, key_scope, pushed_at, due)
         SELECT gen_random_uuid(), 't' || 1 + g % {tenants}, '{QUEUE}', '{NAME}', 'work.do', 'suite', 'null',
           0, 5, 0, 0, 1, 1000 + g FROM generate_series(1, {jobs}) g;
         INSERT INTO live (id, tenant, queue, name, state, rank, run_at, max_attempts)
         SELECT id, tenant, queue, name, 1, 0, due, max_attempts FROM body;
         INSERT INTO done (id, tenant, queue, state, run_at, ended_at, attempt, fence, nonce, outcome,
           snoozes, releases, suspect)
         SELECT gen_random_uuid(), 't1', '{QUEUE}', 4, 1, (extract(epoch FROM now()) * 1000)::int8, 1, 1, 1,
           0, 0, 0, false FROM generate_series(1, {jobs}) g;
         ANALYZE live; ANALYZE body; ANALYZE done"
    ))
    .await;
}

/// What a reserve of a hundred reads at this depth, from a place and with both looks.
async fn read(jobs: usize, tenants: usize) -> Vec<i64> {
    let schema = unique("depth");
    drop(store(&schema).await);
    fill(&schema, jobs, tenants).await;
    let mut conn = connect().await;
    let mut counts = Vec::new();
    for look in [Look::Nothing, Look::OtherLines, Look::AllLines] {
        // Once before, so that what is read for the first time is not counted.
        of_reserve(&mut conn, &schema, ("t1", 0, Uuid::nil()), 100, look).await;
        counts.push(of_reserve(&mut conn, &schema, ("t1", 0, Uuid::nil()), 100, look).await);
    }
    drop_schema(&schema).await;
    counts
}

/// With JOBS_TEST_TIMES=10 it is 1,000,000.
async fn as_much_with_100_000_as_with_10_000() {
    let (few, many) = (read(10_000, 1).await, read(size(100_000), 1).await);
    println!("buffers with 10,000 {few:?}, with 100,000 {many:?}");
    for (few, many) in few.iter().zip(&many) {
        assert!(*many <= few * 3 / 2, "{few} buffers with 10,000 jobs, {many} with 100,000");
    }
}

async fn each_of_ten_thousand_tenants_is_served() {
    let (few, many) = (read(4_000, 1_000).await, read(40_000, 10_000).await);
    println!("buffers with 1,000 tenants {few:?}, with 10,000 {many:?}");
    for (few, many) in few.iter().zip(&many) {
        assert!(*many <= few * 3 / 2, "{few} buffers with 1,000 tenants, {many} with 10,000");
    }
    let schema = unique("tenants");
    let store = store(&schema).await;
    fill(&schema, 200_000, 10_000).await;
    let mut served = HashSet::new();
    let mut delivered = 0;
    while served.len() < 10_000 {
        let taken = store.reserve(&wants(128)).await.expect("the server answers").deliveries;
        assert!(!taken.is_empty(), "{} tenants were served, and nothing is left", served.len());
        delivered += taken.len();
        served.extend(taken.into_iter().map(|delivery| delivery.claim.job.tenant));
        // Each visit is of eight at most, and nobody is visited a third time before all were once.
        assert!(delivered <= 160_000, "{} tenants were served", served.len());
    }
    println!("after {delivered} deliveries each tenant was served");
    drop(store);
    drop_schema(&schema).await;
}
