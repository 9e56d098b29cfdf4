//! `workers`: who is alive.

use std::borrow::Cow;

use jobs_core::{Admin, Timestamp, view::WorkerView};

use super::Session;
use crate::{json, stop::Stop, table::table, text::when};

/// A worker is listed until it says goodbye, or is silent for a minute. Labels are for operators.
pub(crate) async fn run<A: Admin>(session: &Session<A>) -> Result<u8, Stop> {
    let permit = session.access.permit().await?;
    let workers = session.store.workers(&permit).await?;
    let now = session.store.check(&permit).await?.now;
    match (session.out.json, workers.is_empty()) {
        (true, _) => session.out.object(&json::Workers::of(&workers, now))?,
        (false, true) => session.out.remark("No worker is alive."),
        (false, false) => session.out.say(in_table(&workers, now))?,
    }
    Ok(0)
}

fn in_table(workers: &[WorkerView], now: Timestamp) -> String {
    let heading = ["ID", "LABEL", "QUEUES", "NAMES", "BUSY#", "STUCK#", "SINCE", "SEEN"];
    let rows = workers.iter().map(|WorkerView { worker, since, seen }| {
        [
            Cow::from(worker.id.to_string()),
            Cow::from(&worker.label),
            worker.queues.join(",").into(),
            worker.names.join(",").into(),
            format!("{} of {}", worker.busy, worker.slots).into(),
            worker.stuck.to_string().into(),
            when(*since, now).into(),
            when(*seen, now).into(),
        ]
    });
    table(&heading, rows)
}
