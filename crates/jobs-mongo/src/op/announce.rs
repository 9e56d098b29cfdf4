//! Announce (A4).

use jobs_core::{Result, queue::Worker};
use mongodb::bson::{Document, doc};

use crate::Mongo;

/// One announcement.
pub(crate) async fn one(store: &Mongo, worker: &Worker) -> Result<()> {
    store.minutes.pass(&store.db);
    let db = &store.db;
    let id = worker.id.to_string();
    let announce = async {
        if worker.leaving {
            let deletes = vec![doc! { "q": { "_id": id }, "limit": 1 }];
            db.hint(doc! { "delete": db.name("workers"), "deletes": deletes }).await?;
            return Ok(());
        }
        let number = |count: u32| i64::from(count);
        let silent = doc! { "$lte": [{ "$add": ["$seen", 60_000_i64] }, "$$NOW"] };
        let since = doc! { "$cond": [silent, "$$NOW", { "$ifNull": ["$since", "$$NOW"] }] };
        let seen: Document = doc! { "$set": {
            "label": { "$literal": &worker.label },
            "queues": { "$literal": &worker.queues },
            "names": { "$literal": &worker.names },
            "slots": number(worker.slots),
            "busy": number(worker.busy),
            "stuck": number(worker.stuck),
            "since": since,
            "seen": "$$NOW",
        } };
        let updates = vec![doc! { "q": { "_id": id }, "u": [seen], "upsert": true }];
        db.hint(doc! { "update": db.name("workers"), "updates": updates }).await?;
        Ok(())
    };
    db.within("announce", announce).await
}
