//! What holds of every function of the schema, whatever else is in the database: nobody else's
//! functions run in it, and its plans are right whatever they were made on.

use std::process::ExitCode;

use jobs_core::{AuthorizedJob, Job, Queue, queue::Pushed};
use jobs_postgres::{Options, Postgres};
use jobs_testkit::kit::{NAME, QUEUE, checked, job};
use sqlx::{AssertSqlSafe, Connection, Row};
use uuid::Uuid;

mod common;

use common::{Test, drop_role, drop_schema, number, role, rows, run_sql, store, unique, works};

const TESTS: &[Test] = tests![
    each_is_pinned,
    nobody_elses_function_runs,
    a_keyed_push_planned_on_empty_tables,
    a_line_alone_and_what_is_found_after_it,
    lanes_found_after_a_line_alone_take_turns,
    a_reserve_locks_only_what_it_takes,
];

fn main() -> ExitCode {
    common::run(&[common::URL], TESTS)
}

/// But for now_ms, whose calls are exact matches only and which is inlined.
async fn each_is_pinned() {
    let schema = unique("pinned");
    store(&schema).await;
    let bare = rows(&format!(
        "SELECT p.proname FROM pg_proc p WHERE p.pronamespace = '{schema}'::regnamespace
         AND NOT coalesce('search_path=pg_catalog, pg_temp' = ANY (p.proconfig), false)"
    ))
    .await;
    let bare: Vec<String> = bare.iter().map(|row| row.get(0)).collect();
    assert_eq!(bare, ["now_ms"], "without a search_path of their own");
    // Those that only call another, or compute, have nothing to plan.
    let unplanned = rows(&format!(
        "SELECT p.proname FROM pg_proc p WHERE p.pronamespace = '{schema}'::regnamespace
         AND NOT coalesce('enable_seqscan=off' = ANY (p.proconfig), false) ORDER BY 1"
    ))
    .await;
    let unplanned: Vec<String> = unplanned.iter().map(|row| row.get(0)).collect();
    assert_eq!(unplanned, ["enqueue_briefly", "is_held", "now_ms"], "without a plan of their own");
    drop_schema(&schema).await;
}

/// A role that may create functions makes better matches of what the driver calls.
async fn nobody_elses_function_runs() {
    let (schema, traps, user) = (unique("path"), unique("traps"), unique("user"));
    store(&schema).await;
    let url_of_user = role(&user).await;
    run_sql(&format!(
        "CREATE SCHEMA {traps}; CREATE TABLE {traps}.sprung (what text);
         CREATE FUNCTION {traps}.unnest(text[]) RETURNS SETOF text LANGUAGE sql AS
           $$ INSERT INTO {traps}.sprung VALUES ('unnest'); SELECT pg_catalog.unnest($1) $$;
         CREATE FUNCTION {traps}.cardinality(text[]) RETURNS int4 LANGUAGE sql AS
           $$ INSERT INTO {traps}.sprung VALUES ('cardinality'); SELECT pg_catalog.cardinality($1) $$;
         CREATE FUNCTION {traps}.cardinality(uuid[]) RETURNS int4 LANGUAGE sql AS
           $$ INSERT INTO {traps}.sprung VALUES ('cardinality'); SELECT pg_catalog.cardinality($1) $$;
         GRANT USAGE ON SCHEMA {schema}, {traps} TO {user};
         GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {schema}, {traps} TO {user};
         ALTER ROLE {user} SET search_path = {traps}, pg_catalog"
    ))
    .await;
    // The traps work.
    common::run_sql_at(&url_of_user, "SELECT unnest(ARRAY['a'])").await;
    let sprung = format!("SELECT count(*) FROM {traps}.sprung");
    assert_eq!(number(&sprung).await, 1);
    let options = Options::new(&url_of_user).and_then(|options| options.schema(&schema));
    let store = Postgres::open(options.expect("a URL")).await.expect("it answers");
    works(&store).await;
    store.sweep().await.expect("it answers");
    assert_eq!(number(&sprung).await, 1, "somebody else's function ran in the driver's");
    drop(store);
    drop_schema(&schema).await;
    drop_schema(&traps).await;
    drop_role(&user).await;
}

