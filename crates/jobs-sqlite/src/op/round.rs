//! Who is next (R4, R5): one look at the lanes with work, and the visits that it decides.
//!
//! Start-time fair queueing (Goyal, Vin, Cheng, SIGCOMM 1996), by name: each name has a virtual
//! now, and each lane a finish and its last visit at each name. A lane is ahead of a name's now by
//! its *lag* there; next is the lane with the least lag among its names with work, then the one
//! longest without a visit there. A visit is charged at every *contested* name, those the request
//! knows and somebody has work of, and moves their now. Idleness earns nothing. The contract's
//! model, whose `lanes.rs` is this without a database, says why that is fair.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use jobs_core::queue::{LANE_BATCH, Reserve};

use crate::{
    db::query,
    error::Fault,
    row::get,
    tx::{Tx, json},
};

/// One delivery's cost at weight 1.
const UNIT: i64 = 1 << 20;

/// What a round may still take.
pub(super) struct Wish<'a> {
    pub most: usize,
    pub anything: usize,
    pub request: &'a Reserve,
}

struct Head {
    place: (i64, i64, Vec<u8>),
    job: i64,
    keyed: i64,
}

/// One sublane's heads, in order.
struct Line {
    sublane: i64,
    /// Which of the contested names.
    name: usize,
    quick: bool,
    heads: VecDeque<Head>,
    /// The heads are all there is.
    whole: bool,
}

/// A contested name.
struct Name {
    name: String,
    now: i64,
    /// Its clock is stored already.
    stored: bool,
    /// Lanes beyond the ones looked at finish here or later.
    horizon: i64,
}

impl Name {
    fn lag(&self, finish: i64) -> i64 {
        finish.saturating_sub(self.now).max(0)
    }
}

#[derive(Clone, Copy, Default)]
struct Charge {
    finish: i64,
    visited: i64,
}

struct Lane {
    weight: i64,
    /// By contested name. Missing where the lane never had a job of it and was never charged.
    charges: BTreeMap<usize, Charge>,
    lines: Vec<Line>,
    /// Names it was charged at without having a row there.
    missing: BTreeSet<usize>,
    visited: bool,
}

/// The lanes looked at.
pub(super) struct Round {
    names: Vec<Name>,
    lanes: BTreeMap<i64, Lane>,
}

/// A row that has to be made: lane, name.
type Missing<'a> = (i64, &'a str);
/// What is charged: lane, name, virtual time, last visit.
type Charged<'a> = (i64, &'a str, i64, i64);

/// What a round took.
#[derive(Default)]
pub(super) struct Visits {
    pub taken: Vec<i64>,
    /// Held a key until started.
    pub started: Vec<i64>,
    pub not_quick: usize,
    pub drained: Vec<i64>,
}

impl Round {
    /// Looks at up to `most` lanes, the ones that are next.
    pub async fn look(
        tx: &mut Tx<'_>,
        wish: &Wish<'_>,
        queue: i64,
        most: usize,
    ) -> Result<Self, Fault> {
        let any = wish.anything > 0;
        let known = if any { wish.request.names() } else { wish.request.quick() };
        let (suspects, bound) = (i64::from(any), i64::try_from(most).unwrap_or(i64::MAX));
        let look = query(include_str!("reserve_lanes.sql")).bind(queue);
        let rows = tx.db.all(look.bind(json(known)).bind(suspects).bind(bound)).await?;
        let (mut names, mut lanes) = (BTreeMap::new(), BTreeMap::<i64, Lane>::new());
        for row in &rows {
            let at = usize::try_from(get::<i64>(row, 0)?).unwrap_or(usize::MAX);
            let (lane, finish) = (get::<i64>(row, 1)?, get::<i64>(row, 2)?);
            let now = get::<Option<i64>>(row, 4)?;
            let (_, seen, last) = names.entry(at).or_insert((now, 0, finish));
            (*seen, *last) = (*seen + 1, finish.max(*last));
            let weight = get::<i64>(row, 5)?.clamp(1, 100);
            let (charges, lines) = (BTreeMap::new(), Vec::new());
            let lane = lanes.entry(lane);
            let missing = BTreeSet::new();
            let lane = lane.or_insert(Lane { weight, charges, lines, missing, visited: false });
            lane.charges.insert(at, Charge { finish, visited: get(row, 3)? });
        }
        let number: BTreeMap<usize, usize> = names.keys().copied().zip(0..).collect();
        let name = |(at, (now, seen, last)): (usize, (Option<i64>, usize, i64))| Name {
            name: known.get(at).cloned().unwrap_or_default(),
            now: now.unwrap_or_default(),
            stored: now.is_some(),
            horizon: if seen == 2 * most { last } else { i64::MAX },
        };
        let names = names.into_iter().map(name).collect();
        for lane in lanes.values_mut() {
            let charges = std::mem::take(&mut lane.charges).into_iter();
            lane.charges = charges.filter_map(|(at, c)| Some((*number.get(&at)?, c))).collect();
        }
        let mut round = Self { names, lanes };
        round.keep_first(most);
        if !round.lanes.is_empty() {
            round.heads(tx, wish, suspects).await?;
        }
        Ok(round)
    }

