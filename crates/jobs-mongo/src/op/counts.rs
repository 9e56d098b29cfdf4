//! Counts (A1, A2), all of one moment: the first statement says of which, the others read that snapshot.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use jobs_core::{
    Permit, Result,
    permit::Read,
    time::from_millis,
    view::{COUNTED, COUNTED_LANES, COUNTED_MINUTES, Count, Counts, LaneCounts, Lanes, Minute},
};
use mongodb::bson::{Bson, Document, Timestamp, doc};

use super::{survey::walk, sweep::over};
use crate::{
    Mongo,
    error::Fault,
    row::{at, date, int, need, text},
    settings::Settings,
};

/// How far back counts by minute go, in milliseconds.
const HOUR: i64 = 3_600_000;
/// Lines counted by one statement.
const UNIONS: usize = 32;

#[derive(Default)]
struct Tally {
    scheduled: u64,
    waiting: u64,
    running: u64,
    parked: u64,
    /// When the longest-waiting was due.
    oldest: Option<i64>,
}

impl Tally {
    fn waits_since(&mut self, due: i64) {
        self.oldest = Some(self.oldest.map_or(due, |oldest| oldest.min(due)));
    }
}

/// Queue, tenant.
type Lane = (String, String);

/// What is counted.
struct Asked<'a> {
    queue: Option<&'a str>,
    tenant: Option<&'a str>,
}

impl Asked<'_> {
    fn covers(&self, queue: &str, tenant: &str) -> bool {
        self.queue.is_none_or(|asked| asked == queue)
            && self.tenant.is_none_or(|asked| asked == tenant)
    }

    fn filter(&self) -> Document {
        let mut filter = Document::new();
        if let Some(queue) = self.queue {
            filter.insert("queue", queue);
        }
        if let Some(tenant) = self.tenant {
            filter.insert("tenant", tenant);
        }
        filter
    }
}

/// Lane by lane, in one reading.
pub(crate) async fn all(store: &Mongo, permit: &Permit<Read>, lanes: &Lanes) -> Result<Counts> {
    let outside = lanes.tenant.as_deref().is_some_and(|tenant| !permit.covers(tenant));
    let tenant = if outside { Some("") } else { permit.tenant().or(lanes.tenant.as_deref()) };
    let asked = Asked { queue: lanes.queue.as_deref(), tenant };
    store.db.within("counts", count(store, &asked)).await
}

/// The moment that all is counted at: a snapshot that the server has.
async fn moment(store: &Mongo) -> std::result::Result<Timestamp, Fault> {
    let reply = store.db.run(doc! {
        "find": store.db.name("schema"), "limit": 1, "singleBatch": true,
        "readConcern": { "level": "snapshot" },
    });
    let reply = reply.await?;
    let cursor = need(reply.get_document("cursor").ok(), "cursor")?;
    need(cursor.get_timestamp("atClusterTime").ok(), "atClusterTime")
}

/// One statement of that moment, however many replies it has.
async fn at_moment(
    store: &Mongo,
    collection: &str,
    pipeline: Vec<Document>,
    moment: Timestamp,
) -> std::result::Result<Vec<Document>, Fault> {
    let aggregate = doc! {
        "aggregate": store.db.name(collection),
        "pipeline": pipeline,
        "cursor": {},
        "readConcern": { "level": "snapshot", "atClusterTime": moment },
    };
    store.db.rows(aggregate).await
}

