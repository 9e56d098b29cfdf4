//! Operators' verbs against others who are in the middle of something: each step is forced by locks,
//! nothing waits for the clock.

use std::{process::ExitCode, time::Duration};

use jobs_core::{
    Admin, JobRef, Outcome, Queue, Settled, Settlement, State,
    admin::{Cancelled, Deleted, Retried},
    queue::Delivery,
};
use jobs_postgres::Postgres;
use jobs_testkit::{
    kit::{job, operator, push, take},
    ops::state,
};
use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection, Row};

mod common;

use common::{Test, connect, drop_schema, options, unique, until};

const TESTS: &[Test] = tests![
    a_verb_sees_who_took_the_job_meanwhile,
    ended_keys_are_freed_in_one_order,
    retried_keys_are_taken_in_one_order,
    a_clock_that_went_back,
];

fn main() -> ExitCode {
    common::run(&[common::URL], TESTS)
}

/// A store whose calls wait long for others' locks.
async fn patient(schema: &str) -> Postgres {
    let options = options(schema).busy(Duration::from_secs(20));
    let store = Postgres::open(options).await.expect("the server answers");
    store.migrate().await.expect("it migrates");
    store
}

/// An open transaction that has run this, and its backend.
async fn holding(sql: String) -> (PgConnection, i32) {
    let mut conn = connect().await;
    let pid =
        sqlx::query("SELECT pg_backend_pid()").fetch_one(&mut conn).await.expect("it answers");
    (&mut conn).execute("BEGIN").await.expect("it answers");
    (&mut conn).execute(sqlx::raw_sql(AssertSqlSafe(sql))).await.expect("it answers");
    (conn, pid.get(0))
}

async fn end(mut conn: PgConnection, how: &str) {
    (&mut conn).execute(sqlx::raw_sql(AssertSqlSafe(how.to_owned()))).await.expect("it answers");
    conn.close().await.ok();
}

/// Waits until somebody waits for what this backend holds.
async fn awaited(pid: i32) {
    until(&format!(
        "SELECT EXISTS (SELECT 1 FROM pg_stat_activity a WHERE {pid} = ANY (pg_blocking_pids(a.pid)))"
    ))
    .await;
}

/// A cancelled job is retried and taken while a verb waits for another job of its batch: the verb finds
/// it running, under its holder's claim.
async fn a_verb_sees_who_took_the_job_meanwhile() {
    for verb in ["cancel", "delete"] {
        let schema = unique("meanwhile");
        let store = patient(&schema).await;
        let [taken, other] = [push(&store, job("acme")).await, push(&store, job("acme")).await];
        let both = [taken.job_ref(), other.job_ref()];
        let cancelled = store.cancel(&operator().await, &both[..1]).await.expect("it answers");
        assert_eq!(cancelled, [Cancelled::Cancelled]);

        let of = |job: &JobRef| format!("id = '{}' AND tenant = '{}'", job.id, job.tenant);
        let lock = format!("SELECT 1 FROM {schema}.live WHERE {} FOR UPDATE", of(&both[1]));
        let (blocker, blocking) = holding(lock).await;
        let retry = format!(
            "SELECT 1 FROM {schema}.retry(NULL, 'ops', ARRAY['acme'], ARRAY['{}'::uuid])",
            both[0].id
        );
        let (retrier, _) = holding(retry).await;
        let asked = {
            let (store, both) = (store.clone(), both.clone());
            tokio::spawn(async move {
                match verb {
                    "cancel" => {
                        let answers = store.cancel(&operator().await, &both).await;
                        let answers = answers.expect("it answers");
                        assert_eq!(answers, [Cancelled::Requested, Cancelled::Cancelled]);
                    }
                    _ => {
                        let answers = store.delete(&operator().await, &both).await;
                        let answers = answers.expect("it answers");
                        assert_eq!(answers, [Deleted::Running, Deleted::Deleted]);
                    }
                }
            })
        };
        awaited(blocking).await;
        end(retrier, "COMMIT").await;
        // As a reserve takes it.
        let take = format!(
            "UPDATE {schema}.live SET state = 2, attempt = 1, fence = fence + 1, nonce = 7, worker = 'w',
               started_at = {schema}.now_ms(), renewed_at = {schema}.now_ms(),
               lease_until = {schema}.now_ms() + 20000 WHERE {}",
            of(&both[0])
        );
        let (reserve, reserving) = holding(take).await;
        end(blocker, "ROLLBACK").await;
        awaited(reserving).await;
        end(reserve, "COMMIT").await;
        asked.await.expect("it sees the claim");
        assert_eq!(state(&store, &both[0]).await, State::Running);
        drop_schema(&schema).await;
    }
}

