//! What a sweep costs and leaves behind where the suite does not look: under somebody's long snapshot,
//! beside an open transaction, after a flood.

use std::{process::ExitCode, time::Duration};

use jobs_core::{Outcome, Queue, queue::Pushed};
use jobs_postgres::Postgres;
use jobs_testkit::{
    kit::{checked, job, push, take_one},
    ops::{settle, sweep_all},
};
use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection, Row};

mod common;

use common::{Test, connect, drop_schema, number, run_sql, store, unique, until};

const TESTS: &[Test] = tests![
    a_long_snapshot_costs_nothing_more,
    nothing_is_left_when_there_is_no_more,
    what_an_open_transaction_pushed_is_promoted,
    what_is_committed_while_a_sweep_looks_is_promoted,
    a_thousand_queues_are_looked_at_in_turn,
    a_long_history_is_counted_once_a_minute,
    two_sweeps_do_not_wait_for_each_other,
];

fn main() -> ExitCode {
    common::run(&[common::URL], TESTS)
}

/// The arguments of a sweep with the default retention.
const DEFAULTS: &str = "500, 86400000, 100000, 604800000, '~'";

/// How many blocks this statement reads, of the cache or not.
async fn blocks(conn: &mut PgConnection, sql: &str) -> i64 {
    let sql = format!("EXPLAIN (ANALYZE, BUFFERS, COSTS OFF, TIMING OFF, FORMAT JSON) {sql}");
    let row = sqlx::raw_sql(AssertSqlSafe(sql)).fetch_one(conn).await.expect("it answers");
    let plan: String = row.get_unchecked(0);
    let number = |name: &str| {
        let after = plan.split_once(&format!("\"{name}\": ")).expect("it is there").1;
        let digits: String = after.chars().take_while(char::is_ascii_digit).collect();
        digits.parse::<i64>().expect("a number")
    };
    number("Shared Hit Blocks") + number("Shared Read Blocks")
}

/// Ten thousand of everything that a sweep is for, of long ago.
async fn flood(schema: &str) {
    let sql = "
        INSERT INTO s.body SELECT 0, 0, 0, 5, 0, 0, gen_random_uuid(), 'acme', 'work',
          CASE i % 3 WHEN 0 THEN 'lost' WHEN 1 THEN 'due' ELSE 'done' END, 'a', 'b', NULL, NULL, '1'
        FROM generate_series(1, 30000) i;
        INSERT INTO s.live (run_at, max_attempts, state, rank, id, tenant, queue, name, lease_until,
          renewed_at, started_at, worker, fence, nonce, attempt)
        SELECT s.now_ms() - 3600000, 5, CASE name WHEN 'lost' THEN 2 ELSE 0 END, 0, id, tenant, queue,
          name, CASE name WHEN 'lost' THEN s.now_ms() - 3600000 END,
          CASE name WHEN 'lost' THEN s.now_ms() - 3600000 END,
          CASE name WHEN 'lost' THEN s.now_ms() - 3600000 END, 'w', 1, 1, 1
        FROM s.body WHERE name <> 'done';
        INSERT INTO s.done (run_at, ended_at, fence, nonce, attempt, snoozes, releases, state, suspect,
          id, tenant, queue, stub)
        SELECT 0, s.now_ms() - 864000000 + row_number() OVER (), 1, 1, 1, 0, 0,
          4 + row_number() OVER () % 2, false, id, tenant, queue, row_number() OVER () % 10 = 0
        FROM s.body WHERE name = 'done';
        INSERT INTO s.taken SELECT i, s.now_ms() - 7200000, '{}', '{}' FROM generate_series(1, 10000) i;
        INSERT INTO s.minute SELECT s.now_ms() - s.now_ms() % 60000 - 600000, 1, 0, false, 'work', 'acme'
        FROM generate_series(1, 10000);
        INSERT INTO s.turn SELECT i, (s.now_ms() - 7200000) * 1000 + i, 'work', 'n', 't' || i
        FROM generate_series(1, 10000) i;";
    run_sql(&sql.replace("s.", &format!("{schema}."))).await;
}

/// Somebody's snapshot, which keeps everything that is removed from now on.
async fn snapshot() -> PgConnection {
    let mut conn = connect().await;
    let begin = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SELECT count(*) FROM pg_class";
    (&mut conn).execute(sqlx::raw_sql(begin)).await.expect("it answers");
    conn
}

