//! What the tests of this driver share: where the server is, a schema of a test's own, and a runner
//! that skips visibly where there is no server.

#![allow(dead_code, reason = "each test takes what it needs of it")]

use std::{
    fmt::Debug,
    future::Future,
    pin::Pin,
    process::ExitCode,
    sync::atomic::{AtomicU32, Ordering},
};

use jobs_core::{ErrorKind, Outcome, Queue, Settled, Settlement, State, queue::Renewed};
use jobs_postgres::{Options, Postgres};
use jobs_testkit::{harness::REQUIRE, kit};
use libtest_mimic::{Arguments, Failed, Trial};
use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection, Row, postgres::PgRow};
use url::Url;

pub mod buffers;
pub mod isolation;
pub mod schemas;

/// Of the server, as a user who may create databases and roles.
pub const URL: &str = "JOBS_TEST_POSTGRES_URL";
/// Of the same server through pgbouncer in transaction mode.
pub const POOLED_URL: &str = "JOBS_TEST_PGBOUNCER_URL";

/// What this variable says, or what to do about it.
pub fn variable(name: &str) -> Result<String, String> {
    let why = format!("set {name} to the URL of a server, or run `cargo xtask test --install`");
    std::env::var(name).map_err(|_| why)
}

/// Of how many jobs a test of sizes is: so many times its normal number, for the long forms.
pub fn size(normal: usize) -> usize {
    let times = std::env::var("JOBS_TEST_TIMES").ok();
    normal * times.map_or(1, |times| times.parse::<usize>().expect("JOBS_TEST_TIMES is a number"))
}

/// The server's URL, in a test that runs only where there is one.
pub fn url() -> String {
    variable(URL).expect("the runner asked for it")
}

/// A test's name and what it does.
pub type Test = (&'static str, fn() -> Pin<Box<dyn Future<Output = ()>>>);

/// Names tests after their functions.
#[macro_export]
macro_rules! tests {
    ($($test:ident),* $(,)?) => { &[$((stringify!($test), || Box::pin($test()))),*] };
}

/// Runs each on a runtime of its own; without these variables all are skipped, or fail where a skip
/// is forbidden.
pub fn run(needs: &[&str], tests: &'static [Test]) -> ExitCode {
    let missing = needs.iter().find_map(|name| variable(name).err());
    let required = std::env::var_os(REQUIRE).is_some();
    if let Some(why) = missing.as_ref().filter(|_| !required) {
        eprintln!("{} tests are skipped: {why}", tests.len());
    }
    let trials = tests.iter().map(|(name, test)| {
        let (missing, skip) = (missing.clone(), missing.is_some() && !required);
        let trial = Trial::test(*name, move || {
            if let Some(why) = missing {
                return Err(Failed::from(why));
            }
            let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
            runtime.map_err(|error| Failed::from(error.to_string()))?.block_on(test());
            Ok(())
        });
        trial.with_ignored_flag(skip)
    });
    libtest_mimic::run(&Arguments::from_args(), trials.collect()).exit_code()
}

/// A name that no other test has, of any process.
pub fn unique(what: &str) -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    format!("t_{what}_{}_{count}", std::process::id())
}

/// The handle's options for a schema of this name.
pub fn options(schema: &str) -> Options {
    Options::new(&url()).expect("a URL").schema(schema).expect("a name")
}

/// A migrated store in a schema of this name.
pub async fn store(schema: &str) -> Postgres {
    let store = Postgres::open(options(schema)).await.expect("the server answers");
    store.migrate().await.expect("it migrates");
    store
}

/// A connection as the user of the URL.
pub async fn connect() -> PgConnection {
    PgConnection::connect(&url()).await.expect("the server answers")
}

/// Statements that must succeed, as the user of the URL.
pub async fn run_sql(sql: &str) {
    run_sql_at(&url(), sql).await;
}

