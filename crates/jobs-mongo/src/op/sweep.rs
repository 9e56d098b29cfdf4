//! Sweep (X1): takes back what was silent, promotes what came due, prunes history (S5).

use std::collections::BTreeSet;

use jobs_core::{
    OutcomeKind, Result, State,
    driver::small,
    queue::{Lost, STUB, Swept},
    time::delay_millis,
};
use mongodb::bson::{Bson, Document, doc};

use super::{
    reserve::promote_all,
    settle::{HELD_BY, recorded},
    survey::{union, walk},
};
use crate::{
    Mongo,
    error::Fault,
    frontier::Line,
    row::{self, at, date, int, need, text, token},
};

/// Most that one sweep does of each.
const BATCH: usize = 500;
/// How long what reserves took and counts by minute are kept, in milliseconds.
const HOUR: i64 = 3_600_000;
/// How long a worker is listed after it was last seen, in milliseconds.
const SILENT: i64 = 60_000;
/// A lease that ends later than this, in milliseconds, is damage: none is longer than an hour.
const LONGEST: i64 = 7_200_000;

/// One bounded round.
pub(crate) async fn round(store: &Mongo) -> Result<Swept> {
    store.minutes.pass(&store.db);
    let sweep = async {
        let mut swept = Swept::default();
        take_back(store, &mut swept).await?;
        let now = store.db.now().await?;
        promote(store, now, &mut swept).await?;
        prune(store, now, &mut swept).await?;
        tidy(store, now).await?;
        let most = [swept.lost.len(), swept.promoted, swept.pruned];
        swept.more |= most.iter().any(|count| *count >= BATCH);
        Ok(swept)
    };
    store.db.within("sweep", sweep).await
}

/// Is the lease of a running job over?
pub(crate) fn over() -> Document {
    doc! { "$or": [
        { "$lte": [{ "$ifNull": ["$lease_until", at(0)] }, "$$NOW"] },
        { "$gt": ["$lease_until", { "$add": ["$$NOW", LONGEST] }] },
    ] }
}

/// What losing its holder does to a running job; `to` is the expression of its next state. Both are
/// stages, because the second reads what the first has decided.
pub(crate) fn lose(to: Document) -> [Document; 2] {
    let cause = "the lease ran out without a renewal";
    let mut first = recorded(OutcomeKind::Lost, Some(cause));
    first.insert("to", to);
    first.insert("suspect", true);
    for field in HELD_BY.into_iter().chain(["worker", "started_at", "nonce", "outcome"]) {
        first.insert(field, "$$REMOVE");
    }
    let ready = doc! { "$eq": ["$to", State::Ready as i32] };
    let ended = doc! { "$eq": ["$to", State::Cancelled as i32] };
    let second = doc! {
        "state": "$to",
        "line": { "$switch": {
            "branches": [
                { "case": &ready, "then": Line::expression(true) },
                { "case": &ended, "then": "$$REMOVE" },
            ],
            "default": Line::parked(),
        } },
        "cold": { "$cond": [&ready, "$$REMOVE", "$to"] },
        "ended_at": { "$cond": [&ended, "$$NOW", "$$REMOVE"] },
        "gone": { "$cond": [&ended, "$$NOW", "$$REMOVE"] },
        "held": { "$cond": [&ended, "$$REMOVE", "$held"] },
        "to": "$$REMOVE",
    };
    [doc! { "$set": first }, doc! { "$set": second }]
}

async fn take_back(store: &Mongo, swept: &mut Swept) -> std::result::Result<(), Fault> {
    let db = &store.db;
    let find = doc! {
        "find": db.name("jobs"),
        "filter": { "run": { "$exists": true }, "$expr": over() },
        "projection": { "_id": 1 },
        "limit": i64::try_from(BATCH).unwrap_or(i64::MAX),
    };
    let rows = db.rows(find).await?;
    let ids: Vec<Bson> = rows.iter().filter_map(|row| row.get("_id").cloned()).collect();
    if ids.is_empty() {
        return Ok(());
    }
    let token = token();
    let left = doc! { "$lt": ["$attempt", "$max_attempts"] };
    let live = doc! { "$cond": [left, State::Ready as i32, State::Parked as i32] };
    let asked = doc! { "$eq": ["$cancel", true] };
    let to = doc! { "$cond": [asked, State::Cancelled as i32, live] };
    let [mut first, second] = lose(to);
    if let Ok(set) = first.get_document_mut("$set") {
        set.insert("swept", token);
    }
    let filter = doc! {
        "_id": { "$in": ids.clone() }, "run": { "$exists": true }, "$expr": over(),
    };
    let statement = doc! { "q": filter, "u": [first, second], "multi": true };
    db.update("jobs", vec![statement]).await?;
    // What this sweep took, and no other that ran beside it.
    let rows = db.rows(doc! {
        "find": db.name("jobs"),
        "filter": { "_id": { "$in": ids }, "swept": token },
        "projection": { "queue": 1, "name": 1, "attempt": 1, "state": 1 },
    });
    let mut queues = BTreeSet::new();
    for row in &rows.await? {
        let job = row::job_ref(&need(text(row, "_id"), "_id")?)?;
        let queue = need(text(row, "queue"), "queue")?;
        store.minutes.failed(db, &queue, &job.tenant);
        let state = row::state(row)?;
        if state == State::Ready {
            store.frontier.forget_queue(&queue);
            queues.insert(queue.clone());
        }
        let name = need(text(row, "name"), "name")?;
        let attempt = small(int(row, "attempt").unwrap_or_default());
        swept.lost.push(Lost { job, queue, name, attempt, state });
    }
    store.wake.tell(db, queues);
    Ok(())
}