async fn a_long_snapshot_costs_nothing_more() {
    let schema = unique("snapshot");
    let store = store(&schema).await;
    // Planned while everything is empty.
    let mut conn = connect().await;
    let sweep = format!("SELECT * FROM {schema}.sweep({DEFAULTS})");
    let running = format!(
        "SELECT * FROM {schema}.list(NULL, NULL, 2::int2, NULL, NULL, NULL, 9, NULL, NULL)"
    );
    blocks(&mut conn, &sweep).await;
    blocks(&mut conn, &running).await;
    flood(&schema).await;
    // One that stays, so that its queue's history is looked at.
    push(&store, job("acme")).await;
    settle(&store, &take_one(&store).await.claim, Outcome::Done).await;
    let held = snapshot().await;
    sweep_all(&store).await;
    // The floors are those of the sweep before, once the transactions of then are over.
    let low = format!("SELECT count(*) FROM {schema}.swept WHERE floor = 0");
    for _ in 0..200 {
        store.sweep().await.expect("it answers");
        if number(&low).await == 0 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(number(&low).await, 0, "transactions that do not end keep the floors low");
    let (swept, listed) = (blocks(&mut conn, &sweep).await, blocks(&mut conn, &running).await);
    eprintln!("with 30,000 removed under a snapshot a sweep reads {swept} blocks, a list {listed}");
    assert!(swept < 600, "a sweep with nothing to do reads {swept} blocks");
    assert!(listed < 100, "a list of nothing reads {listed} blocks");
    held.close().await.ok();
    drop_schema(&schema).await;
}

async fn nothing_is_left_when_there_is_no_more() {
    let schema = unique("more");
    let store = store(&schema).await;
    flood(&schema).await;
    let lost = sweep_all(&store).await.len();
    assert_eq!(lost, 10_000);
    for (what, which) in [
        ("done", "true"),
        ("taken", "true"),
        ("minute", "NOT whole AND finished > 0"),
        ("turn", "true"),
        ("live", "state <> 1"),
        ("body", "name = 'done'"),
    ] {
        let left = number(&format!("SELECT count(*) FROM {schema}.{what} WHERE {which}")).await;
        assert_eq!(left, 0, "{what} WHERE {which}");
    }
    // What was counted is added up, that of an hour ago gone too.
    let counted = format!("SELECT sum(finished)::int8 FROM {schema}.minute");
    assert_eq!(number(&counted).await, 10_000);
    drop_schema(&schema).await;
}

/// Pushed ten minutes ago and due since, while sweeps went on; more than one of them promotes.
async fn what_an_open_transaction_pushed_is_promoted() {
    let schema = unique("open");
    let store = store(&schema).await;
    let mut conn = connect().await;
    let mut tx = conn.begin().await.expect("it begins");
    let soon = || checked(job("acme").after(Duration::from_secs(1)));
    let soon: Vec<_> = (0..600).map(|_| soon()).collect();
    let pushed = store.push_in(&mut tx, &soon).await.expect("it pushes");
    let ago = format!("UPDATE {schema}.live SET run_at = run_at - 600000");
    (&mut *tx).execute(sqlx::raw_sql(AssertSqlSafe(ago))).await.expect("it answers");
    for _ in 0..3 {
        assert_eq!(store.sweep().await.expect("it answers").promoted, 0, "not committed");
        // As if a minute went by between two.
        let later = format!("UPDATE {schema}.swept SET floor = floor - 60000, next = next - 60000");
        run_sql(&later).await;
    }
    tx.commit().await.expect("it commits");
    for promoted in [500, 100] {
        assert_eq!(store.sweep().await.expect("it answers").promoted, promoted);
    }
    pushed.wake();
    drop_schema(&schema).await;
}

/// After it has looked, and before it writes down from where the next one looks.
async fn what_is_committed_while_a_sweep_looks_is_promoted() {
    let schema = unique("looks");
    let store = store(&schema).await;
    let number = 7_305_141;
    run_sql(&format!(
        "CREATE FUNCTION {schema}.stop() RETURNS trigger LANGUAGE plpgsql
         AS $$ BEGIN PERFORM pg_advisory_xact_lock({number}); RETURN NEW; END $$;
         CREATE TRIGGER stop BEFORE UPDATE ON {schema}.live FOR EACH ROW
           WHEN (OLD.tenant = 'seen') EXECUTE FUNCTION {schema}.stop()"
    ))
    .await;
    let mut conn = connect().await;
    let mut tx = conn.begin().await.expect("it begins");
    let soon = |tenant| [checked(job(tenant).after(Duration::from_secs(1)))];
    let pushed = store.push_in(&mut tx, &soon("acme")).await.expect("it pushes");
    let ago = format!("UPDATE {schema}.live SET run_at = run_at - 600000");
    (&mut *tx).execute(sqlx::raw_sql(AssertSqlSafe(ago.clone()))).await.expect("it answers");
    assert_eq!(store.sweep().await.expect("it answers").promoted, 0, "not committed");
    // Another, which the next sweep finds, and at which the trigger stops it.
    let seen = store.enqueue(&soon("seen")).await.remove(0).expect("it pushes");
    assert_eq!(seen, Pushed::Stored);
    run_sql(&ago).await;
    let mut gate = connect().await;
    let lock = format!("SELECT pg_advisory_lock({number})");
    (&mut gate).execute(sqlx::raw_sql(AssertSqlSafe(lock))).await.expect("it answers");
    let sweeps = tokio::spawn({
        let store = store.clone();
        async move { store.sweep().await }
    });
    until(&format!(
        "SELECT EXISTS (SELECT 1 FROM pg_stat_activity WHERE query LIKE '%{schema}%sweep%'
           AND wait_event = 'advisory')"
    ))
    .await;
    tx.commit().await.expect("it commits");
    gate.close().await.expect("it closes");
    let swept = sweeps.await.expect("no panic").expect("it answers");
    assert_eq!(swept.promoted, 1, "what it saw");
    assert_eq!(store.sweep().await.expect("it answers").promoted, 1, "and what it did not");
    pushed.wake();
    drop_schema(&schema).await;
}