/// The plans of a session's first calls are kept; those of tables that were empty must not read all
/// of what came later.
async fn a_keyed_push_planned_on_empty_tables() {
    let schema = unique("plans");
    let options = common::options(&schema).connections(1);
    let store = Postgres::open(options).await.expect("the server answers");
    store.migrate().await.expect("it migrates");
    let keyed = |at: usize| job("acme").key(format!("k{at}"));
    for at in 0..8 {
        put(&store, &[checked(keyed(at))]).await;
    }
    let jobs: Vec<_> = (0..20_000).map(|_| checked(job("acme"))).collect();
    put(&store, &jobs).await;
    // As this session sees it: what its statements read of the table.
    let read = format!(
        "SELECT (seq_tup_read + idx_tup_fetch)::int8 FROM pg_stat_user_tables
         WHERE schemaname = '{schema}' AND relname = 'body'"
    );
    let settled = async || {
        let mut last = -1;
        loop {
            tokio::time::sleep(std::time::Duration::from_millis(1200)).await;
            let now = number(&read).await;
            if now == last {
                return now;
            }
            last = now;
        }
    };
    let before = settled().await;
    for at in 100..110 {
        put(&store, &[checked(keyed(at))]).await;
    }
    // Statistics are sent when a connection ends, at the latest.
    drop(store);
    let rows = settled().await - before;
    assert!(rows < 1_000, "ten pushes read {rows} of 20,000 rows");
    drop_schema(&schema).await;
}

async fn put(store: &Postgres, jobs: &[AuthorizedJob]) {
    for answer in store.enqueue(jobs).await {
        assert_eq!(answer.expect("it answers"), Pushed::Stored);
    }
}

/// Who is delivered by a reserve of `most` that knows the line of `z`, alone, and looks on from `m`.
async fn reserved(schema: &str, nonce: i64, most: i32) -> Vec<String> {
    let sql = format!(
        "SELECT tenant FROM {schema}.reserve('{QUEUE}', ARRAY['{NAME}'], '{{}}', {most}, {most}, 30000, {nonce},
           'w', 1, '{NAME}', false, 'm', 500, {schema}.now_ms(), '', false, ARRAY['{NAME}'], ARRAY[false],
           ARRAY['z'], ARRAY[0::int2], ARRAY[0::int8], ARRAY['{}'::uuid]) WHERE part = 1",
        Uuid::nil()
    );
    let mut tenants: Vec<String> = rows(&sql).await.iter().map(|row| row.get(0)).collect();
    tenants.sort();
    tenants
}

/// A line that is served alone, and lines that a look around finds behind it, are one reserve: its repetition
/// answers both.
async fn a_line_alone_and_what_is_found_after_it() {
    let schema = unique("both");
    let store = store(&schema).await;
    put(&store, &["z", "a"].map(|tenant| checked(job(tenant)))).await;
    assert_eq!(reserved(&schema, 7, 5).await, ["a", "z"]);
    assert_eq!(reserved(&schema, 7, 5).await, ["a", "z"], "asked again");
    drop_schema(&schema).await;
}

async fn lanes_found_after_a_line_alone_take_turns() {
    let schema = unique("around");
    let store = store(&schema).await;
    put(&store, &[checked(job("z"))]).await;
    for tenant in ["a", "b", "c"] {
        let jobs: Vec<_> = (0..20).map(|_| checked(job(tenant))).collect();
        put(&store, &jobs).await;
    }
    let tenants = reserved(&schema, 7, 25).await;
    let of = |tenant| tenants.iter().filter(|of| *of == tenant).count();
    assert_eq!(["a", "b", "c", "z"].map(of), [8, 8, 8, 1]);
    let visits = number(&format!("SELECT count(*) FROM {schema}.turn WHERE tenant > ''")).await;
    assert_eq!(visits, 3, "each is charged");
    drop_schema(&schema).await;
}

/// Of lanes with jobs of several names, each with more than a visit's worth.
async fn a_reserve_locks_only_what_it_takes() {
    let schema = unique("locks");
    let store = store(&schema).await;
    let names = ["one", "three", "two"];
    for tenant in ["a", "b"] {
        for name in names {
            let named = || checked(Job { name: name.to_owned(), ..job(tenant) });
            put(&store, &(0..20).map(|_| named()).collect::<Vec<_>>()).await;
        }
    }
    let mut conn = common::connect().await;
    let mut tx = conn.begin().await.expect("it begins");
    let reserve = format!(
        "SELECT count(*) FROM {schema}.reserve('{QUEUE}', ARRAY['one', 'three', 'two'], '{{}}', 16, 16, 30000,
           7, 'w', 2, '', false, '', 500, {schema}.now_ms(), '', false, '{{}}', '{{}}', '{{}}', '{{}}', '{{}}',
           '{{}}') WHERE part = 1"
    );
    let reserve = sqlx::raw_sql(AssertSqlSafe(reserve)).fetch_one(&mut *tx).await;
    assert_eq!(reserve.expect("it answers").get::<i64, _>(0), 16);
    let free = format!(
        "SELECT count(*) FROM (SELECT 1 FROM {schema}.live WHERE state = 1 FOR UPDATE SKIP LOCKED) v"
    );
    assert_eq!(number(&free).await, 120 - 16, "others' are locked");
    tx.rollback().await.expect("it rolls back");
    drop_schema(&schema).await;
}