async fn promote(store: &Mongo, now: i64, swept: &mut Swept) -> std::result::Result<(), Fault> {
    let rows = union(store, [walk("s")].into_iter()).await?;
    let due = rows.iter().filter(|row| date(row, "run_at").is_some_and(|due| due <= now));
    let lines: Vec<Line> = due.filter_map(|row| Line::read(&text(row, "walked")?)).collect();
    let mut queues = BTreeSet::new();
    for line in lines {
        let left = BATCH.saturating_sub(swept.promoted);
        if left == 0 {
            break;
        }
        let find = vec![
            doc! { "$match": { "line": line.stored(), "run_at": { "$lte": at(now) } } },
            doc! { "$sort": { "run_at": 1, "_id": 1 } },
            doc! { "$limit": i64::try_from(left).unwrap_or(i64::MAX) },
            doc! { "$project": { "_id": 1, "run_at": 1 } },
        ];
        let rows = union(store, [find].into_iter()).await?;
        let ids: Vec<String> = rows.iter().filter_map(|row| text(row, "_id")).collect();
        swept.promoted += promote_all(store, &ids, now).await?;
        if let Some(first) = rows.first().and_then(|row| date(row, "run_at")) {
            store.frontier.note([(&Line { ready: true, ..line.clone() }, first)]);
            queues.insert(line.queue);
        }
    }
    store.wake.tell(&store.db, queues);
    Ok(())
}

async fn prune(store: &Mongo, now: i64, swept: &mut Swept) -> std::result::Result<(), Fault> {
    let retention = store.db.options.retention;
    // Its queues, one seek each.
    let mut queue = String::new();
    while swept.pruned < BATCH {
        let next = vec![
            doc! { "$match": {
                "state": 4_i32, "queue": { "$gt": &queue }, "ended_at": { "$exists": true },
            } },
            doc! { "$sort": { "queue": 1, "ended_at": 1 } },
            doc! { "$limit": 1 },
            doc! { "$project": { "queue": 1 } },
        ];
        let rows = union(store, [next].into_iter()).await?;
        let Some(found) = rows.first().and_then(|row| text(row, "queue")) else { break };
        queue = found;
        let skip = i64::try_from(retention.done_per_queue).unwrap_or(i64::MAX);
        let of_queue = doc! { "state": 4_i32, "queue": &queue, "ended_at": { "$exists": true } };
        let newest = vec![
            doc! { "$match": of_queue },
            doc! { "$sort": { "state": -1, "queue": -1, "ended_at": -1 } },
            doc! { "$skip": skip },
            doc! { "$limit": 1 },
            doc! { "$project": { "ended_at": 1, "_id": 0 } },
        ];
        let excess = union(store, [newest].into_iter()).await?;
        let excess = excess.first().and_then(|row| date(row, "ended_at"));
        let aged = now.saturating_sub(delay_millis(retention.done));
        let cut = excess.map_or(aged, |excess| aged.max(excess.saturating_sub(1)));
        let filter = doc! { "state": 4_i32, "queue": &queue, "ended_at": { "$lte": at(cut) } };
        leave(store, filter, doc! { "ended_at": 1 }, BATCH, swept).await?;
        if let Some(together) = excess.filter(|excess| *excess > cut)
            && swept.pruned < BATCH
        {
            excess_of(store, &queue, together, retention.done_per_queue, swept).await?;
        }
    }
    if swept.pruned < BATCH {
        let cut = now.saturating_sub(delay_millis(retention.cancelled));
        let gone = doc! { "gone": { "$lte": at(cut) } };
        leave(store, gone, doc! { "gone": 1 }, BATCH, swept).await?;
    }
    // What is left of history answers for two minutes.
    let over = at(now - delay_millis(STUB));
    let find = doc! {
        "find": store.db.name("jobs"), "filter": { "stub": { "$lte": over } },
        "sort": { "stub": 1 }, "limit": i64::try_from(2 * BATCH).unwrap_or(i64::MAX),
        "projection": { "_id": 1 },
    };
    let rows = store.db.rows(find).await?;
    let ids: Vec<Bson> = rows.iter().filter_map(|row| row.get("_id").cloned()).collect();
    if !ids.is_empty() {
        swept.more |= ids.len() >= 2 * BATCH;
        let filter = doc! { "_id": { "$in": ids }, "stub": { "$lte": over } };
        count_done(store, &filter).await?;
        store.db.delete("jobs", filter).await?;
    }
    Ok(())
}

