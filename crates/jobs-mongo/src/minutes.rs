//! What failed, by minute and lane (A2). What is done is counted where it is kept, by the index of
//! history.
//!
//! A handle counts what failed and writes its totals of a minute, as totals: written twice they are
//! the same. That is done beside later calls, so that no settlement waits for it; a process that is
//! killed takes the counts of its last second with it.

use std::{
    collections::{BTreeSet, HashMap},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use mongodb::bson::{Document, doc};

use crate::{
    db::Db,
    error::Fault,
    row::{at, token},
};

/// Between two writes of one handle.
const EVERY: Duration = Duration::from_millis(500);
/// In milliseconds.
const MINUTE: i64 = 60_000;

/// Minute, queue, tenant.
type Lane = (i64, String, String);

#[derive(Debug, Default)]
struct Totals {
    /// Marks this handle's documents.
    own: i64,
    counts: HashMap<Lane, i64>,
    unwritten: BTreeSet<Lane>,
    written: Option<Instant>,
    writing: bool,
}

/// The counts of one handle.
#[derive(Debug, Default)]
pub(crate) struct Minutes(Mutex<Totals>);

impl Minutes {
    /// A run of this lane failed.
    pub fn failed(&self, db: &Db, queue: &str, tenant: &str) {
        // Where the server's time is not known just now the last minute is as good.
        let now = db.clock.now();
        let mut totals = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let newest = || totals.counts.keys().map(|lane| lane.0).max();
        let Some(minute) = now.map(|now| now - now % MINUTE).or_else(newest) else { return };
        if totals.own == 0 {
            totals.own = token();
        }
        let lane = (minute, queue.to_owned(), tenant.to_owned());
        totals.unwritten.insert(lane.clone());
        totals.counts.retain(|(other, ..), _| *other > minute - 5 * MINUTE);
        *totals.counts.entry(lane).or_default() += 1;
    }

    /// Writes what is not written, now and then, beside the call that comes along.
    pub fn pass(self: &Arc<Self>, db: &Arc<Db>) {
        {
            let mut totals = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            let lately = totals.written.is_some_and(|at| at.elapsed() < EVERY);
            if lately || totals.writing || totals.unwritten.is_empty() {
                return;
            }
            (totals.writing, totals.written) = (true, Some(Instant::now()));
        }
        let writing = Writing(self.clone());
        let db = db.clone();
        tokio::spawn(async move {
            if let Err(fault) = writing.0.write(&db).await {
                tracing::debug!(?fault, "counts by minute are written later");
            }
        });
    }

    /// Writes what is not written.
    pub async fn write(&self, db: &Db) -> Result<(), Fault> {
        let (lanes, statements) = {
            let mut totals = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            let lanes = std::mem::take(&mut totals.unwritten);
            let own = totals.own;
            let statement = |lane: &Lane| {
                statement(own, lane, totals.counts.get(lane).copied().unwrap_or_default())
            };
            let statements: Vec<Document> = lanes.iter().map(statement).collect();
            (lanes, statements)
        };
        if statements.is_empty() {
            return Ok(());
        }
        let update = doc! { "update": db.name("minutes"), "updates": statements, "ordered": false };
        let written = tokio::time::timeout(Duration::from_secs(5), db.hint(update)).await;
        match written {
            Ok(Ok(_)) => Ok(()),
            failed => {
                let mut totals = self.0.lock().unwrap_or_else(PoisonError::into_inner);
                totals.unwritten.extend(lanes);
                failed.unwrap_or(Err(crate::error::LATE)).map(drop)
            }
        }
    }

    /// What is written belongs to another handle from now on.
    pub fn forget(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Totals::default();
    }
}

fn statement(own: i64, lane: &Lane, failed: i64) -> Document {
    let (minute, queue, tenant) = lane;
    let totals = doc! {
        "$set": { "at": at(*minute), "queue": queue, "tenant": tenant },
        "$max": { "failed": failed },
    };
    let id = format!("{own}/{minute}/{queue}/{tenant}");
    doc! { "q": { "_id": id }, "u": totals, "upsert": true }
}

/// Lets the next write begin, also when its runtime ends in between.
struct Writing(Arc<Minutes>);

impl Drop for Writing {
    fn drop(&mut self) {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner).writing = false;
    }
}
