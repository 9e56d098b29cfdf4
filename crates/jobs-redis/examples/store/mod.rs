//! Redis, as the benchmark opens it.

use std::sync::Arc;

use jobs_core::{Admin, Result, async_trait};
use jobs_redis::{Options, Redis};
use jobs_testkit::bench::Bench;

/// The prefix behind the `#` of each URL.
pub struct Database;

#[async_trait]
impl Bench for Database {
    fn name(&self) -> &'static str {
        "redis"
    }

    fn durabilities(&self) -> &'static [&'static str] {
        // An append-only file synced every second.
        &["fast"]
    }

    async fn open(&self, url: &str, _: &str) -> Result<Arc<dyn Admin>> {
        let (url, prefix) = url.split_once('#').unwrap_or((url, "jobs"));
        let store = Redis::open(Options::new(url)?.prefix(prefix)?).await?;
        store.migrate().await?;
        Ok(Arc::new(store))
    }
}