async fn a_thousand_queues_are_looked_at_in_turn() {
    let schema = unique("queues");
    let store = store(&schema).await;
    // All but those of the last queue in order are to be kept.
    run_sql(&format!(
        "INSERT INTO {schema}.done (run_at, ended_at, fence, nonce, attempt, snoozes, releases, state,
           suspect, id, tenant, queue)
         SELECT 0, {schema}.now_ms() - CASE i WHEN 1 THEN 864000000 ELSE 0 END, 1, 1, 1, 0, 0, 4, false,
           gen_random_uuid(), 'acme', 'q' || i FROM generate_series(1, 1000) i"
    ))
    .await;
    let mut conn = connect().await;
    (&mut conn).execute("BEGIN").await.expect("it begins");
    let sweep = format!("SELECT * FROM {schema}.sweep({DEFAULTS})");
    (&mut conn).execute(sqlx::raw_sql(AssertSqlSafe(sweep))).await.expect("it answers");
    let locks =
        "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()";
    let locks: i64 = (&mut conn).fetch_one(locks).await.expect("it answers").get(0);
    (&mut conn).execute("ROLLBACK").await.expect("it answers");
    assert_eq!(locks, 1, "however many queues there are");
    let mut rounds = 0;
    while store.sweep().await.expect("it answers").pruned == 0 {
        rounds += 1;
        assert!(rounds < 1000 / 64 + 1, "the last queue's turn did not come");
    }
    assert!(rounds >= 1000 / 64 - 1, "one round looked at more queues than it should");
    drop((store, conn));
    drop_schema(&schema).await;
}

async fn a_long_history_is_counted_once_a_minute() {
    let schema = unique("history");
    let store = store(&schema).await;
    run_sql(&format!(
        "INSERT INTO {schema}.done (run_at, ended_at, fence, nonce, attempt, snoozes, releases, state,
           suspect, id, tenant, queue)
         SELECT 0, {schema}.now_ms() - 600000 + i, 1, 1, 1, 0, 0, 4, false, gen_random_uuid(), 'acme',
           'work' FROM generate_series(1, 20000) i"
    ))
    .await;
    let mut conn = connect().await;
    let sweep = format!("SELECT * FROM {schema}.sweep(500, 86400000, 20000, 604800000, '~')");
    let first = blocks(&mut conn, &sweep).await;
    let second = blocks(&mut conn, &sweep).await;
    assert!(first > 5 * second, "{first} blocks, then {second}");
    let stale = format!("UPDATE {schema}.swept SET cut_at = cut_at - 60000");
    run_sql(&stale).await;
    let third = blocks(&mut conn, &sweep).await;
    assert!(third > second + 100, "after a minute it is counted again: {third} blocks");
    let kept = format!("SELECT count(*) FROM {schema}.done");
    assert_eq!(number(&kept).await, 20_000);
    drop((store, conn));
    drop_schema(&schema).await;
}

/// One that stalls in the middle keeps what it found, and no other from its work.
async fn two_sweeps_do_not_wait_for_each_other() {
    let schema = unique("two");
    let store: Postgres = store(&schema).await;
    flood(&schema).await;
    store.sweep().await.expect("it answers");
    let mut conn = connect().await;
    (&mut conn).execute("BEGIN").await.expect("it begins");
    let stale =
        format!("UPDATE {schema}.swept SET floor = 0, next = 0, next_xid = NULL, cut_at = 0");
    run_sql(&stale).await;
    let sweep = format!("SELECT * FROM {schema}.sweep({DEFAULTS})");
    (&mut conn).execute(sqlx::raw_sql(AssertSqlSafe(sweep))).await.expect("it answers");
    // It answers Busy where it waits for two seconds.
    sweep_all(&store).await;
    (&mut conn).execute("ROLLBACK").await.expect("it answers");
    sweep_all(&store).await;
    let left = number(&format!("SELECT count(*) FROM {schema}.done")).await;
    assert_eq!(left, 0, "what the first gave back");
    drop_schema(&schema).await;
}
