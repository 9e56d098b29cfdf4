//! Reserve (R1–R8).
//!
//! Start-time fair queueing (Goyal, Vin, Cheng, SIGCOMM 1996): a visit to a lane starts at the
//! later of the lane's own virtual time and the queue's, costs its deliveries divided by the
//! lane's weight, and the lane with the earliest start is next. Idleness earns nothing.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use async_trait::async_trait;
use jobs_core::{
    Claim, Outcome, OutcomeKind, Result, Settled, Settlement,
    queue::{Delivery, LANE_BATCH, Reserve, Reserved},
    time::after,
};
use sqlx::{query, sqlite::SqliteRow};

use super::settle;
use crate::{
    error::Fault,
    moves::{Moves, Run},
    row::{self, get, small},
    tx::{Tx, json},
    writer::{Write, Writer},
};

/// One delivery's cost at weight 1.
const UNIT: i64 = 1 << 20;
/// Scheduled jobs that one reserve promotes.
const PROMOTED: i64 = 1000;
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
    let Some(found) = tx.db.first(look).await? else { return Ok(Reserved::default()) };
    let queue: i64 = get(&found, 0)?;
    let until = after(tx.now, request.leased_for().length());
    if let Some(jobs) = get::<Option<String>>(&found, 5)? {
        let extend = query(include_str!("reserve_extend.sql")).bind(&jobs);
        let extend = extend.bind(request.nonce_of().0).bind(tx.now).bind(until);
        tx.dirty |= tx.db.run(extend).await? > 0;
        return Ok(Reserved { deliveries: deliver(tx, request, jobs).await?, next_due: None });
    }
    if get::<i64>(&found, 3)? > 0 {
        promote(tx, queue).await?;
    }
    if get::<i64>(&found, 4)? > 0 {
        resume(tx, queue).await?;
    }
    let mut taken = Vec::new();
    if get::<i64>(&found, 2)? <= tx.now {
        taken = take(tx, request, queue, get(&found, 1)?, until).await?;
    }
    let mut reserved = Reserved::default();
    if !taken.is_empty() {
        let jobs = json(&taken);
        let remember = query(include_str!("reserve_remember.sql"));
        let remember = remember.bind(request.nonce_of().0).bind(tx.now).bind(&jobs);
        tx.db.run(remember).await?;
        reserved.deliveries = deliver(tx, request, jobs).await?;
    }
    if taken.len() < request.most() {
        let next = query(include_str!("reserve_next.sql")).bind(queue);
        let next = tx.db.first(next.bind(json(request.names()))).await?;
        let next = next.map_or(Ok(None), |row| get::<Option<i64>>(&row, 0))?;
        let wait = next.map(|due| (due - tx.now).clamp(0, HOUR));
        reserved.next_due = wait.map(|wait| Duration::from_millis(wait.unsigned_abs()));
    }
    Ok(reserved)
}

async fn promote(tx: &mut Tx<'_>, queue: i64) -> std::result::Result<(), Fault> {
    let promote = query(include_str!("reserve_promote.sql")).bind(queue);
    let rows = tx.db.all(promote.bind(tx.now).bind(PROMOTED)).await?;
    let sublanes: std::result::Result<BTreeSet<i64>, _> =
        rows.iter().map(|row| get(row, 0)).collect();
    tx.db.run(query(include_str!("ring.sql")).bind(json(&sublanes?))).await?;
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
    mut now: i64,
    until: i64,
) -> std::result::Result<Vec<i64>, Fault> {
    let (mut taken, mut free, mut lanes) = (Vec::new(), request.free_slots(), 1);
    let before = now;
    while taken.len() < request.most() {
        let wish = Wish { most: request.most() - taken.len(), anything: free, request };
        lanes = (2 * lanes).max(wish.most / LANE_BATCH + 2);
        let mut round = Round::look(tx, &wish, queue, now, lanes).await?;
        if round.lanes.is_empty() {
            break;
        }
        let visits = round.visit(&wish);
        if !visits.taken.is_empty() {
            let take = query(include_str!("reserve_take.sql")).bind(json(&visits.taken));
            let take = take.bind(request.nonce_of().0).bind(tx.now).bind(until);
            tx.db.run(take.bind(request.worker())).await?;
        }
        if !visits.started.is_empty() {
            let free = query(include_str!("free_keys.sql")).bind(json(&visits.started));
            tx.db.run(free).await?;
        }
        let charge = query(include_str!("reserve_charge.sql")).bind(json(&round.charges()));
        tx.db.run(charge.bind(json(&visits.drained))).await?;
        tx.dirty = true;
        now = round.now;
        free -= visits.not_quick;
        if visits.taken.is_empty() && visits.drained.is_empty() {
            break;
        }
        taken.extend(visits.taken);
    }
    if now > before {
        tx.db.run(query(include_str!("reserve_turn.sql")).bind(queue).bind(now)).await?;
    }
    Ok(taken)
}

