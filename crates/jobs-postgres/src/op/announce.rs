//! Announce (A4).

use jobs_core::{Result, queue::Worker};
use serde::{Deserialize, Serialize};

use crate::Postgres;

/// A worker as it is stored.
#[derive(Serialize, Deserialize)]
pub(crate) struct Doc {
    pub label: String,
    pub queues: Vec<String>,
    pub names: Vec<String>,
    pub slots: u32,
    pub busy: u32,
    pub stuck: u32,
}

/// One announcement.
pub(crate) async fn one(store: &Postgres, worker: &Worker) -> Result<()> {
    if worker.leaving {
        let sql = include_str!("announce_bye.sql");
        return store.db.call("announce", sql, |args| args.add(worker.id)).await.map(drop);
    }
    let doc = Doc {
        label: worker.label.clone(),
        queues: worker.queues.clone(),
        names: worker.names.clone(),
        slots: worker.slots,
        busy: worker.busy,
        stuck: worker.stuck,
    };
    // Text and numbers always have a JSON form, in which a NUL is an escape.
    let doc = serde_json::to_string(&doc).unwrap_or_default();
    let announced = store.db.call("announce", include_str!("announce.sql"), |args| {
        args.add(worker.id)?;
        args.add(doc.as_str())
    });
    announced.await.map(drop)
}
