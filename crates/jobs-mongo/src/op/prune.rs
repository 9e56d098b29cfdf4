//! What leaves history (S5), as a part of a sweep, so many documents a sweep.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use jobs_core::{
    State,
    queue::{STUB, Swept},
    time::delay_millis,
};
use mongodb::bson::{Bson, Document, doc};

use super::{
    survey::union,
    sweep::{BATCH, HOUR},
};
use crate::{
    Mongo,
    error::Fault,
    row::{at, date, int, text, token},
};

/// How often a queue is counted for what is more than its history keeps: that walks as much of an
/// index as is kept, 30 ms of 100,000.
const COUNTED: Duration = Duration::from_secs(60);
/// A sweep that marked stubs and was not heard of for so long, in milliseconds, is gone.
const GONE: i64 = 60_000;
/// In milliseconds.
const MINUTE: i64 = 60_000;

/// Where this handle's sweeps are in history.
#[derive(Debug, Default)]
pub(crate) struct Pruning(Mutex<Place>);

#[derive(Debug, Default)]
struct Place {
    /// The queue that the last one ended with.
    from: String,
    /// When queues were last counted and had no more than they keep.
    counted: HashMap<String, Instant>,
}

impl Pruning {
    fn place(&self) -> MutexGuard<'_, Place> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn was_counted(&self, queue: &str) -> bool {
        self.place().counted.get(queue).is_some_and(|at| at.elapsed() < COUNTED)
    }

    fn count(&self, queue: &str) {
        let mut place = self.place();
        place.counted.retain(|_, at| at.elapsed() < COUNTED);
        place.counted.insert(queue.to_owned(), Instant::now());
    }

    /// Everything is counted again, as after instants were moved by hand.
    pub fn forget(&self) {
        *self.place() = Place::default();
    }
}

/// Goes on where the last sweep ended, so that a busy queue does not keep others' history from going.
pub(super) async fn prune(
    store: &Mongo,
    now: i64,
    swept: &mut Swept,
) -> std::result::Result<(), Fault> {
    cancelled(store, now, swept).await?;
    let begin = store.pruning.place().from.clone();
    let mut queue = begin.clone();
    // To the last queue and from the first one on, each once.
    let mut again = false;
    while swept.pruned < BATCH {
        match next(store, &queue).await? {
            Some(next) if !again || next <= begin => queue = next,
            None if !again && !begin.is_empty() => {
                (again, queue) = (true, String::new());
                continue;
            }
            _ => break,
        }
        done(store, &queue, now, swept).await?;
    }
    store.pruning.place().from = queue;
    stubs(store, now, swept).await
}

/// The next queue with history, by one seek.
async fn next(store: &Mongo, queue: &str) -> std::result::Result<Option<String>, Fault> {
    let next = vec![
        doc! { "$match": {
            "state": 4_i32, "queue": { "$gt": queue }, "ended_at": { "$exists": true },
        } },
        doc! { "$sort": { "queue": 1, "ended_at": 1 } },
        doc! { "$limit": 1 },
        doc! { "$project": { "queue": 1 } },
    ];
    let rows = union(store, [next].into_iter()).await?;
    Ok(rows.first().and_then(|row| text(row, "queue")))
}

