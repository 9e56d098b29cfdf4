//! SQLite's locks are the process's: closing any descriptor of the file, its log or its index drops
//! them all (sqlite.org/howtocorrupt.html, §2.2). So nothing here ever opens one beside SQLite.

use std::{path::Path, process::Command, time::Duration};

use jobs_core::Queue;
use jobs_sqlite::{Options, Sqlite};
use sqlx::{ConnectOptions, Executor, SqliteConnection, sqlite::SqliteConnectOptions};

const FILE: &str = "JOBS_SQLITE_LOCKS_FILE";

async fn connect(path: &Path) -> SqliteConnection {
    let options = SqliteConnectOptions::new().filename(path).create_if_missing(true);
    options.busy_timeout(Duration::from_millis(200)).connect().await.expect("it opens")
}

/// What another process is told that wants to write.
fn another_process(path: &Path) -> bool {
    let program = std::env::current_exe().expect("this program");
    let run = Command::new(program).args(["--exact", "writes"]).env(FILE, path).output();
    run.expect("it runs").status.success()
}

/// The other process; as a test of its own, it writes to a file that nobody else has.
#[tokio::test]
async fn writes() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = std::env::var_os(FILE).map_or(folder.path().join("own.db"), Into::into);
    let mut conn = connect(&path).await;
    let write = "CREATE TABLE IF NOT EXISTS app (n); INSERT INTO app VALUES (1)";
    conn.execute(write).await.expect("nobody holds the lock");
}

#[tokio::test]
async fn a_handle_that_ends_takes_no_lock_along() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("jobs.db");
    let open = || Sqlite::open(Options::new(path.to_str().expect("text")).expect("a path"));
    let _stays = open().await.expect("it opens");
    let goes = [open().await, open().await];
    assert!(another_process(&path), "nobody holds the lock yet");
    let mut app = connect(&path).await;
    app.execute("BEGIN IMMEDIATE").await.expect("nobody holds the lock");
    for goes in goes {
        let goes = goes.expect("it opens");
        let own = goes.open_own().await.expect("it opens");
        let mut watch = own.watch(&["default".to_owned()]).await.expect("it watches");
        // Long enough for a few looks at what others committed.
        tokio::time::timeout(Duration::from_millis(100), watch.woken()).await.ok();
        drop((goes, own, watch));
        assert!(!another_process(&path), "the application holds the lock");
    }
    app.execute("COMMIT").await.expect("it held the lock");
    assert!(another_process(&path), "nobody holds the lock any more");
}
