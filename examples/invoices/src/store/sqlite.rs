//! Rows and jobs in one SQLite file.

use std::{str::FromStr, sync::Arc, time::Duration};

use async_trait::async_trait;
use jobs_core::{Admin, AuthorizedJob, Pushed, Worker};
use sqlx::{
    SqliteExecutor, SqlitePool,
    sqlite::{SqliteConnectOptions, SqlitePoolOptions},
};

use super::{Place, Store};
use crate::{AnyError, data::Tenant};

/// A handle on the file.
#[derive(Debug)]
pub struct Sqlite {
    pub(super) jobs: jobs_sqlite::Sqlite,
    rows: SqlitePool,
}

impl Sqlite {
    /// For a URL `sqlite://path`. The file is made and migrated.
    pub async fn open(url: &str) -> Result<Self, AnyError> {
        // First: it turns the file to WAL mode.
        let jobs = jobs_sqlite::Sqlite::connect(url).await?;
        let file = SqliteConnectOptions::from_str(url)?.busy_timeout(Duration::from_secs(10));
        let rows = SqlitePoolOptions::new().max_connections(4).connect_with(file).await?;
        let store = Self { jobs, rows };
        store.migrate().await?;
        Ok(store)
    }
}

#[async_trait]
impl Store for Sqlite {
    fn jobs(&self) -> Arc<dyn Admin> {
        Arc::new(self.jobs.clone())
    }

    async fn migrate(&self) -> Result<(), AnyError> {
        let table = "CREATE TABLE IF NOT EXISTS app_rows (
            tenant TEXT NOT NULL, kind TEXT NOT NULL, id TEXT NOT NULL, body TEXT NOT NULL,
            PRIMARY KEY (tenant, kind, id)
        ) WITHOUT ROWID";
        sqlx::query(table).execute(&self.rows).await?;
        Ok(())
    }

    async fn put_and_push(
        &self,
        place: Place<'_>,
        row: &str,
        job: AuthorizedJob,
    ) -> Result<Pushed, AnyError> {
        let mut tx = self.rows.begin_with("BEGIN IMMEDIATE").await?;
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
        let query = "SELECT body FROM app_rows WHERE tenant = ? AND kind = ? AND id = ?";
        let query = sqlx::query_scalar(query).bind(tenant.as_str()).bind(kind).bind(id);
        Ok(query.fetch_optional(&self.rows).await?)
    }

    async fn list(&self, tenant: &Tenant, kind: &str) -> Result<Vec<String>, AnyError> {
        let query = "SELECT body FROM app_rows WHERE tenant = ? AND kind = ? ORDER BY id";
        let query = sqlx::query_scalar(query).bind(tenant.as_str()).bind(kind);
        Ok(query.fetch_all(&self.rows).await?)
    }

    fn relay(&self) -> Option<Worker> {
        None
    }
}

async fn put(
    conn: impl SqliteExecutor<'_>,
    Place { tenant, kind, id }: Place<'_>,
    row: &str,
) -> Result<(), sqlx::Error> {
    let query = "INSERT INTO app_rows (tenant, kind, id, body) VALUES (?, ?, ?, ?)
        ON CONFLICT (tenant, kind, id) DO UPDATE SET body = excluded.body";
    let query = sqlx::query(query).bind(tenant.as_str()).bind(kind).bind(id).bind(row);
    query.execute(conn).await.map(drop)
}
