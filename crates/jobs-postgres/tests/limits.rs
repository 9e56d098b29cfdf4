//! What bounds a call and what it holds: timeouts, connections, and answers that are none.

use std::{
    process::ExitCode,
    time::{Duration, Instant},
};

use jobs_core::{Admin, ErrorKind, Queue, queue::Pushed};
use jobs_postgres::{Mode, Options, Postgres};
use jobs_testkit::{
    kit::{checked, job, operator, push, take},
    proxy::Proxy,
};
use sqlx::{AssertSqlSafe, Connection, Executor};
use tokio::time::timeout;

mod common;

use common::{Test, connect, drop_schema, number, options, run_sql, store, unique, until, url};

const TESTS: &[Test] = tests![
    a_client_that_stalls_loses_its_locks,
    a_dropped_calls_statement_ends,
    a_limit_under_a_millisecond_is_one,
    two_runtimes_share_the_connections,
    a_push_without_an_answer_is_an_error,
    a_wake_up_off_a_runtime,
    one_of_many_whose_id_is_held,
];

fn main() -> ExitCode {
    common::run(&[common::URL], TESTS)
}

/// Behind a pooler nobody sees that a client went away in the middle of a call: its transaction, which
/// holds its queue's turns, is ended by the server.
async fn a_client_that_stalls_loses_its_locks() {
    let schema = unique("stalls");
    let near = store(&schema).await;
    for tenant in ["acme", "other"] {
        for _ in 0..4 {
            push(&near, job(tenant)).await;
        }
    }
    let proxy = Proxy::before(&url()).expect("a proxy");
    let far = Options::new(&proxy.url(&url())).and_then(|options| options.schema(&schema));
    let far = Postgres::open(far.expect("a URL").mode(Mode::Pooled)).await.expect("it answers");
    assert_eq!(take(&far, 1).await.len(), 1, "it works");
    // A reserve waits in the middle, with its transaction open; then its client is cut off.
    let mut conn = connect().await;
    (&mut conn).execute("BEGIN").await.expect("it answers");
    let lock = format!("LOCK {schema}.taken IN SHARE MODE");
    (&mut conn).execute(sqlx::raw_sql(AssertSqlSafe(lock))).await.expect("it answers");
    let stalled = {
        let far = far.clone();
        tokio::spawn(async move {
            far.reserve(&jobs_testkit::kit::wants(1)).await.ok();
        })
    };
    let of_schema = format!("query LIKE '%{schema}%' AND pid <> pg_backend_pid()");
    until(&format!(
        "SELECT EXISTS (SELECT 1 FROM pg_stat_activity WHERE {of_schema} AND wait_event_type = 'Lock')"
    ))
    .await;
    proxy.silence(|_| true);
    (&mut conn).execute("ROLLBACK").await.expect("it answers");
    until(&format!(
        "SELECT EXISTS (SELECT 1 FROM pg_stat_activity WHERE {of_schema}
           AND state = 'idle in transaction')"
    ))
    .await;
    let begun = Instant::now();
    until(&format!(
        "SELECT NOT EXISTS (SELECT 1 FROM pg_stat_activity WHERE {of_schema}
           AND state = 'idle in transaction')"
    ))
    .await;
    assert!(begun.elapsed() < Duration::from_secs(15), "after {:?}", begun.elapsed());
    assert_eq!(take(&near, 7).await.len(), 7, "the turns are free, and what it took is not lost");
    stalled.abort();
    drop_schema(&schema).await;
}

/// It may hold what others need, so it does not go on until its own timeout.
async fn a_dropped_calls_statement_ends() {
    let schema = unique("dropped");
    let options = options(&schema).busy(Duration::from_secs(60)).deadline(Duration::from_secs(60));
    let store = Postgres::open(options).await.expect("the server answers");
    store.migrate().await.expect("it migrates");
    let job = push(&store, job("acme")).await.job_ref();
    let mut conn = connect().await;
    (&mut conn).execute("BEGIN").await.expect("it answers");
    let lock = format!("SELECT 1 FROM {schema}.live FOR UPDATE");
    (&mut conn).execute(sqlx::raw_sql(AssertSqlSafe(lock))).await.expect("it answers");
    let permit = operator().await;
    let jobs = [job];
    let call = store.cancel(&permit, &jobs);
    assert!(timeout(Duration::from_secs(1), call).await.is_err(), "it waits for the lock");
    let waits =
        format!("FROM pg_stat_activity WHERE query LIKE '%{schema}%' AND wait_event_type = 'Lock'");
    assert_eq!(
        number(&format!("SELECT count(*) {waits}")).await,
        1,
        "the server does not know yet"
    );
    let begun = Instant::now();
    until(&format!("SELECT NOT EXISTS (SELECT 1 {waits})")).await;
    assert!(begun.elapsed() < Duration::from_secs(15), "after {:?}", begun.elapsed());
    conn.close().await.ok();
    drop_schema(&schema).await;
}

async fn a_limit_under_a_millisecond_is_one() {
    let schema = unique("short");
    let near = store(&schema).await;
    let mut conn = connect().await;
    let mut tx = conn.begin().await.expect("it begins");
    let pushed = near.push_in(&mut tx, &[checked(job("acme").key("k"))]).await;
    assert_eq!(pushed.expect("it pushes").pushed, [Pushed::Stored]);
    for mode in [Mode::Direct, Mode::Pooled] {
        let short = options(&schema).busy(Duration::from_micros(900)).mode(mode);
        let short = Postgres::open(short).await.expect("the server answers");
        let keyed = [checked(job("acme").key("k"))];
        let answer = timeout(Duration::from_secs(10), short.enqueue(&keyed)).await;
        let error =
            answer.expect("it does not wait without end").remove(0).expect_err("it is held");
        assert_eq!(error.kind(), ErrorKind::Busy, "{mode:?}: {error}");
    }
    tx.rollback().await.expect("it rolls back");
    drop_schema(&schema).await;
}

