//! A store of a test's own.

use std::{
    env,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
};

use jobs_core::{Admin, Cause, Job, JobRef, QueueExt, queue::Reserve, view::JobRecord};
use jobs_mongo::Mongo;
use jobs_postgres::Postgres;
use jobs_redis::Redis;
use jobs_servers::{drop_database, psql, remove_keys};
use jobs_sqlite::Sqlite;
use jobs_testkit::kit;

/// A kind of store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Sqlite,
    Postgres,
    Mongo,
    Redis,
}

impl Kind {
    pub const ALL: [Self; 4] = [Self::Sqlite, Self::Postgres, Self::Mongo, Self::Redis];

    fn variable(self) -> Option<&'static str> {
        match self {
            Self::Sqlite => None,
            Self::Postgres => Some("JOBS_TEST_POSTGRES_URL"),
            Self::Mongo => Some("JOBS_TEST_MONGO_URL"),
            Self::Redis => Some("JOBS_TEST_REDIS_URL"),
        }
    }

    /// Why it cannot be reached.
    pub fn missing(self) -> Option<String> {
        let variable = self.variable()?;
        let why = format!("set {variable}, or `cargo xtask test --install`");
        env::var_os(variable).is_none().then_some(why)
    }
}

/// A file, a schema, a database or a prefix.
pub struct Place {
    pub kind: Kind,
    folder: tempfile::TempDir,
    name: String,
}

impl Place {
    pub fn new(kind: Kind) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("t_web_{}_{count}", std::process::id());
        Self { kind, folder: tempfile::tempdir().expect("a folder"), name }
    }

    fn url(&self) -> String {
        match self.kind.variable() {
            None => self.folder.path().join("app.db").display().to_string(),
            Some(variable) => env::var(variable).expect("the runner asked for it"),
        }
    }

    /// A handle, migrated.
    pub async fn store(&self) -> Arc<dyn Admin> {
        let url = self.url();
        match self.kind {
            Kind::Sqlite => Arc::new(Sqlite::connect(&url).await.expect("it opens")),
            Kind::Postgres => {
                let options = jobs_postgres::Options::new(&url).expect("a URL");
                let options = options.schema(&self.name).expect("a name");
                let store = Postgres::open(options).await.expect("the server answers");
                store.migrate().await.expect("it migrates");
                Arc::new(store)
            }
            Kind::Mongo => {
                let options = jobs_mongo::Options::new(&url).await.expect("a URL");
                let options = options.database(&self.name).expect("a name");
                let store = Mongo::open(options).await.expect("the server answers");
                store.migrate().await.expect("it migrates");
                Arc::new(store)
            }
            Kind::Redis => {
                let options = jobs_redis::Options::new(&url).expect("a URL");
                let options = options.prefix(&self.name).expect("a prefix");
                let store = Redis::open(options).await.expect("the server answers");
                store.migrate().await.expect("it migrates");
                Arc::new(store)
            }
        }
    }

    /// Removes what is on a server.
    pub fn remove(&self) {
        let url = self.url();
        let removed = match self.kind {
            Kind::Sqlite => Ok(()),
            Kind::Postgres => {
                psql(&url, &format!("DROP SCHEMA IF EXISTS {} CASCADE", self.name)).map(drop)
            }
            Kind::Mongo => drop_database(&url, &self.name),
            Kind::Redis => remove_keys(&url, &format!("{{{}:*", self.name)),
        };
        removed.expect("it goes");
    }
}

/// A job that failed for good, alone in its queue.
pub async fn parked(store: &dyn Admin, job: Job, cause: impl Into<Cause>) -> Job {
    let job = kit::push(store, job).await;
    let request = Reserve::new(&job.queue, [&job.name], "suite").expect("legal").slots(1);
    let mut taken = store.reserve(&request).await.expect("the store answers").deliveries;
    let held = taken.pop().expect("it is due");
    assert_eq!(held.job.id, job.id, "nothing else is due");
    store.park(&held.claim, cause.into()).await.expect("it parks");
    job
}

pub async fn record(store: &dyn Admin, job: &JobRef) -> Option<JobRecord> {
    store.get(&kit::operator().await, job).await.expect("the store answers")
}
