//! Retry (A3, P3), and what the verbs share.

use std::collections::{BTreeSet, HashMap};

use jobs_core::{ErrorKind, JobRef, Permit, State, admin::Retried, permit::Retry};
use mongodb::bson::{Document, doc};

use crate::{
    Mongo,
    error::Fault,
    frontier::Line,
    row::{self, date, held, id, int, need, text, token},
};

/// A statement's filter: the job, in the permit's scope, not a stub. A foreign id matches nothing, as
/// an unknown one.
pub(super) fn scoped<V>(permit: &Permit<V>, job: &JobRef) -> Document {
    let mut filter = doc! { "_id": id(job), "stub": { "$exists": false } };
    if let Some(tenant) = permit.tenant() {
        filter.insert("tenant", tenant);
    }
    filter
}

/// What stands there now, in scope, by id.
pub(super) async fn look<V>(
    store: &Mongo,
    permit: &Permit<V>,
    jobs: &[JobRef],
) -> Result<HashMap<String, Document>, Fault> {
    let ids: Vec<_> = jobs.iter().map(id).collect();
    let mut filter = doc! { "_id": { "$in": ids }, "stub": { "$exists": false } };
    if let Some(tenant) = permit.tenant() {
        filter.insert("tenant", tenant);
    }
    let rows = store.db.rows(doc! {
        "find": store.db.name("jobs"),
        "filter": filter,
        "projection": {
            "queue": 1, "state": 1, "verb": 1, "verb_mark": 1, "lost_mark": 1, "key": 1, "line": 1,
            "run_at": 1, "cancel": 1,
        },
    });
    let rows = rows.await?;
    Ok(rows.into_iter().filter_map(|row| Some((text(&row, "_id")?, row))).collect())
}

/// The first of each job; a second one in the same call finds what the first did.
pub(super) fn distinct(jobs: &[JobRef]) -> Vec<&JobRef> {
    let mut seen = BTreeSet::new();
    jobs.iter().filter(|job| seen.insert(*job)).collect()
}

/// Puts jobs back in line.
pub(crate) async fn all(
    store: &Mongo,
    permit: &Permit<Retry>,
    jobs: &[JobRef],
) -> Result<Vec<Retried>, Fault> {
    let token = token();
    let one = distinct(jobs);
    let retry = |job: &&JobRef| {
        let mut filter = scoped(permit, job);
        filter.insert("state", doc! { "$in": [State::Parked as i32, State::Cancelled as i32] });
        // One until finished is taken again, under the unique index; a parked job holds it still.
        let again = doc! { "$concat": ["$tenant", "/", "$key"] };
        let key = doc! { "$cond": [{ "$eq": ["$scope", 1] }, again, "$held"] };
        let set = doc! {
            "state": State::Ready as i32,
            "run_at": "$$NOW",
            "attempt": 0_i32,
            "line": Line::expression(true),
            "held": key,
            "cold": "$$REMOVE",
            "ended_at": "$$REMOVE",
            "gone": "$$REMOVE",
            "verb": "retry",
            "verb_by": { "$literal": permit.by() },
            "verb_at": "$$NOW",
            "verb_mark": token,
        };
        doc! { "q": filter, "u": [{ "$set": set }] }
    };
    let statements = one.iter().map(retry).collect();
    let written = store.db.update("jobs", statements).await?;
    let met: BTreeSet<usize> = written.duplicates.iter().map(|(at, _)| *at).collect();
    let found = look(store, permit, jobs).await?;
    let mut keys = Vec::new();
    for job in met.iter().filter_map(|at| one.get(*at)) {
        if let Some(key) = found.get(&id(job)).and_then(|row| text(row, "key")) {
            keys.push(held(&job.tenant, &key));
        }
    }
    let holders = holders(store, &keys).await?;
    let mut lines = Vec::new();
    let mut told = BTreeSet::new();
    let mut answers = Vec::with_capacity(jobs.len());
    for job in jobs {
        let Some(row) = found.get(&id(job)) else {
            answers.push(Retried::Unknown);
            continue;
        };
        let state = row::state(row)?;
        let refused =
            one.iter().position(|other| *other == job).is_some_and(|at| met.contains(&at));
        answers.push(if int(row, "verb_mark") == Some(token) && told.insert(job) {
            let line = text(row, "line").and_then(|line| Line::read(&line));
            let queue = need(text(row, "queue"), "queue")?;
            lines.push((queue, line.zip(date(row, "run_at"))));
            Retried::Retried
        } else if refused {
            let key = text(row, "key").map(|key| held(&job.tenant, &key));
            match key.and_then(|key| holders.get(&key)) {
                Some((id, state)) => Retried::KeyHeld(*id, *state),
                None => {
                    let what = "another job takes or frees a key that is needed: try again";
                    return Err(Fault::Broken(ErrorKind::Busy, what));
                }
            }
        } else {
            Retried::NotRetryable(state)
        });
    }
    store.put_in_line(lines);
    Ok(answers)
}

async fn holders(
    store: &Mongo,
    keys: &[String],
) -> Result<HashMap<String, (jobs_core::JobId, State)>, Fault> {
    if keys.is_empty() {
        return Ok(HashMap::new());
    }
    let rows = store.db.rows(doc! {
        "find": store.db.name("jobs"),
        "filter": { "held": { "$in": keys } },
        "projection": { "held": 1, "state": 1 },
    });
    let mut holders = HashMap::new();
    for row in &rows.await? {
        let holder = row::job_ref(&need(text(row, "_id"), "_id")?)?;
        holders.insert(need(text(row, "held"), "held")?, (holder.id, row::state(row)?));
    }
    Ok(holders)
}