async fn count(store: &Mongo, asked: &Asked<'_>) -> std::result::Result<Counts, Fault> {
    let db = &store.db;
    if let Err(fault) = store.minutes.write(db).await {
        tracing::debug!(?fault, "the last second is not among the counts by minute");
    }
    let moment = moment(store).await?;
    let prefix = |kind: &str| match asked.queue {
        Some(queue) => format!("{kind}/{queue}"),
        None => kind.to_owned(),
    };
    let mut running = vec![doc! { "$match": { "run": { "$exists": true } } }];
    running.push(doc! { "$match": asked.filter() });
    running.push(doc! { "$group": {
        "_id": { "queue": "$queue", "tenant": "$tenant", "over": over() },
        "count": { "$sum": 1_i64 },
        "oldest": { "$min": "$run_at" },
    } });
    let mut first = vec![
        doc! { "$match": { "_id": "schema" } },
        doc! { "$project": { "_id": 0, "now": "$$NOW" } },
        doc! { "$unionWith": { "coll": db.name("jobs"), "pipeline": running } },
    ];
    for kind in ["r", "s", "p"] {
        let mut walk = walk(&prefix(kind));
        if let Some(tenant) = asked.tenant {
            // A parked line has it at another place than the others; the rest is seen below.
            let parts = doc! { "$split": ["$walked", "/"] };
            let of_it = doc! { "$in": [{ "$literal": tenant }, parts] };
            walk.push(doc! { "$match": { "$expr": of_it } });
        }
        first.push(doc! { "$unionWith": { "coll": db.name("jobs"), "pipeline": walk } });
    }
    let rows = at_moment(store, "schema", first, moment).await?;
    let now = need(rows.iter().find_map(|row| date(row, "now")), "now")?;
    let mut tallies = BTreeMap::<Lane, Tally>::new();
    let mut lines = BTreeMap::<Lane, Vec<(String, Option<i64>)>>::new();
    for row in &rows {
        if let Ok(lane) = row.get_document("_id") {
            let (queue, tenant) = (text(lane, "queue"), text(lane, "tenant"));
            let lane_of = (queue.unwrap_or_default(), tenant.unwrap_or_default());
            let count = int(row, "count").unwrap_or_default().unsigned_abs();
            let tally = tallies.entry(lane_of).or_default();
            if lane.get_bool("over").unwrap_or(false) {
                tally.waiting += count;
                tally.waits_since(date(row, "oldest").unwrap_or(now));
            } else {
                tally.running += count;
            }
        } else if let Some(line) = text(row, "walked") {
            let Some(lane) = lane_of(&line).filter(|lane| asked.covers(&lane.0, &lane.1)) else {
                continue;
            };
            let due = date(row, "run_at").unwrap_or(now);
            let waits = line.starts_with("r/") || line.starts_with("s/") && due <= now;
            let tally = tallies.entry(lane.clone()).or_default();
            if waits {
                tally.waits_since(due);
            }
            // Of a line that is partly due, both parts.
            let split = line.starts_with("s/").then_some(now);
            lines.entry(lane).or_default().push((line, split));
        }
    }
    let settings = settings(store, asked, moment).await?;
    for (queue, settings) in &settings {
        for tenant in settings.lanes.keys().filter(|tenant| asked.covers(queue, tenant)) {
            tallies.entry((queue.clone(), tenant.clone())).or_default();
        }
    }
    let complete = tallies.len() <= COUNTED_LANES;
    // Those where a job waits, when there are more than are counted.
    let mut chosen: Vec<(bool, Lane)> =
        tallies.iter().map(|(lane, tally)| (tally.oldest.is_none(), lane.clone())).collect();
    chosen.sort();
    chosen.truncate(COUNTED_LANES);
    let chosen: BTreeSet<Lane> = chosen.into_iter().map(|(_, lane)| lane).collect();
    tallies.retain(|lane, _| chosen.contains(lane));
    lines.retain(|lane, _| chosen.contains(lane));
    count_lines(store, &lines, &mut tallies, moment).await?;
    let default = Settings::default();
    let lanes = tallies.into_iter().map(|((queue, tenant), tally)| {
        let settings = settings.get(&queue).unwrap_or(&default).shown(&tenant, now);
        let oldest = tally.oldest.map_or(0, |due| now.saturating_sub(due).max(0));
        LaneCounts {
            scheduled: Count::capped(tally.scheduled),
            waiting: Count::capped(tally.waiting),
            running: Count::capped(tally.running),
            parked: Count::capped(tally.parked),
            oldest: Duration::from_millis(oldest.unsigned_abs()),
            settings,
            queue,
            tenant,
        }
    });
    let lanes = lanes.collect();
    Ok(Counts { lanes, complete, minutes: minutes(store, asked, now).await? })
}

/// The lane of a line of any kind.
fn lane_of(line: &str) -> Option<Lane> {
    let parts: Vec<&str> = line.split('/').collect();
    match parts.as_slice() {
        ["p", queue, tenant] => Some(((*queue).to_owned(), (*tenant).to_owned())),
        ["r" | "s", queue, _, _, tenant, _] => Some(((*queue).to_owned(), (*tenant).to_owned())),
        _ => None,
    }
}

async fn settings(
    store: &Mongo,
    asked: &Asked<'_>,
    moment: Timestamp,
) -> std::result::Result<BTreeMap<String, Settings>, Fault> {
    let filter = asked.queue.map_or_else(Document::new, |queue| doc! { "_id": queue });
    let rows = at_moment(store, "lanes", vec![doc! { "$match": filter }], moment).await?;
    let read = |row: &Document| Some((text(row, "_id")?, Settings::read(row)));
    Ok(rows.iter().filter_map(read).collect())
}

