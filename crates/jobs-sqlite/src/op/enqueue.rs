//! Push (P1–P7).

use std::{
    collections::{BTreeSet, HashSet},
    sync::{Arc, LazyLock},
};

use jobs_core::{AuthorizedJob, KeyScope, Result, State, queue::Pushed, state};

use super::sweep::remove;
use crate::{
    db::{Statement, query, query_of},
    error::Fault,
    places::{self, Place},
    row::{self, Row, get},
    tx::{Tx, json},
    writer::Writer,
};

/// Rows of one INSERT: few sizes, so that each is prepared once, and none so large that its texts
/// outgrow what SQLite keeps for small allocations: 64 rows are 10 % slower than 32, 16 as well.
const SIZES: [usize; 4] = [32, 16, 4, 1];
/// Binds of one row.
const COLUMNS: usize = 17;
/// Jobs of one transaction.
const CHUNK: usize = 1000;

static BODY: LazyLock<[Arc<str>; 4]> =
    LazyLock::new(|| SIZES.map(|n| repeat(include_str!("enqueue_body.sql"), n)));

/// The statement with its row of binds repeated.
fn repeat(sql: &str, rows: usize) -> Arc<str> {
    let line = sql.lines().find(|line| line.starts_with("  (?")).unwrap_or_default();
    sql.replacen(line, &vec![line; rows].join(",\n"), 1).into()
}

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

/// How many from the front share neither an id nor a key.
fn distinct(jobs: &[&AuthorizedJob]) -> usize {
    let keyless = jobs.iter().all(|job| job.key.is_none());
    if keyless && jobs.windows(2).all(|pair| pair[0].id < pair[1].id) {
        return jobs.len();
    }
    let mut ids = HashSet::with_capacity(jobs.len());
    let mut keys = HashSet::new();
    for (at, job) in jobs.iter().enumerate() {
        let key = job.key.as_ref().map(|key| (job.tenant.as_str(), key.text.as_str()));
        if !ids.insert((job.id, job.tenant.as_str())) || key.is_some_and(|key| !keys.insert(key)) {
            return at;
        }
    }
    jobs.len()
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
    let mut numbered: Vec<(i64, usize)> = (first..).zip(fresh).collect();
    let places = places::find(tx, numbered.iter().map(|(_, at)| jobs[*at])).await?;
    let place = |number: i64| places[usize::try_from(number - first).unwrap_or_default()];
    if bodies(tx, jobs, &numbered, place).await? < numbered.len() as u64 {
        let subset: Vec<_> = numbered.iter().map(|(_, at)| jobs[*at]).collect();
        let found = stored(tx, &subset).await?;
        let (mut halves, mut again) = (Vec::new(), Vec::new());
        for ((number, at), found) in numbered.iter().zip(&found) {
            match found {
                (Some((job, Some(state))), _) if *job < first => {
                    answers[*at] = Some(Pushed::Duplicate(*state));
                }
                (Some((job, None)), _) if *job < first => {
                    halves.push(*job);
                    again.push((*number, *at));
                }
                _ => {}
            }
        }
        if !halves.is_empty() {
            remove(tx, &halves, true).await?;
            bodies(tx, jobs, &again, place).await?;
        }
        numbered.retain(|(_, at)| answers[*at].is_none());
    }
    line_up(tx, jobs, &numbered, place).await?;
    for (_, at) in numbered {
        answers[at] = Some(Pushed::Stored);
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

async fn bodies(
    tx: &mut Tx<'_>,
    jobs: &[&AuthorizedJob],
    numbered: &[(i64, usize)],
    place: impl Fn(i64) -> Place,
) -> std::result::Result<u64, Fault> {
    tx.dirty = true;
    let (mut rest, mut changed) = (numbered, 0);
    for (sql, size) in BODY.iter().zip(SIZES) {
        while rest.len() >= size {
            let (rows, tail) = rest.split_at(size);
            rest = tail;
            let mut insert = query_of(sql, size * COLUMNS);
            for (number, at) in rows {
                insert = bind_body(insert, *number, jobs[*at], place(*number), tx.now);
            }
            changed += tx.db.run(insert).await?;
        }
    }
    Ok(changed)
}

fn bind_body<'q>(
    insert: Statement<'q>,
    number: i64,
    job: &'q AuthorizedJob,
    place: Place,
    now: i64,
) -> Statement<'q> {
    let metadata = (!job.metadata.is_empty()).then(|| json(&job.metadata));
    insert
        .bind(number)
        .bind(job.tenant.as_str())
        .bind(&job.id.0.as_bytes()[..])
        .bind(place.queue)
        .bind(place.lane)
        .bind(place.sublane)
        .bind(job.due_at(now))
        .bind(now)
        .bind(i64::from(job.priority))
        .bind(i64::from(job.max_attempts()))
        .bind(row::timeout_number(job.timeout))
        .bind(keyed(job))
        .bind(job.key.as_ref().map(|key| key.text.as_str()))
        .bind(job.action.as_str())
        .bind(job.authorized_by.as_str())
        .bind(metadata)
        .bind(job.payload.as_str())
}

fn keyed(job: &AuthorizedJob) -> i64 {
    match job.key.as_ref().map(|key| key.scope) {
        None => 0,
        Some(KeyScope::UntilFinished) => 1,
        Some(KeyScope::UntilStarted) => 2,
    }
}

/// Takes the keys of stored jobs and puts them where they wait, which is last: a job that is in line
/// is whole, wherever a caller of `push_in` was dropped.
async fn line_up(
    tx: &mut Tx<'_>,
    jobs: &[&AuthorizedJob],
    numbered: &[(i64, usize)],
    place: impl Fn(i64) -> Place,
) -> std::result::Result<(), Fault> {
    let (Some((first, _)), Some((last, _))) = (numbered.first(), numbered.last()) else {
        return Ok(());
    };
    let (mut ready, mut scheduled) = (BTreeSet::new(), false);
    for (number, at) in numbered {
        let place = place(*number);
        match state::pushed(jobs[*at].due_at(tx.now) <= tx.now) {
            State::Ready => drop(ready.insert(place.sublane)),
            _ => scheduled = true,
        }
        tx.woken.insert(place.queue);
    }
    let key = |(number, at): &(i64, usize)| {
        let key = jobs[*at].key.as_ref()?;
        Some((jobs[*at].tenant.as_str(), key.text.as_str(), *number))
    };
    let keys: Vec<_> = numbered.iter().filter_map(key).collect();
    if !keys.is_empty() {
        tx.db.run(query(include_str!("enqueue_key.sql")).bind(json(&keys))).await?;
    }
    if !ready.is_empty() {
        tx.db.run(query(include_str!("ring.sql")).bind(json(&ready))).await?;
        tx.db.run(query(include_str!("enqueue_ready.sql")).bind(*first).bind(*last)).await?;
    }
    if scheduled {
        let wait = query(include_str!("enqueue_scheduled.sql"));
        tx.db.run(wait.bind(*first).bind(*last)).await?;
    }
    Ok(())
}
