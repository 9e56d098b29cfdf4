//! Cancel (A3): at once where nobody runs it, else its holder is asked.

use std::collections::{BTreeSet, HashMap};

use jobs_core::{ErrorKind, JobRef, Permit, State, admin::Cancelled, permit::Cancel};
use mongodb::bson::{Bson, Document, doc};

use super::{
    retry::{distinct, look, scoped},
    settle::HELD_BY,
    sweep::{lose, over, record_taken},
};
use crate::{
    Mongo,
    error::Fault,
    row::{self, id, int, need, text, token},
};

/// How often a job that was on its way to another state is asked again.
const TRIES: usize = 3;

/// Ends jobs without their work.
pub(crate) async fn all(
    store: &Mongo,
    permit: &Permit<Cancel>,
    jobs: &[JobRef],
) -> Result<Vec<Cancelled>, Fault> {
    let token = token();
    let ids: Vec<Bson> = jobs.iter().map(|job| Bson::String(id(job))).collect();
    record_taken(store, &ids).await?;
    let mut left = distinct(jobs);
    let mut found = HashMap::new();
    for _ in 0..TRIES {
        let statements = left.iter().map(|job| statement(permit, job, token)).collect();
        store.db.update("jobs", statements).await?;
        found = look(store, permit, jobs).await?;
        // Neither asked by this call nor by another: it was put back by an operator meanwhile.
        let missed = |job: &&JobRef| {
            found.get(&id(job)).is_some_and(|row| {
                let live = int(row, "state").is_some_and(|state| state <= State::Parked as i64);
                let asked = row.get_bool("cancel").unwrap_or(false);
                live && !asked && int(row, "verb_mark") != Some(token)
            })
        };
        left.retain(missed);
        if left.is_empty() {
            break;
        }
    }
    if !left.is_empty() {
        let what = "another verb puts the job back all the time: try again";
        return Err(Fault::Broken(ErrorKind::Busy, what));
    }
    let mut told = BTreeSet::new();
    let mut answers = Vec::with_capacity(jobs.len());
    for job in jobs {
        let Some(row) = found.get(&id(job)) else {
            answers.push(Cancelled::Unknown);
            continue;
        };
        let state = row::state(row)?;
        let first = told.insert(job);
        answers.push(match (int(row, "verb_mark") == Some(token), state) {
            (true, State::Cancelled) if first => {
                if int(row, "lost_mark") == Some(token) {
                    let queue = need(text(row, "queue"), "queue")?;
                    store.minutes.failed(&store.db, &queue, &job.tenant);
                }
                Cancelled::Cancelled
            }
            (_, State::Done | State::Cancelled) => Cancelled::NotLive(state),
            _ => Cancelled::Requested,
        });
    }
    Ok(answers)
}

/// One statement, which decides by what it finds: a job that moves on between two would be found by
/// neither.
fn statement(permit: &Permit<Cancel>, job: &JobRef, token: i64) -> Document {
    let waits = [State::Scheduled, State::Ready, State::Parked].map(|state| state as i32);
    let mut live = waits.to_vec();
    live.push(State::Running as i32);
    let mut filter = scoped(permit, job);
    filter.insert("state", doc! { "$in": live });
    let did = doc! {
        "verb": "cancel",
        "verb_by": { "$literal": permit.by() },
        "verb_at": "$$NOW",
        "verb_mark": token,
        "cancelling": { "$switch": {
            "branches": [
                { "case": { "$in": ["$state", waits.to_vec()] }, "then": END },
                { "case": over(), "then": LOSE },
            ],
            "default": ASK,
        } },
    };
    let fence = doc! { "$add": ["$fence", 1_i64] };
    let mut end = doc! {
        "state": State::Cancelled as i32,
        "cold": State::Cancelled as i32,
        "ended_at": "$$NOW",
        "gone": "$$NOW",
        "fence": &fence,
    };
    for field in HELD_BY.into_iter().chain(["held", "nonce", "outcome"]) {
        end.insert(field, "$$REMOVE");
    }
    let [first, second] = lose(doc! { "$literal": State::Cancelled as i32 });
    let last = doc! { "fence": fence, "lost_mark": token };
    let of = |stage: Document| stage.get_document("$set").cloned().unwrap_or_default();
    let stages = [
        doc! { "$set": did },
        only(ASK, doc! { "cancel": true }),
        only(END, end),
        only(LOSE, of(first)),
        only(LOSE, of(second)),
        only(LOSE, last),
        doc! { "$unset": "cancelling" },
    ];
    doc! { "q": filter, "u": stages.map(Bson::Document).to_vec() }
}

/// What becomes of it: it ends, its holder lost it, or its holder is asked.
const END: &str = "end";
const LOSE: &str = "lose";
const ASK: &str = "ask";

/// The stage that sets these where that becomes of it, and leaves the others as they are.
fn only(case: &str, set: Document) -> Document {
    let here = doc! { "$eq": ["$cancelling", case] };
    let set = set.into_iter().map(|(field, value)| {
        let kept = format!("${field}");
        (field, Bson::Document(doc! { "$cond": [&here, value, kept] }))
    });
    doc! { "$set": set.collect::<Document>() }
}