/// Of a queue's done jobs, what is too old or too much.
async fn done(
    store: &Mongo,
    queue: &str,
    now: i64,
    swept: &mut Swept,
) -> std::result::Result<(), Fault> {
    let retention = store.db.options.retention;
    let of = |ended: Document| doc! { "state": 4_i32, "queue": queue, "ended_at": ended };
    let aged = now.saturating_sub(delay_millis(retention.done));
    let by_end = || doc! { "ended_at": 1 };
    leave(store, of(doc! { "$lte": at(aged) }), by_end(), BATCH, now, swept).await?;
    // A small history is counted at once.
    let small = retention.done_per_queue < 10_000;
    if swept.pruned >= BATCH || !small && store.pruning.was_counted(queue) {
        return Ok(());
    }
    let skip = i64::try_from(retention.done_per_queue).unwrap_or(i64::MAX);
    let newest = vec![
        doc! { "$match": of(doc! { "$exists": true }) },
        doc! { "$sort": { "state": -1, "queue": -1, "ended_at": -1 } },
        doc! { "$skip": skip },
        doc! { "$limit": 1 },
        doc! { "$project": { "ended_at": 1, "_id": 0 } },
    ];
    let excess = union(store, [newest].into_iter()).await?;
    let Some(excess) = excess.first().and_then(|row| date(row, "ended_at")) else {
        store.pruning.count(queue);
        return Ok(());
    };
    let before = doc! { "$lte": at(excess.saturating_sub(1)) };
    leave(store, of(before), by_end(), BATCH, now, swept).await?;
    if swept.pruned < BATCH {
        excess_of(store, queue, excess, now, swept).await?;
    }
    Ok(())
}

async fn cancelled(store: &Mongo, now: i64, swept: &mut Swept) -> std::result::Result<(), Fault> {
    let cut = now.saturating_sub(delay_millis(store.db.options.retention.cancelled));
    let gone = doc! { "gone": { "$lte": at(cut) } };
    // Half of a sweep at most: what is done has its turn as well.
    leave(store, gone, doc! { "gone": 1 }, BATCH / 2, now, swept).await
}

/// Of those that ended together at the oldest instant to stay, takes as many out of history as are
/// more than is kept, and no more.
async fn excess_of(
    store: &Mongo,
    queue: &str,
    together: i64,
    now: i64,
    swept: &mut Swept,
) -> std::result::Result<(), Fault> {
    let keep = store.db.options.retention.done_per_queue;
    let of = |ended: Document| doc! { "state": 4_i32, "queue": queue, "ended_at": ended };
    let stay =
        vec![doc! { "$match": of(doc! { "$gte": at(together) }) }, doc! { "$count": "stay" }];
    let rows = union(store, [stay].into_iter()).await?;
    let stay = rows.first().and_then(|row| int(row, "stay")).unwrap_or_default();
    let more = u64::try_from(stay).unwrap_or_default().saturating_sub(keep);
    if more > 0 {
        let more = usize::try_from(more).unwrap_or(usize::MAX);
        // In one order for all: two sweeps at once take the same.
        let together = of(doc! { "$eq": at(together) });
        leave(store, together, doc! { "_id": 1 }, more, now, swept).await?;
    }
    Ok(())
}

/// Takes up to `most` out of history. What answers pushes and settlements of the last two minutes
/// stays that long as a stub, the rest goes at once.
async fn leave(
    store: &Mongo,
    filter: Document,
    by: Document,
    most: usize,
    now: i64,
    swept: &mut Swept,
) -> std::result::Result<(), Fault> {
    let most = most.min(BATCH.saturating_sub(swept.pruned));
    if most == 0 {
        return Ok(());
    }
    let find = doc! {
        "find": store.db.name("jobs"), "filter": filter.clone(), "sort": by,
        "limit": i64::try_from(most).unwrap_or(i64::MAX), "projection": { "ended_at": 1 },
    };
    let rows = store.db.rows(find).await?;
    let over = now - delay_millis(STUB);
    let is_over = |row: &&Document| date(row, "ended_at").is_some_and(|ended| ended <= over);
    let (old, recent): (Vec<_>, Vec<_>) = rows.iter().partition(is_over);
    let ids = |rows: &[&Document]| -> Vec<Bson> {
        rows.iter().filter_map(|row| row.get("_id").cloned()).collect()
    };
    if !recent.is_empty() {
        let mut filter = filter.clone();
        filter.insert("_id", doc! { "$in": ids(&recent) });
        let mut stub = doc! { "stub": "$ended_at" };
        for field in ["ended_at", "gone", "cold", "attempts", "cause", "payload", "metadata"] {
            stub.insert(field, "$$REMOVE");
        }
        let statement =
            doc! { "q": filter, "u": [{ "$set": stub }], "multi": true, "hint": "_id_" };
        swept.pruned += store.db.update("jobs", vec![statement]).await?.count;
    }
    if !old.is_empty() {
        let mut filter = filter;
        filter.insert("_id", doc! { "$in": ids(&old) });
        swept.pruned += remove(store, filter, "ended_at", now).await?;
    }
    Ok(())
}

