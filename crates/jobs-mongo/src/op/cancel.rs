//! Cancel (A3): at once where nobody runs it, else its holder is asked.

use std::collections::BTreeSet;

use jobs_core::{JobRef, Permit, State, admin::Cancelled, permit::Cancel};
use mongodb::bson::{Bson, Document, doc};

use super::{
    retry::{distinct, look, scoped},
    settle::HELD_BY,
    sweep::{lose, over},
};
use crate::{
    Mongo,
    error::Fault,
    row::{self, id, int, need, text, token},
};

/// Ends jobs without their work.
pub(crate) async fn all(
    store: &Mongo,
    permit: &Permit<Cancel>,
    jobs: &[JobRef],
) -> Result<Vec<Cancelled>, Fault> {
    let token = token();
    let mut statements = Vec::new();
    for job in distinct(jobs) {
        statements.extend(statements_of(permit, job, token));
    }
    store.db.update("jobs", statements).await?;
    let found = look(store, permit, jobs).await?;
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

/// Who did it, by this call's mark.
fn did(permit: &Permit<Cancel>, token: i64) -> Document {
    doc! {
        "verb": "cancel",
        "verb_by": { "$literal": permit.by() },
        "verb_at": "$$NOW",
        "verb_mark": token,
    }
}

/// Of these at most one matches: by the state, and for a running job by its lease. Each of them
/// takes the job out of what the ones before it match.
fn statements_of(permit: &Permit<Cancel>, job: &JobRef, token: i64) -> Vec<Document> {
    let of = |state: Bson| {
        let mut filter = scoped(permit, job);
        filter.insert("state", state);
        filter
    };
    let waits = [State::Scheduled, State::Ready, State::Parked].map(|state| state as i32);
    let mut end = doc! {
        "state": State::Cancelled as i32,
        "cold": State::Cancelled as i32,
        "ended_at": "$$NOW",
        "gone": "$$NOW",
        "fence": { "$add": ["$fence", 1_i64] },
    };
    for field in HELD_BY.into_iter().chain(["held", "nonce", "outcome"]) {
        end.insert(field, "$$REMOVE");
    }
    end.extend(did(permit, token));
    let at_once =
        doc! { "q": of(Bson::Document(doc! { "$in": waits.to_vec() })), "u": [{ "$set": end }] };

    let [first, second] = lose(doc! { "$literal": State::Cancelled as i32 });
    let mut last = did(permit, token);
    last.insert("fence", doc! { "$add": ["$fence", 1_i64] });
    last.insert("lost_mark", token);
    let mut filter = of(Bson::Int32(State::Running as i32));
    filter.insert("$expr", over());
    let silent = doc! { "q": filter, "u": [first, second, { "$set": last }] };

    let mut ask = did(permit, token);
    ask.insert("cancel", true);
    let mut filter = of(Bson::Int32(State::Running as i32));
    filter.insert("$expr", doc! { "$not": [over()] });
    let asked = doc! { "q": filter, "u": [{ "$set": ask }] };
    vec![at_once, silent, asked]
}
