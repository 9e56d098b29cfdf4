//! Sweep (X1): takes back what was silent, promotes what came due, prunes history (S5).
//!
//! Pages freed by pruning are used again; `incremental_vacuum` after a flood is an operator's
//! choice, because it moves pages through the log. The log itself is folded back by SQLite's own
//! checkpoint at 1,000 pages, which waits for no reader here: readings are one call long.

use std::collections::{BTreeMap, BTreeSet};

use async_trait::async_trait;
use jobs_core::{
    JobRef, State,
    queue::{Lost, STUB, Swept},
    time::delay_millis,
};

use crate::{
    db::query,
    error::Fault,
    moves::{Moves, Run},
    row::{self, Row, get, small},
    statistics,
    tx::{Tx, json},
    writer::Write,
};

/// Most that one sweep does of each.
const BATCH: usize = 500;
/// Most reserves that one sweep forgets.
const RESERVES: u64 = 4 * BATCH as u64;
/// How long counts by minute and nonces are kept.
const HOUR: i64 = 3_600_000;
/// How long a silent worker is still listed.
pub(crate) const SILENT: i64 = 60_000;

/// One bounded round.
pub(crate) struct Sweep;

#[async_trait]
impl Write for Sweep {
    const NAME: &'static str = "sweep";
    type Answer = Swept;

    async fn run(&self, tx: &mut Tx<'_>) -> Result<Swept, Fault> {
        let (lost, silent) = take_back(tx).await?;
        let promoted = promote(tx).await?;
        let (pruned, stubs) = prune(tx).await?;
        let reserves = forget(tx).await?;
        tx.dirty |= statistics::forget(&mut tx.db).await?;
        let more = [silent, promoted, pruned, stubs].into_iter().any(|n| n >= BATCH);
        let more = more || reserves >= RESERVES;
        Ok(Swept { lost, promoted, pruned, more })
    }
}

async fn take_back(tx: &mut Tx<'_>) -> Result<(Vec<Lost>, usize), Fault> {
    let expired = query(include_str!("sweep_expired.sql")).bind(tx.now);
    let rows = tx.db.all(expired.bind(BATCH as i64)).await?;
    let (mut moves, mut lost) = (Moves::default(), Vec::new());
    for row in &rows {
        // A run whose body is damaged is taken back too; only its name cannot be told.
        let Some(run) = Run::read(row, 0)? else { continue };
        let Some(state) = moves.lose(&run, tx.now) else { continue };
        match told(row, &run, state) {
            Ok(told) => lost.push(told),
            Err(fault) => {
                let error = fault.into_error("sweep");
                tracing::error!(%error, job = run.job, "a damaged job is taken from its holder");
            }
        }
    }
    moves.write(tx).await?;
    Ok((lost, rows.len()))
}

fn told(row: &Row, run: &Run, state: State) -> Result<Lost, Fault> {
    let at = Run::COLUMNS;
    Ok(Lost {
        job: JobRef { tenant: get(row, at)?, id: row::id(get(row, at + 1)?)? },
        queue: get(row, at + 2)?,
        name: get(row, at + 3)?,
        attempt: small(run.attempt),
        state,
    })
}

async fn promote(tx: &mut Tx<'_>) -> Result<usize, Fault> {
    let promote = query(include_str!("sweep_promote.sql")).bind(tx.now);
    let rows = tx.db.all(promote.bind(BATCH as i64)).await?;
    let mut sublanes = BTreeSet::new();
    for row in &rows {
        tx.woken.insert(get(row, 0)?);
        sublanes.insert(get::<i64>(row, 1)?);
    }
    if !rows.is_empty() {
        tx.db.run(query(include_str!("ring.sql")).bind(json(&sublanes))).await?;
        tx.dirty = true;
    }
    Ok(rows.len())
}

