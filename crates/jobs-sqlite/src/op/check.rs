//! Check (A7).

use async_trait::async_trait;
use jobs_core::{time::from_millis, view::Check};

use crate::{
    clock::system_now,
    db::query,
    error::Fault,
    options::{Durability, Options},
    reader::{Read, Reading},
    row::{get, small},
    schema::check_version,
};

/// How far the machine's clock may be behind the file's before somebody is told.
const BEHIND: i64 = 10_000;

/// Schema, safety settings and clock.
pub(crate) struct Health {
    durability: Durability,
}

impl Health {
    pub fn new(options: &Options) -> Self {
        Self { durability: options.durability }
    }
}

#[async_trait]
impl Read for Health {
    const NAME: &'static str = "check";
    type Answer = Check;

    async fn run(&self, reading: &mut Reading<'_>) -> Result<Check, Fault> {
        let row = reading.db.first(query(include_str!("check.sql"))).await?;
        let row = row.ok_or_else(|| Fault::Corrupt("the schema is not there".into()))?;
        let version: String = get(&row, 0)?;
        let mut findings: Vec<String> = check_version(&version).err().into_iter().collect();
        let mode = reading.db.first(query("PRAGMA journal_mode")).await?;
        let mode: String = mode.map_or(Ok(String::new()), |row| get(&row, 0))?;
        if mode != "wal" {
            findings.push(format!(
                "the journal mode is {mode}: another program changed it, set it to wal"
            ));
        }
        if self.durability == Durability::Normal {
            findings.push("a power cut may lose the last commits: use Durability::Full".into());
        }
        let behind = get::<Option<i64>>(&row, 2)?.unwrap_or_default() - system_now();
        if behind > BEHIND {
            findings.push(format!(
                "the machine's clock is {} s behind the file's, which goes on from there: what \
                 has a time comes due that much early. Correct the machine's clock, or, if it is \
                 right, stop every process and run UPDATE jobs_meta SET clock = 0",
                behind / 1000
            ));
        }
        Ok(Check {
            store: format!("SQLite {version}"),
            schema: small(get::<Option<i64>>(&row, 1)?.unwrap_or_default()),
            now: from_millis(reading.now),
            findings,
        })
    }
}
