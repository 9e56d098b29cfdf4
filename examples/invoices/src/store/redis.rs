//! Jobs in Redis, rows in a SQLite file. A push to Redis cannot join the transaction of a row, so
//! what is pushed next to one goes into an outbox in that file, and is relayed from there.

use std::sync::Arc;

use async_trait::async_trait;
use jobs_core::{Admin, AuthorizedJob, JobType, Pushed, Worker, relay::relay};
use url::Url;

use super::{Place, Store, sqlite::Sqlite};
use crate::{
    AnyError,
    data::Tenant,
    jobs::{ImportFile, SendInvoice},
};

/// A handle on both.
#[derive(Debug)]
pub struct Redis {
    jobs: jobs_redis::Redis,
    /// The rows, and beside them the outbox.
    rows: Sqlite,
}

impl Redis {
    /// For a URL of Redis, `redis://host:port/database`, with `rows=file` behind its `?`, and with
    /// `prefix=name` where several applications share a server.
    pub async fn open(url: &str) -> Result<Self, AnyError> {
        let mut url = Url::parse(url)?;
        let (mut rows, mut prefix) = ("invoices.db".to_owned(), None);
        let mut others = Vec::new();
        for (name, value) in url.query_pairs() {
            match &*name {
                "rows" => rows = value.into_owned(),
                "prefix" => prefix = Some(value.into_owned()),
                _ => others.push((name.into_owned(), value.into_owned())),
            }
        }
        url.set_query(None);
        if !others.is_empty() {
            url.query_pairs_mut().extend_pairs(others);
        }
        let mut options = jobs_redis::Options::new(url.as_str())?;
        if let Some(prefix) = prefix {
            options = options.prefix(&prefix)?;
        }
        let jobs = jobs_redis::Redis::open(options).await?;
        Ok(Self { jobs, rows: Sqlite::open(&format!("sqlite://{rows}")).await? })
    }
}

#[async_trait]
impl Store for Redis {
    fn jobs(&self) -> Arc<dyn Admin> {
        Arc::new(self.jobs.clone())
    }

    async fn migrate(&self) -> Result<(), AnyError> {
        self.jobs.migrate().await?;
        self.rows.migrate().await
    }

    async fn put_and_push(
        &self,
        place: Place<'_>,
        row: &str,
        job: AuthorizedJob,
    ) -> Result<Pushed, AnyError> {
        self.rows.put_and_push(place, row, job).await
    }

    async fn put(&self, place: Place<'_>, row: &str) -> Result<(), AnyError> {
        self.rows.put(place, row).await
    }

    async fn get(&self, place: Place<'_>) -> Result<Option<String>, AnyError> {
        self.rows.get(place).await
    }

    async fn list(&self, tenant: &Tenant, kind: &str) -> Result<Vec<String>, AnyError> {
        self.rows.list(tenant, kind).await
    }

    fn relay(&self) -> Option<Worker> {
        let names = [SendInvoice::NAME, ImportFile::NAME];
        let relay = relay(self.rows.jobs(), self.jobs.clone(), names);
        Some(relay.queue(SendInvoice::QUEUE, 1).queue(ImportFile::QUEUE, 1))
    }
}
