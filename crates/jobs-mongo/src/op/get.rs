//! Get (A5).

use jobs_core::{
    JobRef, OutcomeKind, Permit, Result, State,
    driver::small,
    permit::Read,
    queue::KEPT_ATTEMPTS,
    time::from_millis,
    view::{Attempt, Holder, JobRecord, VerbRecord},
};
use mongodb::bson::{Document, doc};

use super::{list::view, retry::scoped};
use crate::{
    Mongo,
    error::Fault,
    row::{date, int, need, outcome_of, text},
};

/// One job with everything known of it.
pub(crate) async fn one(
    store: &Mongo,
    permit: &Permit<Read>,
    job: &JobRef,
) -> Result<Option<JobRecord>> {
    let db = &store.db;
    let get = async {
        let rows = db.rows(doc! {
            "aggregate": db.name("jobs"),
            "pipeline": [{ "$match": scoped(permit, job) }, { "$set": { "now": "$$NOW" } }],
            "cursor": {},
        });
        rows.await?.first().map(record).transpose()
    };
    db.within("get", get).await
}

fn attempt(row: &Document) -> std::result::Result<Attempt, Fault> {
    let when = |field: &str| need(date(row, field), field).map(from_millis);
    Ok(Attempt {
        number: small(int(row, "number").unwrap_or_default()),
        fence: int(row, "fence").unwrap_or_default(),
        worker: text(row, "worker").unwrap_or_default(),
        started_at: when("started_at")?,
        ended_at: when("ended_at")?,
        outcome: outcome_of(need(int(row, "outcome"), "outcome")?)?,
        cause: text(row, "cause").map(Into::into),
    })
}

fn record(row: &Document) -> std::result::Result<JobRecord, Fault> {
    let when = |field: &str| date(row, field).map(from_millis);
    let view = view(row)?;
    let fence = need(int(row, "fence"), "fence")?;
    let running = view.state == State::Running;
    let times = (when("started_at"), when("renewed_at"), when("lease_until"));
    let worker = text(row, "worker").unwrap_or_default();
    let holder = match times {
        (Some(started_at), Some(renewed_at), Some(lease_until)) if running => {
            Some(Holder { worker: worker.clone(), started_at, renewed_at, lease_until })
        }
        _ => None,
    };
    let last_verb = text(row, "verb").zip(when("verb_at")).map(|(verb, at)| VerbRecord {
        verb,
        by: text(row, "verb_by").unwrap_or_default(),
        at,
    });
    let stored = row.get_array("attempts").into_iter().flatten();
    let stored = stored.filter_map(|one| one.as_document()).map(attempt);
    let mut attempts = stored.collect::<std::result::Result<Vec<_>, _>>()?;
    if view.state == State::Done {
        // A done document is its own last attempt.
        attempts.push(Attempt {
            number: view.attempt,
            fence,
            worker,
            started_at: when("started_at").unwrap_or_default(),
            ended_at: when("ended_at").unwrap_or_default(),
            outcome: OutcomeKind::Done,
            cause: None,
        });
    }
    let old = attempts.len().saturating_sub(KEPT_ATTEMPTS);
    attempts.drain(..old);
    let count = |field: &str| small(int(row, field).unwrap_or_default());
    Ok(JobRecord {
        view,
        fence,
        holder,
        attempts,
        snoozes: count("snoozes"),
        releases: count("releases"),
        last_verb,
        now: from_millis(need(date(row, "now"), "now")?),
    })
}