/// What is removed for good is counted on by the minute. A sweep that dies before the removal makes
/// the next one count some twice.
async fn count_done(store: &Mongo, filter: &Document) -> std::result::Result<(), Fault> {
    let minute = doc! { "$dateTrunc": { "date": "$stub", "unit": "minute" } };
    let rows = union(
        store,
        [vec![
            doc! { "$match": filter.clone() },
            doc! { "$match": { "state": State::Done as i32 } },
            doc! { "$group": {
                "_id": { "at": minute, "queue": "$queue", "tenant": "$tenant" },
                "finished": { "$sum": 1_i64 },
            } },
        ]]
        .into_iter(),
    );
    let mut documents = Vec::new();
    for row in &rows.await? {
        let lane = need(row.get_document("_id").ok(), "_id")?;
        let mut document = lane.clone();
        document.insert("_id", format!("done/{}", token()));
        document.insert("finished", int(row, "finished").unwrap_or_default());
        documents.push(document);
    }
    if !documents.is_empty() {
        let insert = doc! { "insert": store.db.name("minutes"), "documents": documents };
        store.db.hint(insert).await?;
    }
    Ok(())
}

/// Of those that ended together at the oldest instant to stay, takes as many out of history as are more
/// than `keep`, and no more.
async fn excess_of(
    store: &Mongo,
    queue: &str,
    together: i64,
    keep: u64,
    swept: &mut Swept,
) -> std::result::Result<(), Fault> {
    let of = |ended: Document| doc! { "state": 4_i32, "queue": queue, "ended_at": ended };
    let stay =
        vec![doc! { "$match": of(doc! { "$gte": at(together) }) }, doc! { "$count": "stay" }];
    let rows = union(store, [stay].into_iter()).await?;
    let stay = rows.first().and_then(|row| int(row, "stay")).unwrap_or_default();
    let more = u64::try_from(stay).unwrap_or_default().saturating_sub(keep);
    if more > 0 {
        let more = usize::try_from(more).unwrap_or(usize::MAX);
        // In one order for all: two sweeps at once take the same.
        leave(store, of(doc! { "$eq": at(together) }), doc! { "_id": 1 }, more, swept).await?;
    }
    Ok(())
}

/// Takes up to `most` out of history. What answers pushes and settlements of the last two minutes stays.
async fn leave(
    store: &Mongo,
    filter: Document,
    by: Document,
    most: usize,
    swept: &mut Swept,
) -> std::result::Result<(), Fault> {
    let most = most.min(BATCH.saturating_sub(swept.pruned)).max(1);
    let find = doc! {
        "find": store.db.name("jobs"), "filter": filter.clone(), "sort": by,
        "limit": i64::try_from(most).unwrap_or(i64::MAX), "projection": { "_id": 1 },
    };
    let rows = store.db.rows(find).await?;
    let ids: Vec<Bson> = rows.iter().filter_map(|row| row.get("_id").cloned()).collect();
    if ids.is_empty() {
        return Ok(());
    }
    let mut filter = filter;
    filter.insert("_id", doc! { "$in": ids });
    let mut stub = doc! { "stub": "$ended_at" };
    for field in ["ended_at", "gone", "cold", "attempts", "cause", "payload", "metadata"] {
        stub.insert(field, "$$REMOVE");
    }
    let statement = doc! { "q": filter, "u": [{ "$set": stub }], "multi": true };
    let written = store.db.update("jobs", vec![statement]).await?;
    swept.pruned += written.count;
    Ok(())
}

/// Forgets what only a while is asked for.
async fn tidy(store: &Mongo, now: i64) -> std::result::Result<(), Fault> {
    let db = &store.db;
    let hour = at(now - HOUR);
    let minute = at(now - HOUR - 60_000);
    for (collection, filter) in [
        ("taken", doc! { "at": { "$lte": hour } }),
        ("minutes", doc! { "at": { "$lte": minute } }),
        ("wake", doc! { "at": { "$lte": hour } }),
        ("workers", doc! { "seen": { "$lte": at(now - SILENT) } }),
    ] {
        let deletes = vec![doc! { "q": filter, "limit": 0 }];
        db.hint(doc! { "delete": db.name(collection), "deletes": deletes }).await?;
    }
    Ok(())
}
