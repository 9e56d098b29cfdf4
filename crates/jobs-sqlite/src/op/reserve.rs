//! Reserve (R1–R8).
//!
//! Who is next is decided in `round.rs`.

use std::time::Duration;

use async_trait::async_trait;
use jobs_core::{
    Claim, Outcome, OutcomeKind, Result, Settled, Settlement,
    queue::{Delivery, LANE_BATCH, MAX_RESERVE, Reserve, Reserved},
    time::after,
};

use super::{
    round::{Round, Wish},
    settle,
};
use crate::{
    db::query,
    error::Fault,
    moves::{Moves, Run},
    row::{self, Row, get, small},
    tx::{Tx, json},
    writer::{Write, Writer},
};

/// Lines of one name whose first due jobs one reserve promotes.
const PROMOTED_LINES: i64 = 64;
/// The longest that [`Reserved::next_due`] says.
const HOUR: i64 = 3_600_000;

struct SettleAndReserve(Vec<Settlement>, Reserve);

/// Settles, then reserves, in one transaction. None asked does no I/O.
pub(crate) async fn all(
    writer: &Writer,
    settlements: &[Settlement],
    request: &Reserve,
) -> Result<(Vec<Settled>, Reserved)> {
    if settlements.is_empty() && request.most() == 0 {
        return Ok(Default::default());
    }
    writer.call(SettleAndReserve(settlements.to_vec(), request.clone())).await
}

#[async_trait]
impl Write for SettleAndReserve {
    const NAME: &'static str = "reserve";
    type Answer = (Vec<Settled>, Reserved);

    fn name(&self) -> &'static str {
        if self.0.is_empty() { Self::NAME } else { "settle_and_reserve" }
    }

    async fn run(&self, tx: &mut Tx<'_>) -> std::result::Result<Self::Answer, Fault> {
        let settled = settle::run(tx, &self.0).await?;
        let reserved = match self.1.most() {
            0 => Reserved::default(),
            _ => reserve(tx, &self.1).await?,
        };
        Ok((settled, reserved))
    }
}

async fn reserve(tx: &mut Tx<'_>, request: &Reserve) -> std::result::Result<Reserved, Fault> {
    let look = query(include_str!("reserve_look.sql"));
    let look = look.bind(request.queue()).bind(request.nonce_of().0).bind(tx.now);
    let look = look.bind(json(request.names()));
    let Some(found) = tx.db.first(look).await? else { return Ok(Reserved::default()) };
    let queue: i64 = get(&found, 0)?;
    let until = after(tx.now, request.leased_for().length());
    if let Some(jobs) = get::<Option<String>>(&found, 4)? {
        let extend = query(include_str!("reserve_extend.sql")).bind(&jobs);
        let extend = extend.bind(request.nonce_of().0).bind(tx.now).bind(until);
        if tx.db.run(extend).await? > 0 {
            let remember = query(include_str!("reserve_remember.sql"));
            let remember = remember.bind(request.nonce_of().0).bind(until).bind(&jobs);
            tx.db.run(remember).await?;
            tx.dirty = true;
        }
        return Ok(Reserved { deliveries: deliver(tx, request, jobs).await?, next_due: None });
    }
    let mut next = get::<Option<i64>>(&found, 2)?;
    let due = next.is_some_and(|due| due <= tx.now);
    if due {
        promote(tx, request, queue).await?;
    }
    if get::<i64>(&found, 3)? > 0 {
        resume(tx, queue).await?;
    }
    let mut taken = Vec::new();
    if get::<i64>(&found, 1)? <= tx.now {
        taken = take(tx, request, queue, until).await?;
    }
    let mut reserved = Reserved::default();
    if !taken.is_empty() {
        let jobs = json(&taken);
        let remember = query(include_str!("reserve_remember.sql"));
        let remember = remember.bind(request.nonce_of().0).bind(until).bind(&jobs);
        tx.db.run(remember).await?;
        reserved.deliveries = deliver(tx, request, jobs).await?;
    }
    if taken.len() < request.most() {
        if due {
            let again = query(include_str!("reserve_next.sql")).bind(queue);
            let row = tx.db.first(again.bind(json(request.names()))).await?;
            next = row.map_or(Ok(None), |row| get(&row, 0))?;
        }
        let wait = next.map(|due| due.saturating_sub(tx.now).clamp(0, HOUR));
        reserved.next_due = wait.map(|wait| Duration::from_millis(wait.unsigned_abs()));
    }
    Ok(reserved)
}

