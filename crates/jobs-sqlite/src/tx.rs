//! One write transaction: the clock, the number of the next job, and who is to be woken after it.

use std::collections::BTreeSet;

use jobs_core::retention::Retention;
use serde::Serialize;

use crate::{
    db::{Db, query},
    error::Fault,
    places::Places,
    row::get,
};

/// An open transaction.
pub(crate) struct Tx<'c> {
    pub db: Db<'c>,
    pub now: i64,
    pub next_job: i64,
    pub retention: Retention,
    pub places: &'c mut Places,
    /// Something was written: an empty reserve commits nothing and syncs nothing.
    pub dirty: bool,
    /// The queues that got work.
    pub woken: BTreeSet<i64>,
}

/// A list for json_each.
pub(crate) fn json<T: Serialize + ?Sized>(value: &T) -> String {
    // Numbers and text in vectors and tuples always have a JSON form.
    serde_json::to_string(value).unwrap_or_default()
}

impl<'c> Tx<'c> {
    /// Takes over a connection inside a write transaction, at the handle's `now` or later.
    pub async fn open(
        mut db: Db<'c>,
        places: &'c mut Places,
        retention: Retention,
        now: i64,
    ) -> Result<Tx<'c>, Fault> {
        let tick = query(include_str!("op/tick.sql")).bind(now);
        let row = db.first(tick).await?;
        let row = row.ok_or(Fault::Corrupt("jobs_meta has no row".into()))?;
        let (now, last): (i64, i64) = (get(&row, 0)?, get(&row, 1)?);
        let woken = BTreeSet::new();
        Ok(Self {
            db,
            now,
            next_job: last.saturating_add(1),
            retention,
            places,
            dirty: false,
            woken,
        })
    }

    /// Counts the wake-ups: which queues, and their new counts.
    pub async fn wake(&mut self) -> Result<Vec<(String, i64)>, Fault> {
        if self.woken.is_empty() {
            return Ok(Vec::new());
        }
        let queues = json(&self.woken);
        let rows = self.db.all(query(include_str!("op/wake.sql")).bind(queues)).await?;
        rows.iter().map(|row| Ok((get(row, 0)?, get(row, 1)?))).collect()
    }
}

/// Commits only what changed something.
pub(crate) async fn finish(mut db: Db<'_>, dirty: bool) -> Result<(), Fault> {
    let end = if dirty { "COMMIT" } else { "ROLLBACK" };
    db.run(query(end)).await.map(drop)
}
