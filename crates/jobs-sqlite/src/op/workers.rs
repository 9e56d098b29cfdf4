//! Workers (A4).

use async_trait::async_trait;
use jobs_core::{Permit, permit, queue::Worker, time::from_millis, view::WorkerView};

use super::{announce::Doc, sweep::SILENT};
use crate::{
    db::query,
    error::Fault,
    reader::{Read, Reading},
    row::get,
};

/// Who lives; a tenant's permit sees no label.
pub(crate) struct Alive {
    labels: bool,
}

impl Alive {
    pub fn new(permit: &Permit<permit::Read>) -> Self {
        Self { labels: permit.tenant().is_none() }
    }
}

#[async_trait]
impl Read for Alive {
    const NAME: &'static str = "workers";
    type Answer = Vec<WorkerView>;

    async fn run(&self, reading: &mut Reading<'_>) -> Result<Vec<WorkerView>, Fault> {
        let alive = query(include_str!("workers.sql")).bind(reading.now - SILENT);
        let mut views = Vec::new();
        for row in reading.db.all(alive).await? {
            let Ok(id) = uuid::Uuid::from_slice(get(&row, 0)?) else { continue };
            let Ok(doc) = serde_json::from_str::<Doc>(get(&row, 1)?) else { continue };
            let worker = Worker {
                id,
                label: if self.labels { doc.label } else { String::new() },
                queues: doc.queues,
                names: doc.names,
                slots: doc.slots,
                busy: doc.busy,
                stuck: doc.stuck,
                leaving: false,
            };
            let (since, seen) = (from_millis(get(&row, 2)?), from_millis(get(&row, 3)?));
            views.push(WorkerView { worker, since, seen });
        }
        Ok(views)
    }
}
