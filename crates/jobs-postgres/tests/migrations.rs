//! The driver's migrations: beside the application's, by many at once, by somebody else, and broken off.

use std::{
    io::Write,
    process::{Command, ExitCode, Stdio},
};

use jobs_core::{Admin, ErrorKind, Queue};
use jobs_postgres::{Options, Postgres, SCHEMA, sql};
use jobs_servers::PrivatePostgres;
use jobs_testkit::kit::{job, operator, push, take};
use sqlx::{
    Connection, Executor, PgConnection, PgPool, Row, SqlSafeStr,
    migrate::{Migrate, Migration, MigrationType, Migrator},
};
use url::Url;

mod common;

use common::{
    Test, connect, drop_schema, number, options, role, rows, run_sql, run_sql_at, store, unique,
    until, works,
};

const TESTS: &[Test] = tests![
    twice_is_once,
    by_many_handles_at_once,
    by_many_processes_at_once,
    after_the_applications,
    before_the_applications,
    at_once_with_the_applications,
    a_second_schema_beside,
    exported_for_an_owner,
    broken_off_it_leaves_nothing,
    where_something_of_that_name_is,
];

/// Set for a process that migrates the schema of this name.
const CHILD: &str = "JOBS_POSTGRES_MIGRATES";

fn main() -> ExitCode {
    let Ok(schema) = std::env::var(CHILD) else { return common::run(&[common::URL], TESTS) };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    runtime.expect("a runtime").block_on(async { drop(store(&schema).await) });
    ExitCode::SUCCESS
}

/// Everything in a schema by its kind and number, and which transaction made it.
async fn made(schema: &str) -> Vec<String> {
    let sql = format!(
        "SELECT 'c' || oid || ' ' || xmin FROM pg_class WHERE relnamespace = to_regnamespace('{schema}')
         UNION ALL
         SELECT 'f' || oid || ' ' || xmin FROM pg_proc WHERE pronamespace = to_regnamespace('{schema}')
         UNION ALL
         SELECT 't' || oid || ' ' || xmin FROM pg_type WHERE typnamespace = to_regnamespace('{schema}')
         ORDER BY 1"
    );
    rows(&sql).await.iter().map(|row| row.try_get(0).expect("text")).collect()
}

async fn versions(schema: &str) -> i64 {
    number(&format!("SELECT count(*) FROM {schema}.migration")).await
}

async fn twice_is_once() {
    let schema = unique("twice");
    let first = store(&schema).await;
    works(&first).await;
    let before = made(&schema).await;
    assert!(before.len() > 50, "tables, indexes, functions: {}", before.len());
    first.migrate().await.expect("nothing to do");
    let second = store(&schema).await;
    assert_eq!(made(&schema).await, before);
    assert_eq!(versions(&schema).await, i64::from(SCHEMA));
    works(&second).await;
    drop_schema(&schema).await;
}

async fn by_many_handles_at_once() {
    for _ in 0..3 {
        let schema = unique("handles");
        let one = |_| {
            let options = options(&schema);
            tokio::spawn(async move {
                let store = Postgres::open(options).await.expect("it connects");
                store.migrate().await.expect("it migrates");
                store.check(&operator().await).await.expect("it answers").schema
            })
        };
        let all: Vec<_> = (0..24).map(one).collect();
        for one in all {
            assert_eq!(one.await.expect("no panic"), SCHEMA);
        }
        assert_eq!(versions(&schema).await, i64::from(SCHEMA));
        works(&store(&schema).await).await;
        drop_schema(&schema).await;
    }
}

async fn by_many_processes_at_once() {
    let schema = unique("processes");
    let program = std::env::current_exe().expect("this program");
    let start = |_| Command::new(&program).env(CHILD, &schema).spawn().expect("it starts");
    let children: Vec<_> = (0..8).map(start).collect();
    for mut child in children {
        assert!(child.wait().expect("a child of ours").success());
    }
    assert_eq!(versions(&schema).await, i64::from(SCHEMA));
    works(&store(&schema).await).await;
    drop_schema(&schema).await;
}

/// The application's own migrations, in sqlx's own table.
fn applications() -> Migrator {
    let migration = |version, sql: &'static str| {
        let kind = MigrationType::Simple;
        Migration::new(version, "application".into(), kind, SqlSafeStr::into_sql_str(sql), false)
    };
    Migrator::with_migrations(vec![
        migration(1, "CREATE TABLE orders (id int8 PRIMARY KEY); SELECT pg_sleep(0.2)"),
        // The version that the driver's first has too.
        migration(2, "CREATE TABLE job (id int8 PRIMARY KEY REFERENCES orders)"),
        migration(20260101000000, "CREATE SCHEMA app; CREATE TABLE app.live (id int8)"),
    ])
}

async fn application(url: &str) {
    let pool = PgPool::connect(url).await.expect("it connects");
    applications().run(&pool).await.expect("the application's are its own");
    pool.close().await;
}

async fn drivers(url: &str) -> Postgres {
    let store = Postgres::connect(url).await.expect("it connects");
    store.migrate().await.expect("the driver's are its own");
    store
}

