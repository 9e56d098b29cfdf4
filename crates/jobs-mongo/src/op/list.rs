//! List (A2): a walk of one index, newest id first, that looks at a thousand documents at most; then
//! those of the page.

use std::collections::HashMap;

use jobs_core::{
    Permit, Result, State,
    driver::small,
    permit::Read,
    time::from_millis,
    view::{Cursor, JobView, List, Page},
};
use mongodb::bson::{Bson, Document, doc};

use super::survey::{union, walk};
use crate::{
    Mongo,
    error::Fault,
    row::{self, date, id, int, need, text},
};

/// Most documents that one page looks at.
const LOOKED_AT: usize = 1000;

/// One page.
pub(crate) async fn page(store: &Mongo, permit: &Permit<Read>, list: &List) -> Result<Page> {
    store.db.within("list", pages(store, permit, list)).await
}

async fn pages(
    store: &Mongo,
    permit: &Permit<Read>,
    list: &List,
) -> std::result::Result<Page, Fault> {
    let db = &store.db;
    let most = if list.page == 0 { 100 } else { list.page.min(LOOKED_AT) };
    let outside = list.tenant.as_deref().is_some_and(|tenant| !permit.covers(tenant));
    // What is outside the scope is a list of nothing, by the same statement.
    let tenant = if outside { Some("") } else { permit.tenant().or(list.tenant.as_deref()) };
    let now = db.now().await?;
    let (mut filter, hint) = index(store, list.state, list.queue.as_deref(), tenant).await?;
    if let Some(Cursor(job)) = &list.after {
        filter.insert("_id", doc! { "$lt": id(job) });
    }
    let mut find = doc! {
        "find": db.name("jobs"),
        "filter": filter,
        "sort": { "_id": -1 },
        "limit": i64::try_from(LOOKED_AT + 1).unwrap_or(i64::MAX),
        "projection": { "state": 1, "stub": 1, "name": 1, "cause": 1 },
        "batchSize": i64::try_from(LOOKED_AT + 1).unwrap_or(i64::MAX),
    };
    if let Some(hint) = hint {
        find.insert("hint", hint);
    }
    let mut page = Page { jobs: Vec::new(), next: None, complete: true, now: from_millis(now) };
    let (mut picked, mut last) = (Vec::new(), None);
    for (looked_at, row) in db.rows(find).await?.iter().enumerate() {
        if picked.len() == most || looked_at == LOOKED_AT {
            page.complete = picked.len() == most;
            page.next = last;
            break;
        }
        let name = need(text(row, "_id"), "_id")?;
        last = Some(Cursor(row::job_ref(&name)?));
        if matches(list, row) {
            picked.push(name);
        }
    }
    let ids: Vec<Bson> = picked.iter().map(|id| Bson::String(id.clone())).collect();
    if ids.is_empty() {
        return Ok(page);
    }
    let rows = db.rows(doc! {
        "find": db.name("jobs"),
        "filter": { "_id": { "$in": ids } },
        "projection": { "attempts": 0 },
    });
    let rows = rows.await?;
    let rows: HashMap<String, &Document> =
        rows.iter().filter_map(|row| Some((text(row, "_id")?, row))).collect();
    // It may have changed between the two.
    let still = picked.iter().filter_map(|id| rows.get(id)).filter(|row| matches(list, row));
    for row in still {
        match view(row) {
            Ok(view) => page.jobs.push(view),
            Err(fault) => {
                let error = fault.into_error("list");
                tracing::error!(%error, "a job that cannot be read is left out of a list");
            }
        }
    }
    Ok(page)
}

