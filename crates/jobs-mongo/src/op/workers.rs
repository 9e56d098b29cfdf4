//! Workers (A4).

use jobs_core::{
    Permit, Result, driver::small, permit::Read, queue::Worker, time::from_millis, view::WorkerView,
};
use mongodb::bson::{Document, doc};

use crate::{
    Mongo,
    row::{date, int, text},
};

/// Who lives: seen in the last minute. A tenant's permit sees no label.
pub(crate) async fn alive(store: &Mongo, permit: &Permit<Read>) -> Result<Vec<WorkerView>> {
    let db = &store.db;
    let rows = async {
        let seen = doc! { "$gt": [{ "$add": ["$seen", 60_000_i64] }, "$$NOW"] };
        let filter = doc! { "seen": { "$exists": true }, "$expr": seen };
        db.rows(doc! { "find": db.name("workers"), "filter": filter, "sort": { "_id": 1 } }).await
    };
    let rows = db.within("workers", rows).await?;
    let labels = permit.tenant().is_none();
    Ok(rows.iter().filter_map(|row| view(row, labels)).collect())
}

fn view(row: &Document, labels: bool) -> Option<WorkerView> {
    let texts = |field: &str| {
        let all = row.get_array(field).into_iter().flatten();
        all.filter_map(|text| text.as_str().map(str::to_owned)).collect()
    };
    let number = |field: &str| small(int(row, field).unwrap_or_default());
    let worker = Worker {
        id: text(row, "_id")?.parse().ok()?,
        label: text(row, "label").filter(|_| labels).unwrap_or_default(),
        queues: texts("queues"),
        names: texts("names"),
        slots: number("slots"),
        busy: number("busy"),
        stuck: number("stuck"),
        leaving: false,
    };
    let (since, seen) = (from_millis(date(row, "since")?), from_millis(date(row, "seen")?));
    Some(WorkerView { worker, since, seen })
}