/// What a round may still take.
struct Wish<'a> {
    most: usize,
    anything: usize,
    request: &'a Reserve,
}

struct Head {
    place: (i64, i64, Vec<u8>),
    job: i64,
    keyed: i64,
}

/// One sublane's heads, in order.
struct Line {
    sublane: i64,
    quick: bool,
    heads: std::collections::VecDeque<Head>,
    /// The heads are all there is.
    whole: bool,
}

struct Lane {
    vt: i64,
    weight: i64,
    lines: Vec<Line>,
}

struct Round {
    now: i64,
    lanes: BTreeMap<i64, Lane>,
    /// Lanes beyond the ones looked at start here.
    horizon: i64,
}

#[derive(Default)]
struct Visits {
    taken: Vec<i64>,
    /// Held a key until started.
    started: Vec<i64>,
    not_quick: usize,
    drained: Vec<i64>,
}

impl Round {
    async fn look(
        tx: &mut Tx<'_>,
        wish: &Wish<'_>,
        queue: i64,
        now: i64,
        most: usize,
    ) -> std::result::Result<Self, Fault> {
        let any = wish.anything > 0;
        let names = json(if any { wish.request.names() } else { wish.request.quick() });
        let (suspects, bound) = (i64::from(any), i64::try_from(most).unwrap_or(i64::MAX));
        let look = query(include_str!("reserve_lanes.sql")).bind(queue);
        let rows = tx.db.all(look.bind(&names).bind(suspects).bind(bound)).await?;
        let (mut lanes, mut horizon) = (BTreeMap::new(), i64::MAX);
        for row in &rows {
            let (vt, weight) = (get(row, 1)?, get::<i64>(row, 2)?.clamp(1, 100));
            lanes.insert(get(row, 0)?, Lane { vt, weight, lines: Vec::new() });
            if rows.len() == most {
                horizon = vt;
            }
        }
        if lanes.is_empty() {
            return Ok(Self { now, lanes, horizon });
        }
        // A lone lane gives everything, one of many a share and a visit.
        let shares: i64 = lanes.values().map(|lane| lane.weight).sum();
        let heaviest = lanes.values().map(|lane| lane.weight).max().unwrap_or(1);
        let all = i64::try_from(wish.most).unwrap_or(i64::MAX);
        let share = all.saturating_mul(heaviest) / shares + 2 * LANE_BATCH as i64;
        let cap = if lanes.len() == 1 { all } else { share.min(all) };
        let heads = query(include_str!("reserve_candidates.sql"));
        let heads = heads.bind(json(&lanes.keys().collect::<Vec<_>>())).bind(&names);
        let quick = json(if wish.request.held_ahead() > 0 { wish.request.quick() } else { &[] });
        for row in tx.db.all(heads.bind(suspects).bind(cap).bind(quick)).await? {
            let (lane, sublane) = (get::<i64>(&row, 0)?, get::<i64>(&row, 1)?);
            let Some(lane) = lanes.get_mut(&lane) else { continue };
            if lane.lines.last().is_none_or(|line| line.sublane != sublane) {
                let quick = get::<i64>(&row, 2)? > 0;
                lane.lines.push(Line { sublane, quick, heads: Default::default(), whole: true });
            }
            if let (Some(job), Some(line)) = (get(&row, 3)?, lane.lines.last_mut()) {
                let place = (get(&row, 4)?, get(&row, 5)?, get(&row, 6)?);
                line.heads.push_back(Head { place, job, keyed: get(&row, 7)? });
                line.whole = line.heads.len() < usize::try_from(cap).unwrap_or(usize::MAX);
            }
        }
        for lane in lanes.values_mut() {
            for line in &mut lane.lines {
                line.heads.make_contiguous().sort_by(|a, b| a.place.cmp(&b.place));
            }
        }
        Ok(Self { now, lanes, horizon })
    }

