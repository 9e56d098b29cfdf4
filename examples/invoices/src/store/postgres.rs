//! Rows and jobs in one PostgreSQL database: the rows in the application's schema, the jobs in theirs.

use std::sync::Arc;

use async_trait::async_trait;
use jobs_core::{Admin, AuthorizedJob, Pushed, Worker};
use sqlx::{PgExecutor, PgPool, postgres::PgPoolOptions};

use super::{Place, Store};
use crate::{AnyError, data::Tenant};

/// A handle on the database.
#[derive(Debug)]
pub struct Postgres {
    jobs: jobs_postgres::Postgres,
    rows: PgPool,
}

impl Postgres {
    /// For a URL `postgres://user@host/database`.
    pub async fn open(url: &str) -> Result<Self, AnyError> {
        let jobs = jobs_postgres::Postgres::connect(url).await?;
        let rows = PgPoolOptions::new().max_connections(8).connect_lazy(url)?;
        Ok(Self { jobs, rows })
    }
}

#[async_trait]
impl Store for Postgres {
    fn jobs(&self) -> Arc<dyn Admin> {
        Arc::new(self.jobs.clone())
    }

    async fn migrate(&self) -> Result<(), AnyError> {
        self.jobs.migrate().await?;
        let mut tx = self.rows.begin().await?;
        // Two at once would both see that it is missing.
        let lock = "SELECT pg_advisory_xact_lock(hashtext('invoices'))";
        sqlx::query(lock).execute(&mut *tx).await?;
        let table = "CREATE TABLE IF NOT EXISTS app_rows (
            tenant text NOT NULL, kind text NOT NULL, id text NOT NULL, body text NOT NULL,
            PRIMARY KEY (tenant, kind, id)
        )";
        sqlx::query(table).execute(&mut *tx).await?;
        Ok(tx.commit().await?)
    }

    async fn put_and_push(
        &self,
        place: Place<'_>,
        row: &str,
        job: AuthorizedJob,
    ) -> Result<Pushed, AnyError> {
        let mut tx = self.rows.begin().await?;
        put(&mut *tx, place, row).await?;
        let pushed = self.jobs.push_in(&mut tx, &[job]).await?;
        if let [Pushed::Stored] = pushed.pushed[..] {
            tx.commit().await?;
            return Ok(pushed.wake()[0]);
        }
        tx.rollback().await?;
        Ok(pushed.pushed[0])
    }

    async fn put(&self, place: Place<'_>, row: &str) -> Result<(), AnyError> {
        Ok(put(&self.rows, place, row).await?)
    }

    async fn get(&self, Place { tenant, kind, id }: Place<'_>) -> Result<Option<String>, AnyError> {
        let query = "SELECT body FROM app_rows WHERE tenant = $1 AND kind = $2 AND id = $3";
        let query = sqlx::query_scalar(query).bind(tenant.as_str()).bind(kind).bind(id);
        Ok(query.fetch_optional(&self.rows).await?)
    }

    async fn list(&self, tenant: &Tenant, kind: &str) -> Result<Vec<String>, AnyError> {
        let query = "SELECT body FROM app_rows WHERE tenant = $1 AND kind = $2 ORDER BY id";
        let query = sqlx::query_scalar(query).bind(tenant.as_str()).bind(kind);
        Ok(query.fetch_all(&self.rows).await?)
    }

    fn relay(&self) -> Option<Worker> {
        None
    }
}

async fn put(
    conn: impl PgExecutor<'_>,
    Place { tenant, kind, id }: Place<'_>,
    row: &str,
) -> Result<(), sqlx::Error> {
    let query = "INSERT INTO app_rows (tenant, kind, id, body) VALUES ($1, $2, $3, $4)
        ON CONFLICT (tenant, kind, id) DO UPDATE SET body = excluded.body";
    let query = sqlx::query(query).bind(tenant.as_str()).bind(kind).bind(id).bind(row);
    query.execute(conn).await.map(drop)
}