/// Two jobs whose keys come by id the other way round, and a statement that needs the later key.
async fn two_keyed(store: &Postgres, schema: &str) -> ([JobRef; 2], [String; 2]) {
    let pushed = [
        push(store, job("acme").key("z")).await.job_ref(),
        push(store, job("acme").key("a")).await.job_ref(),
    ];
    let insert = |at: usize, key| {
        format!("INSERT INTO {schema}.key VALUES ('acme', '{key}', '{}')", pushed[at].id)
    };
    let inserts = [insert(0, "z"), insert(1, "a")];
    (pushed, inserts)
}

/// Whoever waits for one key holds none that comes after it, so that a push, which takes them in order,
/// and a settlement do not wait for each other.
async fn ended_keys_are_freed_in_one_order() {
    let schema = unique("frees");
    let store = patient(&schema).await;
    two_keyed(&store, &schema).await;
    let held = take(&store, 2).await;
    assert_eq!(held.len(), 2);
    let first = format!("SELECT 1 FROM {schema}.key WHERE key = 'a' FOR UPDATE");
    let (holder, holding_it) = holding(first).await;
    let settles = {
        let store = store.clone();
        tokio::spawn(async move {
            let cancelled = |held: &Delivery| Settlement {
                claim: held.claim.clone(),
                outcome: Outcome::Cancelled { cause: "no".into() },
            };
            let cancelled: Vec<_> = held.iter().map(cancelled).collect();
            store.settle(&cancelled).await.expect("it answers")
        })
    };
    awaited(holding_it).await;
    let later = format!("SELECT 1 FROM {schema}.key WHERE key = 'z' FOR UPDATE NOWAIT");
    end(holding(later).await.0, "ROLLBACK").await;
    end(holder, "ROLLBACK").await;
    assert_eq!(settles.await.expect("it ends both"), [Settled::Applied(State::Cancelled); 2]);
    drop_schema(&schema).await;
}

/// A retry takes its jobs' keys again in that order too.
async fn retried_keys_are_taken_in_one_order() {
    let schema = unique("takes");
    let store = patient(&schema).await;
    let (pushed, [later, first]) = two_keyed(&store, &schema).await;
    let cancelled = store.cancel(&operator().await, &pushed).await.expect("it answers");
    assert_eq!(cancelled, [Cancelled::Cancelled; 2]);
    let (holder, holding_it) = holding(first).await;
    let retries = {
        let store = store.clone();
        tokio::spawn(
            async move { store.retry(&operator().await, &pushed).await.expect("it answers") },
        )
    };
    awaited(holding_it).await;
    let later = format!("SET LOCAL lock_timeout = '1s'; {later}");
    end(holding(later).await.0, "ROLLBACK").await;
    end(holder, "ROLLBACK").await;
    assert_eq!(retries.await.expect("it has both"), [Retried::Retried; 2]);
    drop_schema(&schema).await;
}

/// A job whose lease began before the server's clock went back by three hours is its holder's still.
async fn a_clock_that_went_back() {
    let schema = unique("back");
    let store = patient(&schema).await;
    let held = push(&store, job("acme")).await.job_ref();
    assert_eq!(take(&store, 1).await.len(), 1);
    let damaged = push(&store, job("acme")).await.job_ref();
    assert_eq!(take(&store, 1).await.len(), 1);
    common::run_sql(&format!(
        "UPDATE {schema}.live SET lease_until = lease_until + 10800000,
           renewed_at = renewed_at + 10800000, started_at = started_at + 10800000;
         UPDATE {schema}.live SET lease_until = lease_until + 86400000 WHERE id = '{}'",
        damaged.id
    ))
    .await;
    let lost = store.sweep().await.expect("it answers").lost;
    let lost: Vec<_> = lost.into_iter().map(|lost| lost.job).collect();
    assert_eq!(lost, [damaged], "no lease is a day long");
    let one = std::slice::from_ref(&held);
    let deleted = store.delete(&operator().await, one).await.expect("it answers");
    assert_eq!(deleted, [Deleted::Running]);
    let cancelled = store.cancel(&operator().await, one).await.expect("it answers");
    assert_eq!(cancelled, [Cancelled::Requested]);
    drop_schema(&schema).await;
}