/// Puts what came due in line: the first jobs of each line, so that no crowd hides another
/// tenant's job, and of a few lines many.
async fn promote(tx: &mut Tx<'_>, request: &Reserve, queue: i64) -> std::result::Result<(), Fault> {
    let due = query(include_str!("reserve_due.sql")).bind(queue).bind(json(request.names()));
    let rows = tx.db.all(due.bind(tx.now).bind(PROMOTED_LINES)).await?;
    let lines: std::result::Result<Vec<i64>, _> = rows.iter().map(|row| get(row, 0)).collect();
    let lines = lines?;
    let each = (MAX_RESERVE / lines.len().max(1)).max(2 * LANE_BATCH);
    let each = i64::try_from(each).unwrap_or(i64::MAX);
    let lines = json(&lines);
    let promote = query(include_str!("reserve_promote.sql")).bind(&lines);
    tx.db.run(promote.bind(tx.now).bind(each)).await?;
    tx.db.run(query(include_str!("reserve_waits.sql")).bind(&lines).bind(tx.now)).await?;
    tx.dirty = true;
    Ok(())
}

async fn resume(tx: &mut Tx<'_>, queue: i64) -> std::result::Result<(), Fault> {
    let resume = query(include_str!("reserve_resume.sql")).bind(queue).bind(tx.now);
    let rows = tx.db.all(resume).await?;
    let lanes: std::result::Result<Vec<i64>, _> = rows.iter().map(|row| get(row, 0)).collect();
    tx.db.run(query(include_str!("reserve_ring.sql")).bind(json(&lanes?))).await?;
    tx.dirty = true;
    Ok(())
}

/// Takes rounds of visits until the wish is filled or nothing is left. One round is the rule;
/// another follows where lanes had less than a visit.
async fn take(
    tx: &mut Tx<'_>,
    request: &Reserve,
    queue: i64,
    until: i64,
) -> std::result::Result<Vec<i64>, Fault> {
    let (mut taken, mut free, mut lanes) = (Vec::new(), request.free_slots(), 1);
    while taken.len() < request.most() {
        let wish = Wish { most: request.most() - taken.len(), anything: free, request };
        lanes = (2 * lanes).max(wish.most / LANE_BATCH + 2);
        let mut round = Round::look(tx, &wish, queue, lanes).await?;
        if round.is_empty() {
            break;
        }
        let visits = round.visit(tx, &wish).await?;
        if !visits.taken.is_empty() {
            let take = query(include_str!("reserve_take.sql")).bind(json(&visits.taken));
            let take = take.bind(request.nonce_of().0).bind(tx.now).bind(until);
            tx.db.run(take.bind(request.worker())).await?;
        }
        if !visits.started.is_empty() {
            let free = query(include_str!("free_keys.sql")).bind(json(&visits.started));
            tx.db.run(free).await?;
        }
        let (missing, charges) = round.charges(queue);
        if !missing.is_empty() {
            let widen = query(include_str!("reserve_widen.sql")).bind(queue);
            tx.db.run(widen.bind(json(&missing))).await?;
        }
        let charge = query(include_str!("reserve_charge.sql")).bind(json(&charges));
        tx.db.run(charge.bind(json(&visits.drained))).await?;
        tx.dirty = true;
        free -= visits.not_quick;
        if visits.taken.is_empty() && visits.drained.is_empty() {
            break;
        }
        taken.extend(visits.taken);
    }
    Ok(taken)
}

/// Reads what is held under the request's nonce. A row that cannot be read is parked, and the rest
/// is delivered.
async fn deliver(
    tx: &mut Tx<'_>,
    request: &Reserve,
    jobs: String,
) -> std::result::Result<Vec<Delivery>, Fault> {
    let fetch = query(include_str!("reserve_fetch.sql")).bind(jobs).bind(request.nonce_of().0);
    let (mut deliveries, mut moves) = (Vec::new(), Moves::default());
    for row in tx.db.all(fetch).await? {
        match delivery(&row, request) {
            Ok(delivery) => deliveries.push(delivery),
            Err(fault) => {
                let error = fault.into_error("reserve");
                tracing::error!(%error, "a job that cannot be read is parked");
                let cause = format!("the stored job cannot be read: {error}").into();
                if let Some(run) = Run::of(tx, get(&row, 0)?).await? {
                    let outcome = Outcome::Park { cause };
                    moves.settle(&run, &outcome, OutcomeKind::Park, tx.now);
                }
            }
        }
    }
    moves.write(tx).await?;
    Ok(deliveries)
}

fn delivery(row: &Row, request: &Reserve) -> std::result::Result<Delivery, Fault> {
    let job = row::job(row, 5, get(row, 3)?)?;
    let claim = Claim { job: job.job_ref(), fence: get(row, 1)?, nonce: request.nonce_of() };
    let suspect = get::<i64>(row, 4)? > 0;
    Ok(Delivery { claim, job, attempt: small(get(row, 2)?), suspect })
}
