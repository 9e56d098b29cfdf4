//! Workers (A4).

use jobs_core::{Permit, Result, permit::Read, queue::Worker, time::from_millis, view::WorkerView};
use sqlx::postgres::PgRow;

use super::announce::Doc;
use crate::{Postgres, db::get, error::Fault};

/// Who lives; a tenant's permit sees no label.
pub(crate) async fn alive(store: &Postgres, permit: &Permit<Read>) -> Result<Vec<WorkerView>> {
    let rows = store.db.call("workers", include_str!("workers.sql"), |_| Ok(())).await?;
    let labels = permit.tenant().is_none();
    let views = rows.iter().filter_map(|row| view(row, labels).transpose());
    views.collect::<std::result::Result<_, _>>().map_err(|fault| fault.into_error("workers"))
}

fn view(row: &PgRow, labels: bool) -> std::result::Result<Option<WorkerView>, Fault> {
    let Ok(doc) = serde_json::from_str::<Doc>(get(row, 1)?) else { return Ok(None) };
    let worker = Worker {
        id: get(row, 0)?,
        label: if labels { doc.label } else { String::new() },
        queues: doc.queues,
        names: doc.names,
        slots: doc.slots,
        busy: doc.busy,
        stuck: doc.stuck,
        leaving: false,
    };
    let (since, seen) = (from_millis(get(row, 2)?), from_millis(get(row, 3)?));
    Ok(Some(WorkerView { worker, since, seen }))
}