/// Idle connections of one count for the other.
async fn two_runtimes_share_the_connections() {
    let schema = unique("runtimes");
    let store = store(&schema).await;
    let busy = |store: Postgres| async move {
        let calls: Vec<_> = (0..40)
            .map(|_| {
                let store = store.clone();
                tokio::spawn(async move { store.check(&operator().await).await.map(|_| ()) })
            })
            .collect();
        for call in calls {
            call.await.expect("no panic").expect("it answers");
        }
    };
    // With a name by which to count them.
    let name = unique("counted");
    let mut url: url::Url = url().parse().expect("a URL");
    url.query_pairs_mut().append_pair("application_name", &name);
    let counted = Options::new(url.as_str()).and_then(|options| options.schema(&schema));
    let counted = Postgres::open(counted.expect("a URL").connections(5)).await.expect("it answers");
    busy(counted.clone()).await;
    let (other, on) = (counted.clone(), busy);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.expect("a runtime");
    runtime.spawn(async move { on(other).await }).await.expect("no panic");
    let sessions = format!("FROM pg_stat_activity WHERE application_name = '{name}'");
    until(&format!("SELECT count(*) <= 5 {sessions}")).await;
    let most = number(&format!("SELECT count(*) {sessions}")).await;
    assert!(most > 0, "it keeps some");
    runtime.shutdown_background();
    drop((store, counted));
    drop_schema(&schema).await;
}

/// As of a function that somebody altered: no row would mean that every job is stored.
async fn a_push_without_an_answer_is_an_error() {
    let schema = unique("mute");
    let store = store(&schema).await;
    run_sql(&format!(
        "CREATE OR REPLACE FUNCTION {schema}.enqueue(ids uuid[], tenants text[], queues text[],
           names text[], actions text[], bys text[], payloads bytea[], priorities int2[],
           attempts int4[], timeouts int8[], keys text[], scopes int2[], metadatas text[], ats int8[],
           delays int8[], keyed bool) RETURNS SETOF {schema}.answer LANGUAGE plpgsql
         AS $$ BEGIN RETURN; END $$"
    ))
    .await;
    let error =
        store.enqueue(&[checked(job("acme"))]).await.remove(0).expect_err("it is not stored");
    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
    drop_schema(&schema).await;
}

/// The others that share its statement are stored soon after it has waited, in few statements.
async fn one_of_many_whose_id_is_held() {
    let schema = unique("held");
    let near = store(&schema).await;
    let held = checked(job("acme"));
    let mut conn = connect().await;
    let mut tx = conn.begin().await.expect("it begins");
    let pushed = near.push_in(&mut tx, std::slice::from_ref(&held)).await.expect("it pushes");
    let proxy = Proxy::before(&url()).expect("a proxy");
    let far = Options::new(&proxy.url(&url())).and_then(|options| options.schema(&schema));
    let far = Postgres::open(far.expect("a URL").poll_only()).await.expect("it answers");
    assert_eq!(far.enqueue(&[checked(job("acme"))]).await.len(), 1, "it is connected");
    let before = proxy.seen().round_trips;
    let pushes: Vec<_> = (0..400)
        .map(|at| {
            let job = if at == 300 { held.clone() } else { checked(job("acme")) };
            let far = far.clone();
            tokio::spawn(async move { far.enqueue(&[job]).await.remove(0) })
        })
        .collect();
    for (at, push) in pushes.into_iter().enumerate() {
        match push.await.expect("no panic") {
            Ok(pushed) => assert_eq!((pushed, at == 300), (Pushed::Stored, false), "{at}"),
            Err(error) => assert_eq!((error.kind(), at), (ErrorKind::Busy, 300), "{error}"),
        }
    }
    let trips = proxy.seen().round_trips - before;
    assert!(trips < 100, "{trips} round trips for 400 pushes");
    assert_eq!(number(&format!("SELECT count(*) FROM {schema}.live")).await, 400);
    tx.rollback().await.expect("it rolls back");
    drop(pushed);
    drop_schema(&schema).await;
}

/// On a thread of the application's own, after its transaction: this handle is woken, nothing panics.
async fn a_wake_up_off_a_runtime() {
    let schema = unique("off");
    let store = store(&schema).await;
    let other = common::store(&schema).await;
    let queues = ["work".to_owned()];
    let mut here = store.watch(&queues).await.expect("it watches");
    let mut there = other.watch(&queues).await.expect("it watches");
    let mut conn = connect().await;
    let mut tx = conn.begin().await.expect("it begins");
    let pushed = store.push_in(&mut tx, &[checked(job("acme"))]).await.expect("it pushes");
    tx.commit().await.expect("it commits");
    let thread = std::thread::spawn(move || pushed.wake());
    assert_eq!(thread.join().expect("no panic"), [Pushed::Stored]);
    timeout(Duration::from_secs(5), here.woken()).await.expect("this handle's are woken");
    // The next call on a runtime tells the others, of both.
    push(&store, job("other")).await;
    timeout(Duration::from_secs(5), there.woken()).await.expect("and then the others");
    drop_schema(&schema).await;
}