/// Counts each line by the index alone, to the cap.
async fn count_lines(
    store: &Mongo,
    lines: &BTreeMap<Lane, Vec<(String, Option<i64>)>>,
    tallies: &mut BTreeMap<Lane, Tally>,
    moment: Timestamp,
) -> std::result::Result<(), Fault> {
    let cap = i64::try_from(COUNTED + 1).unwrap_or(i64::MAX);
    let mut wanted = Vec::new();
    for (lane, lines) in lines {
        for (line, split) in lines {
            let kind = line.as_bytes().first().copied().unwrap_or_default();
            match split {
                None => wanted.push((lane, kind, doc! { "line": line })),
                Some(now) => {
                    let due = doc! { "line": line, "run_at": { "$lte": at(*now) } };
                    wanted.push((lane, b'r', due));
                    wanted.push((lane, b's', doc! { "line": line, "run_at": { "$gt": at(*now) } }));
                }
            }
        }
    }
    for part in wanted.chunks(UNIONS) {
        let mut pipeline = vec![doc! { "$match": { "_id": "schema" } }, doc! { "$limit": 1 }];
        pipeline.push(doc! { "$project": { "_id": 0, "at": Bson::Int32(-1) } });
        for (place, (_, _, filter)) in (0_i64..).zip(part) {
            let counting = vec![
                doc! { "$match": filter.clone() },
                doc! { "$limit": cap },
                doc! { "$count": "count" },
                doc! { "$project": { "count": 1, "at": { "$literal": place } } },
            ];
            let name = store.db.name("jobs");
            pipeline.push(doc! { "$unionWith": { "coll": name, "pipeline": counting } });
        }
        for row in at_moment(store, "schema", pipeline, moment).await? {
            let place = int(&row, "at").and_then(|place| usize::try_from(place).ok());
            let Some((lane, kind, _)) = place.and_then(|place| part.get(place)) else { continue };
            let count = int(&row, "count").unwrap_or_default().unsigned_abs();
            let tally = tallies.entry((*lane).clone()).or_default();
            match kind {
                b'r' => tally.waiting += count,
                b's' => tally.scheduled += count,
                _ => tally.parked += count,
            }
        }
    }
    Ok(())
}

async fn minutes(
    store: &Mongo,
    asked: &Asked<'_>,
    now: i64,
) -> std::result::Result<Vec<Minute>, Fault> {
    let mut filter = asked.filter();
    let since = now - HOUR;
    filter.insert("at", doc! { "$gte": at(since) });
    let most = i64::try_from(COUNTED_MINUTES).unwrap_or(i64::MAX);
    // What is kept of history, by its index alone; what was pruned lately; what was removed.
    let done = |by: &str, filter: Document| {
        let minute = doc! { "$dateTrunc": { "date": format!("${by}"), "unit": "minute" } };
        let mut lately = asked.filter();
        lately.extend(filter);
        lately.insert("state", 4_i32);
        vec![
            doc! { "$match": lately },
            doc! { "$group": {
                "_id": { "at": minute, "queue": "$queue", "tenant": "$tenant" },
                "finished": { "$sum": 1_i64 },
            } },
            doc! { "$project": {
                "_id": 0, "at": "$_id.at", "queue": "$_id.queue", "tenant": "$_id.tenant",
                "finished": 1,
            } },
        ]
    };
    let kept = done("ended_at", doc! { "ended_at": { "$gte": at(since) } });
    let pruned = done("stub", doc! { "stub": { "$gte": at(since) } });
    let jobs = store.db.name("jobs");
    let rows = store.db.rows(doc! {
        "aggregate": store.db.name("minutes"),
        "pipeline": [
            { "$match": filter },
            { "$unionWith": { "coll": &jobs, "pipeline": kept } },
            { "$unionWith": { "coll": &jobs, "pipeline": pruned } },
            { "$group": {
                "_id": { "at": "$at", "queue": "$queue", "tenant": "$tenant" },
                "finished": { "$sum": "$finished" },
                "failed": { "$sum": "$failed" },
            } },
            { "$sort": { "_id.at": -1, "_id.queue": 1, "_id.tenant": 1 } },
            { "$limit": most },
        ],
        "cursor": {},
    });
    let mut minutes = Vec::new();
    for row in &rows.await? {
        let lane = need(row.get_document("_id").ok(), "_id")?;
        let count = |field: &str| int(row, field).unwrap_or_default().unsigned_abs();
        let (finished, failed) = (count("finished"), count("failed"));
        if finished + failed > 0 {
            minutes.push(Minute {
                queue: text(lane, "queue").unwrap_or_default(),
                tenant: text(lane, "tenant").unwrap_or_default(),
                at: from_millis(date(lane, "at").unwrap_or_default()),
                finished,
                failed,
            });
        }
    }
    minutes.sort_by(|a, b| (a.at, &a.queue, &a.tenant).cmp(&(b.at, &b.queue, &b.tenant)));
    Ok(minutes)
}
