//! The suite on SQLite.

use std::{path::PathBuf, process::ExitCode, sync::Arc, time::Duration};

use jobs_core::{
    Admin, AuthorizedJob, Error, ErrorKind, Result, async_trait, queue::Pushed,
    retention::Retention,
};
use jobs_sqlite::{Options, PushedIn, Sqlite};
use jobs_testkit::{
    fixture::{Fixture, Transaction},
    harness,
};
use sqlx::{
    ConnectOptions,
    sqlite::{SqliteConnectOptions, SqlitePoolOptions},
};

/// Where a child process finds the files of the run that started it.
const DIRECTORY: &str = "JOBS_SQLITE_TEST_DIRECTORY";

/// One directory for the run, one file for each namespace.
struct Files {
    directory: PathBuf,
    /// Removed with the run; a child's belongs to its parent.
    _own: Option<tempfile::TempDir>,
}

impl Files {
    fn new() -> Self {
        if let Some(directory) = std::env::var_os(DIRECTORY) {
            return Self { directory: directory.into(), _own: None };
        }
        let own = tempfile::tempdir().expect("a temporary directory");
        Self { directory: own.path().to_owned(), _own: Some(own) }
    }

    fn path(&self, namespace: &str) -> PathBuf {
        self.directory.join(format!("{namespace}.db"))
    }

    fn options(&self, namespace: &str) -> Options {
        Options::new(&self.path(namespace).display().to_string()).expect("a path")
    }
}

/// Every instant that is stored.
const INSTANTS: &[(&str, &[&str])] = &[
    ("jobs_meta", &["clock"]),
    ("jobs_queue", &["paused_until", "changed_at"]),
    ("jobs_lane", &["paused_until", "changed_at"]),
    ("jobs_sublane", &["visited", "due"]),
    ("jobs_live", &["run_at", "lease_until", "started_at", "renewed_at", "verb_at"]),
    ("jobs_body", &["pushed_at", "due"]),
    ("jobs_ready", &["run_at"]),
    ("jobs_done", &["run_at", "ended_at", "started_at", "verb_at"]),
    ("jobs_attempt", &["started_at", "ended_at"]),
    ("jobs_reserve", &["until"]),
    ("jobs_worker", &["since", "seen"]),
];

#[async_trait]
impl Fixture for Files {
    fn name(&self) -> &'static str {
        "sqlite"
    }

    fn child_environment(&self) -> Vec<(String, String)> {
        vec![(DIRECTORY.to_owned(), self.directory.display().to_string())]
    }

    async fn make(&self, namespace: &str, retention: Retention) -> Arc<dyn Admin> {
        let options = self.options(namespace).retention(retention);
        Arc::new(Sqlite::open(options).await.expect("the file opens"))
    }

    async fn age(&self, namespace: &str, by: Duration) {
        let options = SqliteConnectOptions::new()
            .filename(self.path(namespace))
            .busy_timeout(Duration::from_secs(30));
        let mut conn = options.connect().await.expect("the file opens");
        let by = i64::try_from(by.as_millis()).expect("a sane time");
        let mut sql = String::from("BEGIN IMMEDIATE;\n");
        for (table, columns) in INSTANTS {
            let sets: Vec<_> = columns.iter().map(|c| format!("{c} = {c} - {by}")).collect();
            sql.push_str(&format!("UPDATE {table} SET {};\n", sets.join(", ")));
        }
        // A minute's start stays one: counts are kept by whole minutes.
        let minutes = by / 60_000 * 60_000;
        sql.push_str(&format!("UPDATE jobs_minute SET at = -at - {minutes};\n"));
        sql.push_str(&format!("UPDATE jobs_minute SET at = -at - {};\nCOMMIT", 2 * minutes));
        sqlx::raw_sql(sqlx::AssertSqlSafe(sql)).execute(&mut conn).await.expect("ages");
    }

    async fn make_cut(&self, namespace: &str, after: usize) -> Arc<dyn Admin> {
        let options = self.options(namespace).cut_after(after);
        Arc::new(Sqlite::open(options).await.expect("the file opens"))
    }

    async fn begin(&self, namespace: &str) -> Option<Box<dyn Transaction>> {
        let handle = Sqlite::open(self.options(namespace)).await.expect("the file opens");
        let options = SqliteConnectOptions::new().filename(self.path(namespace));
        let pool = SqlitePoolOptions::new().max_connections(1).connect_with(options).await;
        let transaction = pool.expect("a pool").begin_with("BEGIN IMMEDIATE").await;
        let transaction = transaction.expect("the write lock");
        Some(Box::new(Callers { handle, transaction, pushed: Vec::new() }))
    }

    async fn remove(&self, namespace: &str) {
        for suffix in ["", "-wal", "-shm"] {
            std::fs::remove_file(format!("{}{suffix}", self.path(namespace).display())).ok();
        }
    }
}

/// A caller's own transaction.
struct Callers {
    handle: Sqlite,
    transaction: sqlx::Transaction<'static, sqlx::Sqlite>,
    pushed: Vec<PushedIn>,
}

#[async_trait]
impl Transaction for Callers {
    async fn push(&mut self, jobs: &[AuthorizedJob]) -> Result<Vec<Pushed>> {
        let pushed = self.handle.push_in(&mut self.transaction, jobs).await?;
        let answers = pushed.pushed.clone();
        self.pushed.push(pushed);
        Ok(answers)
    }

    async fn commit(self: Box<Self>) -> Result<()> {
        let lost = |error| Error::with_source(ErrorKind::Busy, "commit", "not committed", error);
        self.transaction.commit().await.map_err(lost)?;
        for pushed in self.pushed {
            pushed.wake();
        }
        Ok(())
    }

    async fn rollback(self: Box<Self>) {
        self.transaction.rollback().await.expect("rolls back");
    }
}

fn main() -> ExitCode {
    harness::run(Files::new())
}
