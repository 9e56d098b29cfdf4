//! MongoDB, as the benchmark opens it.

use std::sync::Arc;

use jobs_core::{Admin, Result, async_trait};
use jobs_mongo::Mongo;
use jobs_testkit::bench::Bench;

/// The database of each URL.
pub struct Database;

#[async_trait]
impl Bench for Database {
    fn name(&self) -> &'static str {
        "mongo"
    }

    fn durabilities(&self) -> &'static [&'static str] {
        // Acknowledged by a majority, journaled.
        &["majority"]
    }

    async fn open(&self, url: &str, _: &str) -> Result<Arc<dyn Admin>> {
        let store = Mongo::connect(url).await?;
        store.migrate().await?;
        Ok(Arc::new(store))
    }
}
