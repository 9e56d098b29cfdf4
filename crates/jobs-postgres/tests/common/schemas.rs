//! The suite's fixture: one schema for each namespace, on a database that a target chooses.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use jobs_core::{
    Admin, AuthorizedJob, Error, ErrorKind, Result, async_trait, queue::Pushed,
    retention::Retention,
};
use jobs_postgres::{Options, Postgres, PushedIn};
use jobs_testkit::fixture::{Fixture, Transaction};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};

use super::run_sql_at;

/// A way to the database.
pub struct Schemas {
    pub name: &'static str,
    /// Past any pooler, for what the fixture does itself; why it is not there.
    pub url: Result<String, String>,
    /// Of a store on this URL, without its schema.
    pub options: fn(&str) -> Options,
    /// With which a caller connects for a transaction of its own.
    pub caller: fn(&str) -> PgConnectOptions,
    /// What a child process is told.
    pub child: Vec<(String, String)>,
    /// The handles on each, which look at everything again after their instants were moved.
    pub handles: Mutex<HashMap<String, Vec<Postgres>>>,
}

/// Every instant that is stored.
const INSTANTS: &[(&str, &[&str])] = &[
    ("queue", &["paused_until", "changed_at"]),
    ("lane", &["paused_until", "changed_at"]),
    ("live", &["run_at", "lease_until", "started_at", "renewed_at", "verb_at"]),
    ("body", &["pushed_at", "due"]),
    ("done", &["run_at", "ended_at", "started_at", "verb_at"]),
    ("attempt", &["started_at", "ended_at"]),
    ("taken", &["until"]),
    ("worker", &["since", "seen"]),
    ("swept", &["floor", "next", "cut", "cut_at"]),
];

impl Schemas {
    /// On the database of this URL, straight.
    pub fn direct(name: &'static str, url: Result<String, String>) -> Self {
        Self {
            name,
            url,
            options: |url| Options::new(url).expect("a URL"),
            caller: |url| url.parse().expect("a URL"),
            child: Vec::new(),
            handles: Mutex::default(),
        }
    }

    /// The database's URL.
    pub fn url(&self) -> &str {
        self.url.as_deref().expect("a server")
    }

    fn options(&self, namespace: &str) -> Options {
        (self.options)(self.url()).schema(namespace).expect("a name")
    }

    /// A handle on the schema of this name, migrated.
    pub async fn open(&self, namespace: &str, options: Options) -> Postgres {
        let store = Postgres::open(options).await.expect("the server answers");
        store.migrate().await.expect("migrates");
        let mut handles = self.handles.lock().expect("not poisoned");
        handles.entry(namespace.to_owned()).or_default().push(store.clone());
        store
    }
}

#[async_trait]
impl Fixture for Schemas {
    fn name(&self) -> &'static str {
        self.name
    }

    fn unavailable(&self) -> Option<String> {
        self.url.as_ref().err().cloned()
    }

    fn child_environment(&self) -> Vec<(String, String)> {
        self.child.clone()
    }

    async fn make(&self, namespace: &str, retention: Retention) -> Arc<dyn Admin> {
        let options = self.options(namespace).retention(retention);
        Arc::new(self.open(namespace, options).await)
    }

    async fn age(&self, namespace: &str, by: Duration) {
        let by = i64::try_from(by.as_millis()).expect("a sane time");
        let mut sql = String::from("BEGIN ISOLATION LEVEL READ COMMITTED;\n");
        for (table, columns) in INSTANTS {
            let sets: Vec<_> = columns.iter().map(|c| format!("{c} = {c} - {by}")).collect();
            sql.push_str(&format!("UPDATE {namespace}.{table} SET {};\n", sets.join(", ")));
        }
        // A minute's start stays one: counts are kept by whole minutes.
        let minutes = by / 60_000 * 60_000;
        sql.push_str(&format!("UPDATE {namespace}.minute SET at = at - {minutes};\nCOMMIT"));
        run_sql_at(self.url(), &sql).await;
        let handles = self.handles.lock().expect("not poisoned");
        handles.get(namespace).into_iter().flatten().for_each(Postgres::forget);
    }

    async fn make_cut(&self, namespace: &str, after: usize) -> Arc<dyn Admin> {
        let options = self.options(namespace).cut_after(after);
        Arc::new(self.open(namespace, options).await)
    }

    async fn begin(&self, namespace: &str) -> Option<Box<dyn Transaction>> {
        let handle = self.open(namespace, self.options(namespace)).await;
        let pool = PgPoolOptions::new().max_connections(1);
        let pool = pool.connect_with((self.caller)(self.url())).await;
        let transaction = pool.expect("a pool").begin().await.expect("it begins");
        Some(Box::new(Callers { handle, transaction, pushed: Vec::new() }))
    }

    async fn remove(&self, namespace: &str) {
        self.handles.lock().expect("not poisoned").remove(namespace);
        run_sql_at(self.url(), &format!("DROP SCHEMA IF EXISTS {namespace} CASCADE")).await;
    }
}

/// A caller's own transaction.
struct Callers {
    handle: Postgres,
    transaction: sqlx::Transaction<'static, sqlx::Postgres>,
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