/// The same on another database.
pub async fn run_sql_at(url: &str, sql: &str) {
    let mut conn = PgConnection::connect(url).await.expect("the server answers");
    let done = (&mut conn).execute(sqlx::raw_sql(AssertSqlSafe(sql.to_owned()))).await;
    done.unwrap_or_else(|error| panic!("{error}\nin {sql}"));
    conn.close().await.ok();
}

/// The rows of one statement, as the user of the URL.
pub async fn rows(sql: &str) -> Vec<PgRow> {
    let mut conn = connect().await;
    let rows = sqlx::raw_sql(AssertSqlSafe(sql.to_owned())).fetch_all(&mut conn).await;
    let rows = rows.unwrap_or_else(|error| panic!("{error}\nin {sql}"));
    conn.close().await.ok();
    rows
}

/// The one number that a statement answers.
pub async fn number(sql: &str) -> i64 {
    rows(sql).await[0].try_get(0).unwrap_or_else(|error| panic!("{error}\nin {sql}"))
}

/// Removes a schema.
pub async fn drop_schema(schema: &str) {
    run_sql(&format!("DROP SCHEMA IF EXISTS \"{schema}\" CASCADE")).await;
}

/// Waits until a statement's answer is `true`, which others bring about.
pub async fn until(sql: &str) {
    for _ in 0..2000 {
        let now: bool = rows(sql).await[0].try_get(0).expect("a bool");
        if now {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    panic!("not after 20 s: {sql}");
}

/// The URL of a new role, which may do nothing yet.
pub async fn role(name: &str) -> String {
    run_sql(&format!("CREATE ROLE {name} LOGIN PASSWORD 'secret'")).await;
    let mut url: Url = url().parse().expect("a URL");
    url.set_username(name).expect("it has a host");
    url.set_password(Some("secret")).expect("it has a host");
    url.into()
}

/// Removes a role and what it was granted.
pub async fn drop_role(name: &str) {
    run_sql(&format!("DROP OWNED BY {name}; DROP ROLE {name}")).await;
}

/// One job of each method's way: pushed, taken, renewed, settled.
pub async fn works(store: &Postgres) {
    let pushed = kit::push(store, kit::job("acme")).await;
    let taken = kit::take(store, 1).await;
    assert_eq!(taken.len(), 1, "what was pushed is delivered");
    assert_eq!(taken[0].claim.job.id, pushed.id);
    let renewed = store.renew(Default::default(), &[taken[0].claim.clone()]).await;
    assert!(matches!(renewed.expect("it renews")[0], Renewed::Held));
    let done = Settlement { claim: taken[0].claim.clone(), outcome: Outcome::Done };
    let settled = store.settle(&[done]).await.expect("it settles");
    assert_eq!(settled, [Settled::Applied(State::Done)]);
}

/// How many rows the schema's tables have in all, whichever there are.
pub async fn stored(schema: &str) -> i64 {
    let counts = rows(&format!(
        "SELECT coalesce(string_agg(format('(SELECT count(*) FROM %s)', c.oid::regclass), '+'), '0::int8') \
         FROM pg_class c WHERE c.relkind = 'r' AND c.relname <> 'migration' \
         AND c.relnamespace = '{schema}'::regnamespace"
    ))
    .await;
    let counts: String = counts[0].try_get(0).expect("text");
    number(&format!("SELECT {counts}")).await
}

/// An error of this kind whose sentence has all of these in it; the sentence.
pub fn says<T: Debug>(answer: jobs_core::Result<T>, kind: ErrorKind, words: &[&str]) -> String {
    let error = answer.expect_err("it is refused");
    let what = error.to_string();
    assert_eq!(error.kind(), kind, "{what}");
    assert!(!error.is_transient() || matches!(kind, ErrorKind::Unavailable), "{what}");
    for word in words {
        assert!(what.contains(word), "{what:?} does not say {word:?}");
    }
    what
}
