//! The soak's statements about the file: nothing to say of a store in order, and the right one of
//! each damage.

#[path = "../examples/soak/layout.rs"]
mod layout;

use std::time::Duration;

use jobs_core::{
    Claim, Job, Outcome, Queue, QueueExt, Settled, Settlement,
    grant::{Grant, grant_without_user},
    queue::{Lease, Pushed, Reserve},
};
use jobs_sqlite::{Options, Sqlite};
use sqlx::{ConnectOptions, SqliteConnection, sqlite::SqliteConnectOptions};

/// What is damaged, and how each sentence begins that is then said.
const DAMAGES: &[(&str, &[&str])] = &[
    (
        "UPDATE jobs_ready SET run_at = run_at + 1 WHERE job = (SELECT job FROM jobs_live WHERE \
         state = 1)",
        &["a job in line", "a ready job"],
    ),
    (
        "DELETE FROM jobs_ready WHERE job = (SELECT job FROM jobs_live WHERE state = 1)",
        &["a ready job"],
    ),
    (
        "DELETE FROM jobs_ready WHERE job NOT IN (SELECT job FROM jobs_live)",
        &["a job is live, finished"],
    ),
    (
        "INSERT INTO jobs_ready SELECT sublane, 0, 0, id, job, 0 FROM jobs_done LIMIT 1",
        &["a job in line"],
    ),
    ("UPDATE jobs_live SET max_attempts = 4 WHERE state = 0", &["a live row"]),
    ("UPDATE jobs_done SET lane = lane + 1", &["a finished row"]),
    ("UPDATE jobs_live SET worker = NULL WHERE state = 2", &["a running job"]),
    ("UPDATE jobs_live SET lease_until = 5 WHERE state = 3", &["a running job"]),
    ("UPDATE jobs_live SET attempt = 5 WHERE state = 0", &["a job that may still"]),
    ("UPDATE jobs_live SET attempt = 6 WHERE state = 2", &["a job that may still"]),
    ("INSERT INTO jobs_key VALUES ('t', 'of nobody', 4711)", &["a key is held by"]),
    (
        "INSERT INTO jobs_key SELECT 't', 'of the past', job FROM jobs_done LIMIT 1",
        &["a key is held by"],
    ),
    ("DELETE FROM jobs_key WHERE key = 'parked'", &["a job that says so"]),
    ("DELETE FROM jobs_key WHERE key = 'fresh'", &["a job that says so"]),
    ("UPDATE jobs_live SET keyed = 0 WHERE state = 3", &["a key is held by", "a key is held for"]),
    ("UPDATE jobs_sublane SET ring = 0 WHERE ring = 1", &["a line with jobs"]),
    ("UPDATE jobs_lane SET paused_until = 7", &["a line is out of the ring"]),
    ("UPDATE jobs_sublane SET due = NULL", &["a line knows"]),
    ("UPDATE jobs_sublane SET due = due + 1", &["a line knows"]),
    ("UPDATE jobs_sublane SET queue = queue + 1", &["a line has its lane's"]),
    ("DELETE FROM jobs_sublane WHERE suspect = 1", &["a line has its lane's"]),
    ("UPDATE jobs_lane SET tenant = 'x'", &["a line has its lane's"]),
    ("UPDATE jobs_queue SET done = done + 1", &["a queue counts"]),
    ("UPDATE jobs_attempt SET fence = fence + 1", &["an attempt on record"]),
    (
        "UPDATE jobs_attempt SET job = 4711 WHERE job = (SELECT min(job) FROM jobs_attempt)",
        &["an attempt on record"],
    ),
];

fn grant() -> Grant {
    grant_without_user("suite", "work.do", "t").expect("legal")
}

async fn push(store: &Sqlite, change: impl FnOnce(Job) -> Job) {
    let job = change(Job::new(&grant(), "n", &()).expect("null is JSON"));
    assert_eq!(store.push(&grant(), job).await.expect("the file answers"), Pushed::Stored);
}

async fn take(store: &Sqlite) -> Claim {
    let lease = Lease::new(Duration::from_secs(60)).expect("legal");
    let wish = Reserve::new("default", ["n"], "suite").expect("legal").slots(1).lease(lease);
    store.reserve(&wish).await.expect("the file answers").deliveries.remove(0).claim
}

async fn settle(store: &Sqlite, claim: Claim, outcome: Outcome) {
    let settled = store.settle(&[Settlement { claim, outcome }]).await.expect("the file answers");
    assert!(matches!(settled[0], Settled::Applied(_)), "{settled:?}");
}

/// A file with a job in every state, and in each of the two ways to be ready.
async fn full(path: &str) -> SqliteConnection {
    let store = Sqlite::open(Options::new(path).expect("a path")).await.expect("the file answers");
    let cause = || "by design".into();
    // Each is the only one that is due when it is taken.
    push(&store, |job| job).await;
    settle(&store, take(&store).await, Outcome::Done).await;
    push(&store, |job| job).await;
    settle(&store, take(&store).await, Outcome::Cancelled { cause: cause() }).await;
    push(&store, |job| job.key("parked")).await;
    settle(&store, take(&store).await, Outcome::Park { cause: cause() }).await;
    push(&store, |job| job).await;
    let after = Duration::from_secs(3600);
    settle(&store, take(&store).await, Outcome::Retry { after, cause: cause() }).await;
    push(&store, |job| job.key_until_started("started")).await;
    take(&store).await;
    push(&store, |job| job).await;
    settle(&store, take(&store).await, Outcome::Release).await;
    push(&store, |job| job.key("fresh")).await;
    push(&store, |job| job.after(2 * after).key_until_started("later")).await;
    SqliteConnectOptions::new().filename(path).connect().await.expect("the file answers")
}

/// What is said of it, with this done to it.
async fn said(file: &mut SqliteConnection, damage: &'static str) -> Vec<String> {
    sqlx::raw_sql("BEGIN").execute(&mut *file).await.expect("the file answers");
    let done = sqlx::query(damage).execute(&mut *file).await.expect("the file answers");
    assert!(done.rows_affected() > 0, "{damage} does nothing");
    let said = layout::wrong(file).await.expect("the file answers");
    sqlx::raw_sql("ROLLBACK").execute(file).await.expect("the file answers");
    said
}

#[tokio::test]
async fn each_damage_is_told_by_its_invariant() {
    let directory = tempfile::tempdir().unwrap();
    let mut file = full(&directory.path().join("jobs.db").display().to_string()).await;
    assert_eq!(layout::wrong(&mut file).await.unwrap(), [""; 0]);
    let mut other = Vec::new();
    for (damage, expected) in DAMAGES {
        let said = said(&mut file, damage).await;
        let right = |(said, expected): (&String, &&str)| {
            said.strip_prefix("not so: ").is_some_and(|said| said.starts_with(*expected))
        };
        if said.len() != expected.len() || !said.iter().zip(*expected).all(right) {
            other.push((damage, expected, said));
        }
    }
    assert!(other.is_empty(), "{other:#?}");
    assert_eq!(layout::wrong(&mut file).await.unwrap(), [""; 0]);
}

/// Every invariant is said by at least one damage.
#[test]
fn no_invariant_is_without_a_damage() {
    let told: Vec<&str> = DAMAGES.iter().flat_map(|(_, expected)| *expected).copied().collect();
    for (what, _) in layout::INVARIANTS {
        assert!(told.iter().any(|told| what.starts_with(told)), "no damage for: {what}");
    }
}