/// A database of a test's own, for what is outside of the driver's schema.
struct Database {
    name: String,
    url: String,
}

impl Database {
    async fn new(what: &str) -> Self {
        let name = unique(what);
        run_sql(&format!("CREATE DATABASE {name}")).await;
        let mut url: Url = common::url().parse().expect("a URL");
        url.set_path(&name);
        Self { url: url.into(), name }
    }

    async fn remove(self) {
        run_sql(&format!("DROP DATABASE {} WITH (FORCE)", self.name)).await;
    }

    /// Both are whole, and go on.
    async fn is_sound(&self) {
        let mut conn = PgConnection::connect(&self.url).await.expect("it connects");
        let counts =
            "SELECT (SELECT count(*) FROM _sqlx_migrations), (SELECT count(*) FROM jobs.migration)";
        let counts = conn.fetch_one(counts).await.expect("both are there");
        assert_eq!(counts.try_get::<i64, _>(0).expect("a number"), 3);
        assert_eq!(counts.try_get::<i64, _>(1).expect("a number"), i64::from(SCHEMA));
        conn.close().await.ok();
        application(&self.url).await;
        works(&drivers(&self.url).await).await;
    }
}

async fn after_the_applications() {
    let database = Database::new("after").await;
    application(&database.url).await;
    drop(drivers(&database.url).await);
    database.is_sound().await;
    database.remove().await;
}

async fn before_the_applications() {
    let database = Database::new("before").await;
    drop(drivers(&database.url).await);
    application(&database.url).await;
    database.is_sound().await;
    database.remove().await;
}

async fn at_once_with_the_applications() {
    let database = Database::new("at_once").await;
    let start = |at: usize| {
        let url = database.url.clone();
        tokio::spawn(async move {
            match at % 2 {
                0 => application(&url).await,
                _ => drop(drivers(&url).await),
            }
        })
    };
    let all: Vec<_> = (0..12).map(start).collect();
    for one in all {
        one.await.expect("no panic");
    }
    database.is_sound().await;
    // While the application's hold their lock and their tables, the driver's go on.
    run_sql_at(&database.url, "DROP SCHEMA jobs CASCADE").await;
    let mut conn = PgConnection::connect(&database.url).await.expect("it connects");
    conn.lock().await.expect("as the application's migrator does");
    let mut tx = conn.begin().await.expect("it begins");
    tx.execute("LOCK TABLE _sqlx_migrations, orders IN ACCESS EXCLUSIVE MODE")
        .await
        .expect("locks");
    works(&drivers(&database.url).await).await;
    tx.rollback().await.expect("rolls back");
    database.remove().await;
}

async fn a_second_schema_beside() {
    let (one, two) = (unique("one"), unique("two"));
    let (first, second) = tokio::join!(store(&one), store(&two));
    let pushed = push(&first, job("acme")).await;
    assert_eq!(take(&second, 10).await.len(), 0, "each has its own jobs");
    works(&second).await;
    drop_schema(&two).await;
    let taken = take(&first, 10).await;
    assert_eq!(taken.len(), 1);
    assert_eq!(taken[0].claim.job.id, pushed.id);
    drop_schema(&one).await;
}

/// Runs what a DBA is given, as a file.
fn psql(url: &str, text: &str) -> Result<(), String> {
    let folder = PrivatePostgres::find();
    let program = folder.map(|folder| folder.join("psql")).filter(|path| path.exists());
    let mut psql = Command::new(program.unwrap_or_else(|| "psql".into()));
    psql.args(["--no-psqlrc", "--quiet", "--set", "ON_ERROR_STOP=1", "--file", "-", url]);
    psql.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = psql.spawn().map_err(|error| format!("psql: {error}"))?;
    let mut input = child.stdin.take().ok_or("no input")?;
    // It may refuse before it has read everything.
    input.write_all(text.as_bytes()).ok();
    drop(input);
    let output = child.wait_with_output().map_err(|error| error.to_string())?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    if output.status.success() { Ok(()) } else { Err(said) }
}

async fn exported_for_an_owner() {
    // Quotes in the name are quoted in the file too.
    let (schema, owner, app) = (unique("own \"ed"), unique("owner"), unique("app"));
    let quoted = format!("\"{}\"", schema.replace('"', "\"\""));
    let (owner_url, app_url) = (role(&owner).await, role(&app).await);
    run_sql(&format!(
        "DO $$ BEGIN EXECUTE format('GRANT CREATE ON DATABASE %I TO {owner}', current_database()); END $$"
    ))
    .await;
    psql(&owner_url, &sql(&schema)).expect("the owner may");
    // As the documentation of `sql` says.
    let grants = format!(
        "GRANT USAGE ON SCHEMA {quoted} TO {app};
         GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {quoted} TO {app};"
    );
    psql(&owner_url, &grants).expect("the owner may");

    let options = Options::new(&app_url).expect("a URL").schema(&schema).expect("a name");
    let store = Postgres::open(options.clone()).await.expect("it opens");
    store.migrate().await.expect("nothing to do");
    works(&store).await;
    store.sweep().await.expect("it sweeps");
    assert_eq!(store.check(&operator().await).await.expect("it answers").schema, SCHEMA);
    // The same as what `migrate` makes.
    let migrated = unique("made");
    drop(common::store(&migrated).await);
    assert_eq!(shape(&migrated).await, shape(&schema).await);

    // Run once more, it changes nothing.
    let again = psql(&owner_url, &sql(&schema)).expect_err("it is there");
    assert!(again.contains("already exists"), "{again}");
    works(&store).await;
    // The application could not have made it itself.
    let other = options.schema(&unique("other")).expect("a name");
    let error = Postgres::open(other).await.expect("it opens").migrate().await.expect_err("no");
    assert_eq!(error.kind(), ErrorKind::Refused, "{error}");

    run_sql(&format!("DROP SCHEMA {quoted} CASCADE")).await;
    drop_schema(&migrated).await;
    run_sql(&format!("DROP OWNED BY {owner}, {app}; DROP ROLE {owner}, {app}")).await;
}

