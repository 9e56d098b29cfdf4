//! Push (P1–P7).

use std::{
    collections::{BTreeSet, HashSet},
    sync::{Arc, LazyLock},
};

use jobs_core::{AuthorizedJob, KeyScope, Result, State, queue::Pushed, state};

use super::sweep::remove;
use crate::{
    db::{Statement, query},
    error::Fault,
    places,
    row::{self, Row, get},
    tx::{Place, Tx, json},
    writer::Writer,
};

/// Rows of one INSERT: few sizes, so that each is prepared once.
const SIZES: [usize; 4] = [64, 16, 4, 1];
/// Jobs of one transaction.
const CHUNK: usize = 1000;

static BODY: LazyLock<[Arc<str>; 4]> =
    LazyLock::new(|| SIZES.map(|n| repeat(include_str!("enqueue_body.sql"), n)));
static LIVE: LazyLock<[Arc<str>; 4]> =
    LazyLock::new(|| SIZES.map(|n| repeat(include_str!("enqueue_live.sql"), n)));

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
    if jobs.len() == 1 {
        return 1;
    }
    let (mut ids, mut keys) = (HashSet::new(), HashSet::new());
    let fresh = |job: &&&AuthorizedJob| {
        let job: &AuthorizedJob = job;
        let key = job.key.as_ref().map(|key| (job.tenant.clone(), key.text.clone()));
        ids.insert((job.tenant.clone(), job.id)) && key.is_none_or(|key| keys.insert(key))
    };
    jobs.iter().take_while(fresh).count()
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
    if bodies(tx, jobs, &numbered).await? < numbered.len() as u64 {
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
            bodies(tx, jobs, &again).await?;
        }
        numbered.retain(|(_, at)| answers[*at].is_none());
    }
    let subset: Vec<_> = numbered.iter().map(|(_, at)| jobs[*at]).collect();
    let places = places::find(tx, &subset).await?;
    live(tx, jobs, &numbered, &places).await?;
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
) -> std::result::Result<u64, Fault> {
    tx.dirty = true;
    let (mut rest, mut changed) = (numbered, 0);
    for (sql, size) in BODY.iter().zip(SIZES) {
        while rest.len() >= size {
            let (rows, tail) = rest.split_at(size);
            rest = tail;
            let mut insert = query(sql);
            for (number, at) in rows {
                insert = bind_body(insert, *number, jobs[*at], tx.now);
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
    now: i64,
) -> Statement<'q> {
    let metadata = (!job.metadata.is_empty()).then(|| json(&job.metadata));
    insert
        .bind(number)
        .bind(job.tenant.as_str())
        .bind(&job.id.0.as_bytes()[..])
        .bind(job.queue.as_str())
        .bind(job.name.as_str())
        .bind(job.action.as_str())
        .bind(job.authorized_by.as_str())
        .bind(job.payload.as_str())
        .bind(i64::from(job.priority))
        .bind(i64::from(job.max_attempts()))
        .bind(row::timeout_number(job.timeout))
        .bind(job.key.as_ref().map(|key| key.text.as_str()))
        .bind(keyed(job))
        .bind(metadata)
        .bind(now)
}

fn keyed(job: &AuthorizedJob) -> i64 {
    match job.key.as_ref().map(|key| key.scope) {
        None => 0,
        Some(KeyScope::UntilFinished) => 1,
        Some(KeyScope::UntilStarted) => 2,
    }
}

async fn live(
    tx: &mut Tx<'_>,
    jobs: &[&AuthorizedJob],
    numbered: &[(i64, usize)],
    places: &[Place],
) -> std::result::Result<(), Fault> {
    let mut ready = BTreeSet::new();
    let (mut rest, mut places) = (numbered, places.iter());
    for (sql, size) in LIVE.iter().zip(SIZES) {
        while rest.len() >= size {
            let (rows, tail) = rest.split_at(size);
            rest = tail;
            let mut insert = query(sql);
            for ((number, at), place) in rows.iter().zip(places.by_ref()) {
                let job = jobs[*at];
                let due = job.due_at(tx.now);
                let state = state::pushed(due <= tx.now);
                if state == State::Ready {
                    ready.insert(place.sublane);
                }
                tx.woken.insert(place.queue);
                insert = insert
                    .bind(*number)
                    .bind(place.queue)
                    .bind(place.lane)
                    .bind(place.sublane)
                    .bind(state as i64)
                    .bind(-i64::from(job.priority))
                    .bind(due)
                    .bind(&job.id.0.as_bytes()[..])
                    .bind(i64::from(job.max_attempts()))
                    .bind(keyed(job));
            }
            tx.db.run(insert).await?;
        }
    }
    let key = |(number, at): &(i64, usize)| {
        let key = jobs[*at].key.as_ref()?;
        Some((jobs[*at].tenant.clone(), key.text.clone(), *number))
    };
    let keys: Vec<_> = numbered.iter().filter_map(key).collect();
    if !keys.is_empty() {
        tx.db.run(query(include_str!("enqueue_key.sql")).bind(json(&keys))).await?;
    }
    if !ready.is_empty() {
        tx.db.run(query(include_str!("ring.sql")).bind(json(&ready))).await?;
    }
    Ok(())
}
