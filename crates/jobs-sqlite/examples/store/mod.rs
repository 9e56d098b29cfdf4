//! SQLite, as the benchmark opens it.

use std::sync::Arc;

use jobs_core::{Admin, Result, async_trait};
use jobs_sqlite::{Durability, Options, Sqlite};
use jobs_testkit::bench::Bench;

/// One file for each URL.
pub struct Files;

#[async_trait]
impl Bench for Files {
    fn name(&self) -> &'static str {
        "sqlite"
    }

    fn durabilities(&self) -> &'static [&'static str] {
        &["full", "normal"]
    }

    async fn open(&self, url: &str, durability: &str) -> Result<Arc<dyn Admin>> {
        let normal = durability == "normal";
        let durability = if normal { Durability::Normal } else { Durability::Full };
        Ok(Arc::new(Sqlite::open(Options::new(url)?.durability(durability)).await?))
    }
}