async fn prune(tx: &mut Tx<'_>) -> Result<(usize, usize), Fault> {
    let retention = tx.retention;
    let before = |age| tx.now.saturating_sub(delay_millis(age));
    let aged = query(include_str!("sweep_aged.sql")).bind(before(retention.done));
    let aged = aged.bind(before(retention.cancelled)).bind(BATCH as i64);
    let (mut pruned, mut done) = (Vec::<i64>::new(), BTreeMap::<i64, i64>::new());
    for row in tx.db.all(aged).await? {
        pruned.push(get(&row, 0)?);
        if get::<i64>(&row, 2)? > 0 {
            *done.entry(get(&row, 1)?).or_default() -= 1;
        }
    }
    leave_stubs(tx, &pruned, &done).await?;
    let keep = i64::try_from(retention.done_per_queue).unwrap_or(i64::MAX);
    for row in tx.db.all(query(include_str!("sweep_excess.sql")).bind(keep)).await? {
        let (queue, excess): (i64, i64) = (get(&row, 0)?, get(&row, 1)?);
        let room = BATCH.saturating_sub(pruned.len()) as i64;
        let oldest = query(include_str!("sweep_oldest.sql")).bind(queue).bind(excess.min(room));
        let rows = tx.db.all(oldest).await?;
        let jobs: Result<Vec<i64>, Fault> = rows.iter().map(|row| get(row, 0)).collect();
        let jobs = jobs?;
        let count = i64::try_from(jobs.len()).unwrap_or_default();
        leave_stubs(tx, &jobs, &BTreeMap::from([(queue, -count)])).await?;
        pruned.extend(jobs);
    }
    let stubs = query(include_str!("sweep_stubs.sql")).bind(tx.now - delay_millis(STUB));
    let rows = tx.db.all(stubs.bind(2 * BATCH as i64)).await?;
    let jobs: Result<Vec<i64>, Fault> = rows.iter().map(|row| get(row, 0)).collect();
    remove(tx, &jobs?, false).await?;
    Ok((pruned.len(), rows.len()))
}

async fn leave_stubs(
    tx: &mut Tx<'_>,
    jobs: &[i64],
    done: &BTreeMap<i64, i64>,
) -> Result<(), Fault> {
    if jobs.is_empty() {
        return Ok(());
    }
    tx.dirty = true;
    tx.db.run(query(include_str!("sweep_stub.sql")).bind(json(jobs))).await?;
    let done: Vec<_> = done.iter().collect();
    tx.db.run(query(include_str!("moves_count.sql")).bind(json(&done))).await?;
    Ok(())
}

/// Removes jobs for good, live or not.
pub(crate) async fn remove(tx: &mut Tx<'_>, jobs: &[i64], keyed: bool) -> Result<(), Fault> {
    if jobs.is_empty() {
        return Ok(());
    }
    tx.dirty = true;
    let jobs = json(jobs);
    if keyed {
        tx.db.run(query(include_str!("free_keys.sql")).bind(&jobs)).await?;
        tx.db.run(query(include_str!("remove_live.sql")).bind(&jobs)).await?;
    }
    tx.db.run(query(include_str!("remove_done.sql")).bind(&jobs)).await?;
    tx.db.run(query(include_str!("remove_attempt.sql")).bind(&jobs)).await?;
    tx.db.run(query(include_str!("remove_body.sql")).bind(&jobs)).await?;
    Ok(())
}

/// Answers how many reserves it forgot.
async fn forget(tx: &mut Tx<'_>) -> Result<u64, Fault> {
    let (hour, stub) = (tx.now - HOUR, tx.now - delay_millis(STUB));
    let reserves = query(include_str!("sweep_reserves.sql")).bind(hour).bind(stub);
    let reserves = tx.db.run(reserves.bind(RESERVES as i64)).await?;
    let oldest = hour - hour.rem_euclid(60_000);
    let mut gone = tx.db.run(query(include_str!("sweep_minutes.sql")).bind(oldest)).await?;
    let silent = query(include_str!("sweep_workers.sql")).bind(tx.now - SILENT);
    gone += tx.db.run(silent).await?;
    tx.dirty |= gone + reserves > 0;
    Ok(reserves)
}