    /// Visits lanes in order of their start, until the wish is filled or what was looked at does
    /// not tell who is next.
    fn visit(&mut self, wish: &Wish<'_>) -> Visits {
        let mut visits = Visits::default();
        let mut free = wish.anything;
        while visits.taken.len() < wish.most {
            let open = self.lanes.iter().filter(|(_, lane)| lane.next(free).is_some());
            let mut open: Vec<(i64, i64)> = open.map(|(lane, at)| (at.vt, *lane)).collect();
            open.sort_unstable();
            let Some(&(vt, number)) = open.first() else { break };
            if vt > self.horizon {
                break;
            }
            let Some(lane) = self.lanes.get_mut(&number) else { break };
            let lone = open.len() == 1 && self.horizon == i64::MAX;
            let visit = if lone { usize::MAX } else { LANE_BATCH };
            let (start, before) = (vt.max(self.now), visits.taken.len());
            let mut unknown = false;
            while visits.taken.len() < wish.most
                && visits.taken.len() - before < visit
                && let Some(at) = lane.next(free)
                && let Some(head) = lane.lines[at].heads.pop_front()
            {
                let line = &lane.lines[at];
                if !line.quick {
                    free -= 1;
                    visits.not_quick += 1;
                }
                if head.keyed == 2 {
                    visits.started.push(head.job);
                }
                visits.taken.push(head.job);
                if line.heads.is_empty() && !line.whole {
                    // What comes next in this lane was not looked at.
                    unknown = true;
                    break;
                }
            }
            let cost = |taken: usize| taken as i64 * UNIT / lane.weight;
            lane.vt = start + cost(visits.taken.len() - before);
            // A lane alone is visited for longer than a batch; time goes on with it, or whoever
            // comes next would have the length of that visit as credit.
            self.now = start.max(lane.vt - cost(LANE_BATCH));
            if unknown {
                break;
            }
        }
        let lines = self.lanes.values().flat_map(|lane| &lane.lines);
        let drained = lines.filter(|line| line.heads.is_empty() && line.whole);
        visits.drained = drained.map(|line| line.sublane).collect();
        visits
    }

    fn charges(&self) -> Vec<(i64, i64)> {
        self.lanes.iter().map(|(number, lane)| (*number, lane.vt)).collect()
    }
}

impl Lane {
    /// The line whose head is next, among those that may be taken.
    fn next(&self, free: usize) -> Option<usize> {
        let may = |line: &&(usize, &Line)| line.1.quick || free > 0;
        let lines = self.lines.iter().enumerate().collect::<Vec<_>>();
        let heads =
            lines.iter().filter(may).filter_map(|(at, line)| Some((line.heads.front()?, at)));
        heads.min_by(|a, b| a.0.place.cmp(&b.0.place)).map(|(_, at)| *at)
    }
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

fn delivery(row: &SqliteRow, request: &Reserve) -> std::result::Result<Delivery, Fault> {
    let job = row::job(row, 5, get(row, 3)?)?;
    let claim = Claim { job: job.job_ref(), fence: get(row, 1)?, nonce: request.nonce_of() };
    let suspect = get::<i64>(row, 4)? > 0;
    Ok(Delivery { claim, job, attempt: small(get(row, 2)?), suspect })
}
