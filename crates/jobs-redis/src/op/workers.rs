//! The workers alive (A4).

use jobs_core::{Permit, Result, permit::Read, queue::Worker, time::from_millis, view::WorkerView};

use super::announce::Stored;
use crate::{Redis, error::Fault, reply::Reply, script::script};

script!(WORKERS, ALWAYS, "workers.lua");

/// Their labels are the operator's business.
pub(crate) async fn alive(store: &Redis, permit: &Permit<Read>) -> Result<Vec<WorkerView>> {
    let alive = async {
        let mut reply = Reply::of(store.db.run(0, &WORKERS, Vec::new()).await?)?;
        let mut alive = Vec::new();
        while reply.left() > 3 {
            let (id, seen, since) = (reply.text()?, reply.int()?, reply.int()?);
            let text = reply.text()?;
            let damaged = |_| Fault::Corrupt(format!("the worker {id:.60}"));
            let (label, queues, names, slots, busy, stuck): Stored =
                serde_json::from_str(&text).map_err(damaged)?;
            let damaged = |_| Fault::Corrupt(format!("the worker {id:.60}"));
            let label = if permit.tenant().is_some() { String::new() } else { label };
            let id = uuid::Uuid::parse_str(&id).map_err(damaged)?;
            let worker = Worker { id, label, queues, names, slots, busy, stuck, leaving: false };
            alive.push(WorkerView { worker, since: from_millis(since), seen: from_millis(seen) });
        }
        Ok(alive)
    };
    store.db.within("workers", alive).await
}