    /// Nobody has work?
    pub fn is_empty(&self) -> bool {
        self.lanes.is_empty()
    }

    /// Leaves out all but the lanes that are next.
    fn keep_first(&mut self, most: usize) {
        let turn = |lane: &Lane| {
            let at = lane.charges.iter();
            at.map(|(at, charge)| (self.names[*at].lag(charge.finish), charge.visited)).min()
        };
        let mut turns: Vec<_> = self.lanes.iter().map(|(at, lane)| (turn(lane), *at)).collect();
        turns.sort_unstable();
        for (_, lane) in turns.into_iter().skip(most) {
            for (at, charge) in
                self.lanes.remove(&lane).map(|lane| lane.charges).unwrap_or_default()
            {
                let horizon = &mut self.names[at].horizon;
                *horizon = charge.finish.min(*horizon);
            }
        }
    }

    async fn heads(
        &mut self,
        tx: &mut Tx<'_>,
        wish: &Wish<'_>,
        suspects: i64,
    ) -> Result<(), Fault> {
        let lanes = &mut self.lanes;
        // A lone lane gives everything, one of many a share and a visit.
        let shares: i64 = lanes.values().map(|lane| lane.weight).sum();
        let heaviest = lanes.values().map(|lane| lane.weight).max().unwrap_or(1);
        let all = i64::try_from(wish.most).unwrap_or(i64::MAX);
        let share = all.saturating_mul(heaviest) / shares.max(1) + 2 * LANE_BATCH as i64;
        let cap = if lanes.len() == 1 { all } else { share.min(all) };
        let heads = query(include_str!("reserve_candidates.sql"));
        let heads = heads.bind(json(&lanes.keys().collect::<Vec<_>>()));
        let names: Vec<_> = self.names.iter().map(|name| &name.name).collect();
        let quick = json(if wish.request.held_ahead() > 0 { wish.request.quick() } else { &[] });
        let heads = heads.bind(json(&names)).bind(suspects).bind(cap).bind(quick);
        for row in tx.db.all(heads).await? {
            let (lane, sublane) = (get::<i64>(&row, 0)?, get::<i64>(&row, 1)?);
            let Some(lane) = lanes.get_mut(&lane) else { continue };
            let name = usize::try_from(get::<i64>(&row, 8)?).unwrap_or(usize::MAX);
            lane.charges.insert(name, Charge { finish: get(&row, 9)?, visited: get(&row, 10)? });
            if get::<i64>(&row, 11)? == 0 {
                continue;
            }
            if lane.lines.last().is_none_or(|line| line.sublane != sublane) {
                let (quick, heads) = (get::<i64>(&row, 2)? > 0, VecDeque::new());
                lane.lines.push(Line { sublane, name, quick, heads, whole: true });
            }
            if let (Some(job), Some(line)) = (get(&row, 3)?, lane.lines.last_mut()) {
                let place = (get(&row, 4)?, get(&row, 5)?, get(&row, 6)?);
                line.heads.push_back(Head { place, job, keyed: get(&row, 7)? });
                line.whole = line.heads.len() < usize::try_from(cap).unwrap_or(usize::MAX);
            }
        }
        for line in lanes.values_mut().flat_map(|lane| &mut lane.lines) {
            line.heads.make_contiguous().sort_by(|a, b| a.place.cmp(&b.place));
        }
        Ok(())
    }

