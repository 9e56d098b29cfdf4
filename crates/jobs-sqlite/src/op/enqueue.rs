//! Push (P1–P7).

use std::collections::BTreeSet;

use jobs_core::{AuthorizedJob, Result, State, driver::distinct, queue::Pushed, state};

use super::{
    enqueue_body::{self, Fresh},
    sweep::remove,
};
use crate::{
    db::query,
    error::Fault,
    places,
    row::{self, Row, get},
    tx::{Tx, json},
    writer::Writer,
};

/// Jobs of one transaction.
const CHUNK: usize = 1000;

/// Pushes in chunks, so that a bulk push lets others in between.
pub(crate) async fn all(writer: &Writer, jobs: &[AuthorizedJob]) -> Vec<Result<Pushed>> {
    let mut answers = Vec::with_capacity(jobs.len());
    for chunk in jobs.chunks(CHUNK) {
        match writer.push(chunk).await {
            Ok(pushed) => answers.extend(pushed.into_iter().map(Ok)),
            Err(error) => answers.extend(chunk.iter().map(|_| Err(error.clone()))),
        }
    }
    answers
}

/// Stores jobs in order; the first of an id or key wins.
pub(crate) async fn run(
    tx: &mut Tx<'_>,
    jobs: &[&AuthorizedJob],
) -> std::result::Result<Vec<Pushed>, Fault> {
    let mut answers = Vec::with_capacity(jobs.len());
    let mut rest = jobs;
    while !rest.is_empty() {
        let (head, tail) = rest.split_at(distinct(rest));
        answers.extend(store(tx, head).await?);
        rest = tail;
    }
    Ok(answers)
}

async fn store(
    tx: &mut Tx<'_>,
    jobs: &[&AuthorizedJob],
) -> std::result::Result<Vec<Pushed>, Fault> {
    let mut answers = vec![None; jobs.len()];
    if jobs.iter().any(|job| job.key.is_some()) {
        let mut halves = Vec::new();
        for (at, found) in stored(tx, jobs).await?.into_iter().enumerate() {
            answers[at] = match found {
                (Some((_, Some(state))), _) => Some(Pushed::Duplicate(state)),
                (half, holder) => {
                    halves.extend(half.map(|(job, _)| job));
                    holder.map(|(id, state)| Pushed::KeyHeld(id, state))
                }
            };
        }
        remove(tx, &halves, true).await?;
    }
    let fresh: Vec<usize> = (0..jobs.len()).filter(|at| answers[*at].is_none()).collect();
    if fresh.is_empty() {
        return Ok(answers.into_iter().flatten().collect());
    }
    let first = tx.next_job;
    tx.next_job += i64::try_from(fresh.len()).unwrap_or(i64::MAX);
    let places = places::find(tx, fresh.iter().map(|at| jobs[*at])).await?;
    let numbered = (first..).zip(fresh).zip(places);
    let mut fresh: Vec<_> =
        numbered.map(|((number, at), place)| Fresh { number, at, job: jobs[at], place }).collect();
    if enqueue_body::run(tx, &fresh).await? < fresh.len() as u64 {
        let subset: Vec<_> = fresh.iter().map(|one| one.job).collect();
        let found = stored(tx, &subset).await?;
        let (mut halves, mut again) = (Vec::new(), Vec::new());
        for (one, found) in fresh.iter().zip(&found) {
            match found {
                (Some((job, Some(state))), _) if *job < first => {
                    answers[one.at] = Some(Pushed::Duplicate(*state));
                }
                (Some((job, None)), _) if *job < first => {
                    halves.push(*job);
                    again.push(*one);
                }
                _ => {}
            }
        }
        if !halves.is_empty() {
            remove(tx, &halves, true).await?;
            enqueue_body::run(tx, &again).await?;
        }
        fresh.retain(|one| answers[one.at].is_none());
    }
    line_up(tx, &fresh).await?;
    for one in fresh {
        answers[one.at] = Some(Pushed::Stored);
    }
    Ok(answers.into_iter().flatten().collect())
}

/// The stored job and its state, none when it was stored half (see `push_in`) and is to be stored
/// again, then the key's holder.
type Found = (Option<(i64, Option<State>)>, Option<(jobs_core::JobId, State)>);

async fn stored(
    tx: &mut Tx<'_>,
    jobs: &[&AuthorizedJob],
) -> std::result::Result<Vec<Found>, Fault> {
    let entry = |job: &&AuthorizedJob| {
        let key = job.key.as_ref().map(|key| key.text.clone());
        (job.tenant.clone(), job.id.0.simple().to_string(), key)
    };
    let wanted = json(&jobs.iter().map(entry).collect::<Vec<_>>());
    let rows = tx.db.all(query(include_str!("enqueue_stored.sql")).bind(wanted)).await?;
    let found = |row: &Row| {
        // One whose state cannot be read is stored all the same, and out of every line.
        let state = |at| {
            let number = get::<Option<i64>>(row, at)?;
            Ok::<_, Fault>(number.map(|number| row::state(number).unwrap_or(State::Parked)))
        };
        let job = match get::<Option<i64>>(row, 1)? {
            Some(job) => Some((job, state(2)?)),
            None => None,
        };
        // A holder that cannot be named, or is in no state, holds nothing.
        let holder = match (get::<Option<&[u8]>>(row, 3)?, state(4)?) {
            (Some(bytes), Some(state)) => row::id(bytes).ok().map(|id| (id, state)),
            _ => None,
        };
        Ok((job, holder))
    };
    rows.iter().map(found).collect()
}

/// Takes the keys of stored jobs and puts them where they wait, which is last: a job that is in line
/// is whole, wherever a caller of `push_in` was dropped.
async fn line_up(tx: &mut Tx<'_>, fresh: &[Fresh<'_>]) -> std::result::Result<(), Fault> {
    let (Some(first), Some(last)) = (fresh.first(), fresh.last()) else { return Ok(()) };
    let (first, last) = (first.number, last.number);
    let (mut ready, mut scheduled) = (BTreeSet::new(), false);
    for Fresh { job, place, .. } in fresh {
        match state::pushed(job.due_at(tx.now) <= tx.now) {
            State::Ready => drop(ready.insert(place.sublane)),
            _ => scheduled = true,
        }
        tx.woken.insert(place.queue);
    }
    let mut keys = Vec::new();
    for Fresh { number, job, .. } in fresh {
        keys.extend(job.key.as_ref().map(|key| (job.tenant.as_str(), key.text.as_str(), number)));
    }
    if !keys.is_empty() {
        tx.db.run(query(include_str!("enqueue_key.sql")).bind(json(&keys))).await?;
    }
    if !ready.is_empty() {
        tx.db.run(query(include_str!("ring.sql")).bind(json(&ready))).await?;
        tx.db.run(query(include_str!("enqueue_ready.sql")).bind(first).bind(last)).await?;
    }
    if scheduled {
        let wait = query(include_str!("enqueue_scheduled.sql"));
        tx.db.run(wait.bind(first).bind(last)).await?;
    }
    Ok(())
}
