//! PostgreSQL, as the benchmark opens it.

use std::sync::Arc;

use jobs_core::{Admin, Result, async_trait};
use jobs_postgres::Postgres;
use jobs_testkit::bench::Bench;

/// One schema in the database of each URL.
pub struct Schema;

#[async_trait]
impl Bench for Schema {
    fn name(&self) -> &'static str {
        "postgres"
    }

    fn durabilities(&self) -> &'static [&'static str] {
        // The server's `synchronous_commit`, which is on unless its operator says otherwise.
        &["on"]
    }

    async fn open(&self, url: &str, _: &str) -> Result<Arc<dyn Admin>> {
        let store = Postgres::connect(url).await?;
        store.migrate().await?;
        Ok(Arc::new(store))
    }
}