/// Tables with their columns, indexes and functions, without the schema's name.
async fn shape(schema: &str) -> Vec<String> {
    let name = schema.replace('\'', "''");
    let sql = format!(
        "SELECT format('%s.%s %s %s', c.relname, a.attname, a.atttypid::regtype, a.attnotnull)
         FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0
         JOIN pg_namespace n ON n.oid = c.relnamespace AND n.nspname = '{name}'
         UNION ALL
         SELECT format('%s %s %s', p.proname, p.pronargs, p.proconfig) FROM pg_proc p
         JOIN pg_namespace n ON n.oid = p.pronamespace AND n.nspname = '{name}'
         ORDER BY 1"
    );
    rows(&sql).await.iter().map(|row| row.try_get(0).expect("text")).collect()
}

/// How a migration ends half way.
#[derive(Clone, Copy, Debug)]
enum Ends {
    /// Its session is terminated.
    Terminated,
    /// Its caller gave it up.
    Dropped,
    /// Its process was killed.
    Killed,
}

async fn broken_off_it_leaves_nothing() {
    for ends in [Ends::Terminated, Ends::Dropped, Ends::Killed] {
        let schema = unique("broken");
        run_sql(&format!("CREATE SCHEMA {schema}")).await;
        // Somebody is about to make a table of one of its names: it waits in the middle.
        let mut other = connect().await;
        let mut tx = other.begin().await.expect("it begins");
        let table = format!("CREATE TABLE {schema}.minute (at int4)");
        tx.execute(sqlx::AssertSqlSafe(table)).await.expect("it is made");
        let waits = format!(
            "FROM pg_stat_activity a WHERE a.query LIKE '%{schema}%' AND a.pid <> pg_backend_pid() \
             AND a.wait_event_type = 'Lock'"
        );
        let store = Postgres::open(options(&schema)).await.expect("it connects");
        let migrates = store.clone();
        let mut child = None;
        let task = match ends {
            Ends::Killed => {
                let program = std::env::current_exe().expect("this program");
                let mut command = Command::new(program);
                command.env(CHILD, &schema).stderr(Stdio::null());
                child = Some(command.spawn().expect("it starts"));
                tokio::spawn(async { Ok(()) })
            }
            _ => tokio::spawn(async move { migrates.migrate().await }),
        };
        until(&format!("SELECT count(*) = 1 {waits}")).await;
        let pid = number(&format!("SELECT a.pid::int8 {waits}")).await;
        match ends {
            Ends::Terminated => {
                number(&format!("SELECT pg_terminate_backend({pid})::int4::int8")).await;
                let error = task.await.expect("no panic").expect_err("it was terminated");
                assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
                assert!(error.to_string().contains("try again"), "{error}");
            }
            Ends::Dropped => {
                task.abort();
                task.await.expect_err("it was aborted");
            }
            Ends::Killed => {
                let mut child = child.expect("a child");
                child.kill().expect("it runs");
                child.wait().expect("it was killed");
            }
        }
        tx.rollback().await.expect("rolls back");
        // The session goes to the end of what it was given, and finds nobody to commit it.
        until(&format!("SELECT count(*) = 0 FROM pg_stat_activity WHERE pid = {pid}")).await;
        assert_eq!(made(&schema).await, [""; 0], "{ends:?}");
        store.migrate().await.expect("it starts from nothing");
        works(&store).await;
        drop_schema(&schema).await;
    }
}

async fn where_something_of_that_name_is() {
    let schema = unique("taken");
    run_sql(&format!("CREATE SCHEMA {schema}; CREATE TABLE {schema}.minute (at int4)")).await;
    let before = made(&schema).await;
    let store = Postgres::open(options(&schema)).await.expect("it connects");
    let error = store.migrate().await.expect_err("the name is taken");
    assert_eq!(error.kind(), ErrorKind::Refused, "{error}");
    let what = error.to_string();
    assert!(what.contains("minute") && what.contains("name another schema"), "{what}");
    assert_eq!(made(&schema).await, before, "nothing is half-made");
    run_sql(&format!("DROP TABLE {schema}.minute")).await;
    store.migrate().await.expect("it is free now");
    works(&store).await;
    drop_schema(&schema).await;
}
