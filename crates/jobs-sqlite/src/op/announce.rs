//! Announce (A4).

use async_trait::async_trait;
use jobs_core::queue::Worker;
use serde::{Deserialize, Serialize};

use crate::{
    db::query,
    error::Fault,
    tx::{Tx, json},
    writer::Write,
};

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
pub(crate) struct Announce(pub Worker);

#[async_trait]
impl Write for Announce {
    const NAME: &'static str = "announce";
    type Answer = ();

    async fn run(&self, tx: &mut Tx<'_>) -> Result<(), Fault> {
        let worker = &self.0;
        tx.dirty = true;
        let id = &worker.id.as_bytes()[..];
        if worker.leaving {
            tx.db.run(query(include_str!("announce_bye.sql")).bind(id)).await?;
            return Ok(());
        }
        let doc = Doc {
            label: worker.label.clone(),
            queues: worker.queues.clone(),
            names: worker.names.clone(),
            slots: worker.slots,
            busy: worker.busy,
            stuck: worker.stuck,
        };
        let announce = query(include_str!("announce.sql")).bind(id).bind(json(&doc)).bind(tx.now);
        tx.db.run(announce).await?;
        Ok(())
    }
}