/// Removes stubs whose two minutes are over.
async fn stubs(store: &Mongo, now: i64, swept: &mut Swept) -> std::result::Result<(), Fault> {
    let over = at(now - delay_millis(STUB));
    let find = doc! {
        "find": store.db.name("jobs"), "filter": { "stub": { "$lte": over } },
        "sort": { "stub": 1 }, "limit": i64::try_from(2 * BATCH).unwrap_or(i64::MAX),
        "projection": { "_id": 1 },
    };
    let rows = store.db.rows(find).await?;
    let ids: Vec<Bson> = rows.iter().filter_map(|row| row.get("_id").cloned()).collect();
    swept.more |= ids.len() >= 2 * BATCH;
    if !ids.is_empty() {
        let filter = doc! { "_id": { "$in": ids }, "stub": { "$lte": over } };
        remove(store, filter, "stub", now).await?;
    }
    Ok(())
}

/// Removes for good what matches and no other sweep removes at this moment. What of it was done in
/// the last hour is counted on by its minute; a sweep that dies between that and the removal makes a
/// later one count it twice.
async fn remove(
    store: &Mongo,
    filter: Document,
    ended: &str,
    now: i64,
) -> std::result::Result<usize, Fault> {
    let token = token();
    let mut free = filter;
    let gone = doc! { "leaving_at": { "$lte": at(now - GONE) } };
    free.insert("$or", vec![doc! { "leaving_at": { "$exists": false } }, gone]);
    let mark = doc! { "$set": { "leaving": token, "leaving_at": "$$NOW" } };
    let ids = free.get("_id").cloned().unwrap_or(Bson::Null);
    let statement = doc! { "q": free, "u": [mark], "multi": true, "hint": "_id_" };
    if store.db.update("jobs", vec![statement]).await?.count == 0 {
        return Ok(0);
    }
    let marked = doc! { "_id": ids, "leaving": token };
    count_done(store, marked.clone(), ended, now).await?;
    Ok(store.db.delete("jobs", marked).await?.count)
}

async fn count_done(
    store: &Mongo,
    marked: Document,
    ended: &str,
    now: i64,
) -> std::result::Result<(), Fault> {
    let mut counted = marked;
    counted.insert("state", State::Done as i32);
    counted.insert(ended, doc! { "$gte": at(now - HOUR - MINUTE) });
    let rows = store.db.rows(doc! {
        "find": store.db.name("jobs"), "filter": counted,
        "projection": { "_id": 0, "queue": 1, "tenant": 1, "at": format!("${ended}") },
        "hint": "_id_",
    });
    let mut minutes = BTreeMap::<(i64, String, String), i64>::new();
    for row in &rows.await? {
        if let (Some(at), Some(queue), Some(tenant)) =
            (date(row, "at"), text(row, "queue"), text(row, "tenant"))
        {
            *minutes.entry((at - at.rem_euclid(MINUTE), queue, tenant)).or_default() += 1;
        }
    }
    let count = |((minute, queue, tenant), finished): ((i64, String, String), i64)| {
        let id = format!("done/{minute}/{queue}/{tenant}");
        let count = doc! {
            "$set": { "at": at(minute), "queue": queue, "tenant": tenant },
            "$inc": { "finished": finished },
        };
        doc! { "q": { "_id": id }, "u": count, "upsert": true }
    };
    let updates: Vec<Document> = minutes.into_iter().map(count).collect();
    if !updates.is_empty() {
        let update = doc! {
            "update": store.db.name("minutes"), "updates": updates, "ordered": false,
        };
        store.db.hint(update).await?;
    }
    Ok(())
}
