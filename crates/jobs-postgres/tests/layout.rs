//! The soak's statements about the schema: nothing to say of a store in order, and the right one of
//! each damage.

mod common;
#[path = "../examples/soak/layout.rs"]
mod layout;

use std::{process::ExitCode, time::Duration};

use common::{URL, run, run_sql, unique, url};
use jobs_core::{Claim, Job, Outcome, QueueExt, queue::Pushed};
use jobs_postgres::{Options, Postgres};
use jobs_testkit::kit::{grant, job, take_one};
use sqlx::{ConnectOptions, Executor, PgConnection, postgres::PgConnectOptions};

/// What is damaged, and how each sentence begins that is then said.
const DAMAGES: &[(&str, &[&str])] = &[
    ("DELETE FROM jobs.live WHERE state = 1 AND keyed = 0", &["a job is live or finished"]),
    ("DELETE FROM jobs.done WHERE state = 4", &["a job is live or finished"]),
    (
        "UPDATE jobs.done SET id = (SELECT id FROM jobs.live WHERE state = 0 AND keyed = 0 LIMIT 1)
         WHERE state = 4",
        &["a job is live or finished"],
    ),
    ("UPDATE jobs.live SET max_attempts = 4 WHERE state = 0", &["a live row"]),
    ("UPDATE jobs.live SET queue = 'other' WHERE state = 3", &["a live row"]),
    ("UPDATE jobs.live SET state = 4 WHERE state = 3", &["a live row"]),
    ("UPDATE jobs.done SET queue = 'other' WHERE state = 4", &["a finished row"]),
    ("UPDATE jobs.live SET worker = NULL WHERE state = 2", &["a running job"]),
    ("UPDATE jobs.live SET lease_until = 5 WHERE state = 3", &["a running job"]),
    ("DELETE FROM jobs.taken", &["the reserve that took"]),
    ("UPDATE jobs.taken SET ids = '{}'", &["the reserve that took"]),
    ("UPDATE jobs.live SET attempt = 5 WHERE state = 0", &["a job that may still"]),
    ("UPDATE jobs.live SET attempt = 6 WHERE state = 2", &["a job that may still"]),
    ("INSERT INTO jobs.key VALUES ('t', 'of nobody', gen_random_uuid())", &["a key is held by"]),
    (
        "INSERT INTO jobs.key SELECT tenant, 'of the past', id FROM jobs.done WHERE state = 4",
        &["a key is held by"],
    ),
    ("DELETE FROM jobs.key WHERE key = 'parked'", &["a job that says so"]),
    ("DELETE FROM jobs.key WHERE key = 'fresh'", &["a job that says so"]),
    ("UPDATE jobs.live SET keyed = 0 WHERE state = 3", &["a key is held by", "a key is held for"]),
    ("UPDATE jobs.live SET fence = 1 WHERE keyed = 2", &["a key is held for"]),
    ("UPDATE jobs.attempt SET fence = fence + 1", &["an attempt on record"]),
    ("UPDATE jobs.attempt SET id = gen_random_uuid() WHERE outcome = 1", &["an attempt on record"]),
];

async fn push(store: &Postgres, change: impl FnOnce(Job) -> Job) {
    let answer = store.push(&grant("t"), change(job("t"))).await;
    assert_eq!(answer.expect("the server answers"), Pushed::Stored);
}

async fn settle(store: &Postgres, outcome: Outcome) {
    let claim: Claim = take_one(store).await.claim;
    store.settle_one(&claim, outcome).await.expect("the server answers");
}

/// A job in every state, and with every kind of key.
async fn fill(store: &Postgres) {
    let cause = || "by design".into();
    // Each is the only one that is due when it is taken.
    push(store, |job| job).await;
    settle(store, Outcome::Done).await;
    push(store, |job| job).await;
    settle(store, Outcome::Cancelled { cause: cause() }).await;
    push(store, |job| job.key("parked")).await;
    settle(store, Outcome::Park { cause: cause() }).await;
    push(store, |job| job).await;
    let after = Duration::from_secs(3600);
    settle(store, Outcome::Retry { after, cause: cause() }).await;
    push(store, |job| job.key_until_started("started")).await;
    take_one(store).await;
    push(store, |job| job).await;
    settle(store, Outcome::Release).await;
    push(store, |job| job.key("fresh")).await;
    push(store, |job| job.after(2 * after).key_until_started("later")).await;
}

/// What is said of it, with this done to it.
async fn said(conn: &mut PgConnection, damage: &'static str) -> Vec<String> {
    (&mut *conn).execute("BEGIN").await.expect("the server answers");
    let done = sqlx::query(damage).execute(&mut *conn).await.expect("the server answers");
    assert!(done.rows_affected() > 0, "{damage} does nothing");
    let said = layout::look(conn).await.expect("the server answers");
    (&mut *conn).execute("ROLLBACK").await.expect("the server answers");
    said
}

async fn each_damage_is_told_by_its_invariant() {
    let name = unique("layout");
    run_sql(&format!("CREATE DATABASE {name}")).await;
    let options: PgConnectOptions = url().parse().expect("a URL");
    let options = options.database(&name);
    let store = Postgres::open(Options::with(options.clone())).await.expect("the server answers");
    store.migrate().await.expect("it migrates");
    fill(&store).await;
    let mut conn = options.connect().await.expect("the server answers");
    assert_eq!(layout::wrong(&mut conn).await.expect("it answers"), [""; 0]);
    let mut other = Vec::new();
    for (damage, expected) in DAMAGES {
        let said = said(&mut conn, damage).await;
        let right = |(said, expected): (&String, &&str)| said.starts_with(*expected);
        if said.len() != expected.len() || !said.iter().zip(*expected).all(right) {
            other.push((damage, expected, said));
        }
    }
    assert!(other.is_empty(), "{other:#?}");
    for (what, _) in layout::INVARIANTS {
        let told = |(_, told): &(&str, &[&str])| told.iter().any(|told| what.starts_with(told));
        assert!(DAMAGES.iter().any(told), "no damage for: {what}");
    }
    drop((store, conn));
    run_sql(&format!("DROP DATABASE {name} WITH (FORCE)")).await;
}

fn main() -> ExitCode {
    run(&[URL], tests![each_damage_is_told_by_its_invariant])
}