    /// Visits lanes in turn, until the wish is filled or what was looked at does not tell who is
    /// next.
    pub fn visit(&mut self, wish: &Wish<'_>, clock: i64) -> Visits {
        let mut visits = Visits::default();
        let mut free = wish.anything;
        while visits.taken.len() < wish.most {
            let turn =
                |(number, lane): (&i64, &Lane)| Some((lane.turn(&self.names, free)?, *number));
            let mut open: Vec<_> = self.lanes.iter().filter_map(turn).collect();
            open.sort_unstable();
            let Some(&((lag, _), number)) = open.first() else { break };
            let looked = |name: &Name| name.horizon == i64::MAX;
            if self.names.iter().any(|name| !looked(name) && lag > name.lag(name.horizon)) {
                break;
            }
            let lone = open.len() == 1 && self.names.iter().all(looked);
            let visit = if lone { usize::MAX } else { LANE_BATCH };
            let before = visits.taken.len();
            let Some(lane) = self.lanes.get_mut(&number) else { break };
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
            lane.charge(&mut self.names, lag, visits.taken.len() - before, clock);
            if unknown {
                break;
            }
        }
        let lines = self.lanes.values().flat_map(|lane| &lane.lines);
        visits.drained = lines.filter(|line| line.drained()).map(|line| line.sublane).collect();
        visits
    }

    /// The rows that have to be made first, and what each lane and name is charged. A name's clock
    /// is the row of a lane whose number is the queue's, negated.
    pub fn charges(&self, queue: i64) -> (Vec<Missing<'_>>, Vec<Charged<'_>>) {
        let (mut missing, mut charges) = (Vec::new(), Vec::new());
        for name in &self.names {
            if !name.stored {
                missing.push((-queue, name.name.as_str()));
            }
            charges.push((-queue, name.name.as_str(), name.now, 0));
        }
        let touched = |lane: &Lane| lane.visited || lane.lines.iter().any(Line::drained);
        for (number, lane) in self.lanes.iter().filter(|(_, lane)| touched(lane)) {
            let name = |at: &usize| self.names[*at].name.as_str();
            missing.extend(lane.missing.iter().map(|at| (*number, name(at))));
            let charge = |(at, of): (&usize, &Charge)| (*number, name(at), of.finish, of.visited);
            charges.extend(lane.charges.iter().map(charge));
        }
        (missing, charges)
    }
}

impl Lane {
    /// The line whose head is next, among those that may be taken.
    fn next(&self, free: usize) -> Option<usize> {
        let open = self.open(free).filter_map(|(at, line)| Some((&line.heads.front()?.place, at)));
        open.min().map(|(_, at)| at)
    }

    fn open(&self, free: usize) -> impl Iterator<Item = (usize, &Line)> {
        let may = move |(_, line): &(usize, &Line)| line.quick || free > 0;
        self.lines.iter().enumerate().filter(may)
    }

    /// Its least lag among the names that it has work of, and its last visit there.
    fn turn(&self, names: &[Name], free: usize) -> Option<(i64, i64)> {
        let work = self.open(free).filter(|(_, line)| !line.heads.is_empty());
        let at = work.map(|(_, line)| {
            let charge = self.charges.get(&line.name).copied().unwrap_or_default();
            (names[line.name].lag(charge.finish), charge.visited)
        });
        at.min()
    }

    /// Charges a visit that began with this lag, and lets time go on.
    fn charge(&mut self, names: &mut [Name], lag: i64, taken: usize, clock: i64) {
        self.visited = true;
        let cost = |taken: usize| taken as i64 * UNIT / self.weight;
        for (at, name) in names.iter_mut().enumerate() {
            let known = self.charges.get(&at).copied();
            if known.is_none() {
                self.missing.insert(at);
            }
            let start = known.unwrap_or_default().finish.max(name.now);
            let finish = start + cost(taken);
            self.charges.insert(at, Charge { finish, visited: clock });
            // A lane alone is visited for longer than a batch; time goes on with it, or whoever
            // comes next would have the length of that visit as credit.
            name.now = (name.now + lag).max(start).max(finish - cost(LANE_BATCH));
        }
    }
}

impl Line {
    fn drained(&self) -> bool {
        self.heads.is_empty() && self.whole
    }
}