/// The part of a list that an index answers, and which one.
async fn index(
    store: &Mongo,
    state: Option<State>,
    queue: Option<&str>,
    tenant: Option<&str>,
) -> std::result::Result<(Document, Option<&'static str>), Fault> {
    let mut filter = Document::new();
    if let Some(tenant) = tenant {
        filter.insert("tenant", tenant);
    }
    if let Some(queue) = queue {
        filter.insert("queue", queue);
    }
    Ok(match state {
        // Those that run are few: all are looked at, and sorted.
        Some(State::Running) => {
            filter.insert("run", doc! { "$exists": true });
            (filter, Some("run"))
        }
        Some(state @ (State::Scheduled | State::Parked | State::Cancelled)) => {
            filter.insert("cold", state as i32);
            (
                filter,
                Some(match (tenant, queue) {
                    (None, None) => "cold",
                    (None, Some(_)) => "cold_queue",
                    (Some(_), None) => "cold_tenant",
                    (Some(_), Some(_)) => "cold_lane",
                }),
            )
        }
        Some(State::Ready) if let Some(lines) = short(store, queue, tenant).await? => {
            filter.insert("line", lines);
            (filter, Some("line"))
        }
        Some(State::Ready | State::Done) | None => (
            filter,
            Some(match (tenant, queue) {
                (None, None) => "_id_",
                (None, Some(_)) => "queue",
                (Some(_), None) => "tenant",
                (Some(_), Some(_)) => "lane",
            }),
        ),
    })
}

fn in_line(queue: Option<&str>) -> Document {
    match queue {
        Some(queue) => doc! { "$gte": format!("r/{queue}/"), "$lt": format!("r/{queue}0") },
        None => doc! { "$gte": "r/", "$lt": "r0" },
    }
}

/// What is in line in scope, where it is so little that all can be sorted; else a walk over all
/// states finds it.
async fn short(
    store: &Mongo,
    queue: Option<&str>,
    tenant: Option<&str>,
) -> std::result::Result<Option<Document>, Fault> {
    let limit = i64::try_from(LOOKED_AT).unwrap_or(i64::MAX) + 1;
    let mut lines = in_line(queue);
    if let Some(tenant) = tenant {
        // Its lines, by one seek for each line of everybody's.
        let prefix = queue.map_or_else(|| "r".to_owned(), |queue| format!("r/{queue}"));
        let its = doc! { "$arrayElemAt": [{ "$split": ["$walked", "/"] }, 4] };
        let of_it = doc! { "$eq": [its, { "$literal": tenant }] };
        let of_it = doc! { "$match": { "$expr": of_it } };
        let mut walk = walk(&prefix);
        walk.extend([of_it, doc! { "$limit": limit }]);
        let rows = union(store, [walk].into_iter()).await?;
        if rows.len() > LOOKED_AT {
            return Ok(None);
        }
        let of_it: Vec<_> = rows.iter().filter_map(|row| text(row, "walked")).collect();
        lines = doc! { "$in": of_it };
    }
    let rows = store.db.rows(doc! {
        "find": store.db.name("jobs"),
        "filter": { "line": &lines },
        "projection": { "_id": 0, "line": 1 },
        "hint": "line",
        "limit": limit,
        "batchSize": limit,
    });
    Ok((rows.await?.len() <= LOOKED_AT).then_some(lines))
}

fn matches(list: &List, row: &Document) -> bool {
    let text = |field| row.get_str(field).ok();
    let state = list.state.map(|state| state as i64);
    let cause =
        |wanted: &String| text("cause").is_some_and(|cause| cause.contains(wanted.as_str()));
    !row.contains_key("stub")
        && state.is_none_or(|state| int(row, "state") == Some(state))
        && list.name.as_deref().is_none_or(|name| text("name") == Some(name))
        && list.id.is_none_or(|id| {
            text("_id").is_some_and(|stored| stored.starts_with(&format!("{id}/")))
        })
        && list.cause.as_ref().is_none_or(cause)
}

/// A job as operators see it.
pub(super) fn view(row: &Document) -> std::result::Result<JobView, Fault> {
    Ok(JobView {
        job: row::job(row)?,
        state: row::state(row)?,
        attempt: small(int(row, "attempt").unwrap_or_default()),
        pushed_at: from_millis(need(date(row, "pushed_at"), "pushed_at")?),
        finished_at: date(row, "ended_at").map(from_millis),
        last_cause: text(row, "cause").map(Into::into),
        cancel_requested: row.get_bool("cancel").unwrap_or(false),
    })
}
