//! A hold of the soak counts from when it is in force, and not from when it was asked for.

#[path = "../examples/soak/files.rs"]
mod files;

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use jobs_testkit::soak::{Soak, Trouble};
use sqlx::{ConnectOptions, Connection, sqlite::SqliteConnectOptions};
use tokio::time::{sleep, timeout};

#[tokio::test]
async fn a_hold_begins_when_the_lock_is_had() {
    let directory = tempfile::tempdir().unwrap();
    let url = files::Files.url(directory.path()).unwrap();
    files::Files.open(&url, Trouble::default()).await.unwrap();
    let mut other = SqliteConnectOptions::new().filename(&url).connect().await.unwrap();
    // The handle that made the file may still be closing.
    sqlx::raw_sql("BEGIN IMMEDIATE").execute(&mut other).await.unwrap();
    sqlx::raw_sql("PRAGMA busy_timeout = 0").execute(&mut other).await.unwrap();
    let begun = AtomicBool::new(false);
    let begin = || begun.store(true, Ordering::SeqCst);
    let hold = files::Files.hold(&url, Duration::from_secs(1), &begin);
    tokio::pin!(hold);
    let waits = timeout(Duration::from_millis(500), &mut hold).await;
    assert!(waits.is_err() && !begun.load(Ordering::SeqCst), "somebody else writes");
    sqlx::raw_sql("COMMIT").execute(&mut other).await.unwrap();
    let writes = async {
        while !begun.load(Ordering::SeqCst) {
            sleep(Duration::from_millis(5)).await;
        }
        sqlx::raw_sql("BEGIN IMMEDIATE").execute(&mut other).await
    };
    let (held, refused) = tokio::join!(hold, writes);
    held.unwrap();
    assert!(refused.unwrap_err().to_string().contains("locked"), "it is in force");
    sqlx::raw_sql("BEGIN IMMEDIATE").execute(&mut other).await.expect("it is over");
    other.close().await.unwrap();
}
