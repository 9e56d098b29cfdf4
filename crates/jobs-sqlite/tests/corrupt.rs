//! Damaged rows: one that cannot be read is parked and never stops the others.

use jobs_core::{
    Admin, Job, Queue, authorized,
    grant::grant_without_user,
    queue::Reserve,
    view::{Lanes, List},
};
use jobs_sqlite::{Options, Sqlite};
use sqlx::{AssertSqlSafe, ConnectOptions, sqlite::SqliteConnectOptions};

/// What can be wrong within what the columns' types allow.
const DAMAGES: &[&str] = &[
    "UPDATE jobs_body SET payload = '{' WHERE job = ?1",
    "UPDATE jobs_body SET payload = '' WHERE job = ?1",
    "UPDATE jobs_body SET payload = CAST(x'ff' AS TEXT) WHERE job = ?1",
    "UPDATE jobs_body SET metadata = '[1]' WHERE job = ?1",
    "UPDATE jobs_body SET id = x'00' WHERE job = ?1",
    "UPDATE jobs_body SET priority = 99999999999 WHERE job = ?1",
    "UPDATE jobs_body SET name = CAST(x'c3' AS TEXT) WHERE job = ?1",
    "DELETE FROM jobs_body WHERE job = ?1",
    "UPDATE jobs_live SET attempt = -5 WHERE job = ?1",
    "UPDATE jobs_live SET run_at = -9223372036854775808 WHERE job = ?1",
    "UPDATE jobs_live SET max_attempts = -1 WHERE job = ?1",
    "UPDATE jobs_live SET state = 2, lease_until = NULL WHERE job = ?1",
    "UPDATE jobs_live SET state = 99 WHERE job = ?1",
];

#[tokio::test]
async fn a_row_that_cannot_be_read_never_stops_the_rest() {
    let directory = tempfile::tempdir().unwrap();
    for (number, damage) in DAMAGES.iter().enumerate() {
        let path = directory.path().join(format!("{number}.db"));
        let store = Sqlite::open(Options::new(&path.display().to_string()).unwrap()).await.unwrap();
        let grant = grant_without_user("suite", "work.do", "acme").unwrap();
        let job = |_| authorized(&grant, Job::new(&grant, "n", &1).unwrap()).unwrap();
        let jobs: Vec<_> = (0..10).map(job).collect();
        for pushed in store.enqueue(&jobs).await {
            assert_eq!(pushed.unwrap(), jobs_core::queue::Pushed::Stored);
        }
        let mut file = SqliteConnectOptions::new().filename(&path).connect().await.unwrap();
        let victim = fastrand::i64(1..=10);
        let damage_it = sqlx::query(AssertSqlSafe(*damage)).bind(victim);
        damage_it.execute(&mut file).await.unwrap();
        let wish = || Reserve::new("default", ["n"], "w").unwrap().slots(10);
        let held = store.reserve(&wish()).await.unwrap().deliveries;
        assert!(held.len() >= 9, "{damage}: {} of 9", held.len());
        assert!(store.reserve(&wish()).await.unwrap().deliveries.is_empty(), "{damage}");
        store.sweep().await.unwrap();
        let read = grant_without_user("suite", "jobs.read", "acme").unwrap();
        let page = store.list(&read.permit().unwrap(), &List::default()).await;
        assert!(page.is_ok_and(|page| page.jobs.len() >= 9), "{damage}");
        let counts = store.counts(&read.permit().unwrap(), &Lanes::default()).await;
        let one = |counts: jobs_core::view::Counts| counts.lanes.len() == 1;
        assert!(counts.is_ok_and(one), "{damage}");
    }
}
