//! Sweep (X1): takes back what was silent, promotes what came due, prunes history (S5).

use std::collections::BTreeSet;

use jobs_core::{
    OutcomeKind, Result, State,
    driver::small,
    queue::{Lost, Swept},
};
use mongodb::bson::{Bson, Document, doc};

use super::{
    promote::promote_all,
    prune::prune,
    settle::{HELD_BY, recorded},
};
use crate::{
    Mongo,
    error::Fault,
    frontier::Line,
    row::{self, at, date, int, need, text, token},
};

/// Most that one sweep does of each.
pub(super) const BATCH: usize = 500;
/// How long what reserves took and counts by minute are kept, in milliseconds.
pub(super) const HOUR: i64 = 3_600_000;
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

/// Of these jobs some may run without a lease. What their nonces took is not held any more once they
/// are taken back: so it goes on record before, that a repetition of that reserve takes nothing in
/// its place (R3).
pub(super) async fn record_taken(store: &Mongo, ids: &[Bson]) -> std::result::Result<(), Fault> {
    let rows = store.db.rows(doc! {
        "find": store.db.name("jobs"),
        "filter": { "_id": { "$in": ids }, "run": { "$exists": true }, "$expr": over() },
        "projection": { "_id": 0, "run": 1 },
    });
    let nonces: BTreeSet<i64> = rows.await?.iter().filter_map(|row| int(row, "run")).collect();
    if nonces.is_empty() {
        return Ok(());
    }
    let record = |nonce: i64| {
        let at = doc! { "$currentDate": { "at": true } };
        doc! { "q": { "_id": nonce }, "u": at, "upsert": true }
    };
    store.db.update("taken", nonces.into_iter().map(record).collect()).await?;
    Ok(())
}

async fn take_back(store: &Mongo, swept: &mut Swept) -> std::result::Result<(), Fault> {
    let db = &store.db;
    let find = doc! {
        "find": db.name("jobs"),
        "filter": { "run": { "$exists": true }, "$expr": over() },
        "projection": { "_id": 1 },
        "hint": "run",
        "limit": i64::try_from(BATCH).unwrap_or(i64::MAX),
    };
    let rows = db.rows(find).await?;
    let ids: Vec<Bson> = rows.iter().filter_map(|row| row.get("_id").cloned()).collect();
    if ids.is_empty() {
        return Ok(());
    }
    record_taken(store, &ids).await?;
    let token = token();
    let left = doc! { "$lt": ["$attempt", "$max_attempts"] };
    let live = doc! { "$cond": [left, State::Ready as i32, State::Parked as i32] };
    let asked = doc! { "$eq": ["$cancel", true] };
    let to = doc! { "$cond": [asked, State::Cancelled as i32, live] };
    let [mut first, second] = lose(to.clone());
    if let Ok(set) = first.get_document_mut("$set") {
        set.insert("swept", token);
        set.insert("swept_to", to);
    }
    let filter = doc! {
        "_id": { "$in": ids.clone() }, "run": { "$exists": true }, "$expr": over(),
    };
    let statement = doc! { "q": filter, "u": [first, second], "multi": true, "hint": "_id_" };
    db.update("jobs", vec![statement]).await?;
    // What this sweep took, and no other that ran beside it.
    let rows = db.rows(doc! {
        "find": db.name("jobs"),
        "filter": { "_id": { "$in": ids }, "swept": token },
        "projection": {
            "queue": 1, "name": 1, "swept_to": 1, "fence": 1, "line": 1, "run_at": 1,
            "attempts": { "$slice": -1 },
        },
    });
    let mut told = Vec::new();
    for row in &rows.await? {
        let job = row::job_ref(&need(text(row, "_id"), "_id")?)?;
        let queue = need(text(row, "queue"), "queue")?;
        store.minutes.failed(db, &queue, &job.tenant);
        // It may be in its next run by now.
        let to = int(row, "swept_to").and_then(|to| usize::try_from(to).ok());
        let state = need(to.and_then(|to| State::ALL.get(to)).copied(), "swept_to")?;
        if state == State::Ready {
            let line = text(row, "line").and_then(|line| Line::read(&line));
            told.push((queue.clone(), line.zip(date(row, "run_at"))));
        }
        let name = need(text(row, "name"), "name")?;
        let lost = row.get_array("attempts").ok().and_then(|all| all.last()?.as_document());
        let attempt = small(lost.and_then(|lost| int(lost, "number")).unwrap_or_default());
        swept.lost.push(Lost { job, queue, name, attempt, state });
    }
    store.put_in_line(told);
    Ok(())
}

/// Puts in line what is due longest, of all queues, by an index of its own.
async fn promote(store: &Mongo, now: i64, swept: &mut Swept) -> std::result::Result<(), Fault> {
    let rows = store.db.rows(doc! {
        "find": store.db.name("jobs"),
        "filter": { "cold": State::Scheduled as i32, "run_at": { "$lte": at(now) } },
        "sort": { "run_at": 1 },
        "hint": "due",
        "projection": { "line": 1, "run_at": 1 },
        "limit": i64::try_from(BATCH).unwrap_or(i64::MAX),
    });
    let rows = rows.await?;
    let ids: Vec<String> = rows.iter().filter_map(|row| text(row, "_id")).collect();
    swept.promoted += promote_all(store, ids, now).await?;
    let line = |row: &Document| {
        let line = Line { ready: true, ..text(row, "line").as_deref().and_then(Line::read)? };
        Some((line.queue.clone(), Some((line, date(row, "run_at")?))))
    };
    store.put_in_line(rows.iter().filter_map(line));
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
