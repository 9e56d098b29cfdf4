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

/// Where a job stands in its line: rank, due, id, number.
type Stand = (i64, i64, Vec<u8>, i64);

struct Head {
    stand: Stand,
    keyed: i64,
}

/// One sublane's next jobs, read as they are needed.
struct Line {
    sublane: i64,
    /// Which of the contested names.
    name: usize,
    quick: bool,
    heads: VecDeque<Head>,
    /// What was read so far ends here.
    read: Stand,
    /// The last that was taken.
    taken: Option<Stand>,
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
            round.lines(tx, wish, suspects).await?;
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

    /// The lines of the lanes looked at, each with its first jobs.
    async fn lines(
        &mut self,
        tx: &mut Tx<'_>,
        wish: &Wish<'_>,
        suspects: i64,
    ) -> Result<(), Fault> {
        let lanes = &mut self.lanes;
        let lines = query(include_str!("reserve_lines.sql"));
        let lines = lines.bind(json(&lanes.keys().collect::<Vec<_>>()));
        let names: Vec<_> = self.names.iter().map(|name| &name.name).collect();
        let quick = json(if wish.request.held_ahead() > 0 { wish.request.quick() } else { &[] });
        let lines = lines.bind(json(&names)).bind(suspects).bind(quick);
        for row in tx.db.all(lines).await? {
            let Some(lane) = lanes.get_mut(&get(&row, 0)?) else { continue };
            let name = usize::try_from(get::<i64>(&row, 3)?).unwrap_or(usize::MAX);
            lane.charges.insert(name, Charge { finish: get(&row, 4)?, visited: get(&row, 5)? });
            if get::<i64>(&row, 6)? > 0 {
                lane.lines.push(Line::new(get(&row, 1)?, name, get::<i64>(&row, 2)? > 0));
            }
        }
        // A lone lane gives everything, one of many a visit.
        let visit = if lanes.len() == 1 { wish.most } else { LANE_BATCH };
        for lane in lanes.values_mut() {
            let most = visit.div_ceil(lane.lines.len().max(1)) + 1;
            for line in &mut lane.lines {
                line.read_on(tx, most).await?;
            }
        }
        Ok(())
    }

    /// Visits lanes in turn, until the wish is filled or what was looked at does not tell who is
    /// next.
    pub async fn visit(&mut self, tx: &mut Tx<'_>, wish: &Wish<'_>) -> Result<Visits, Fault> {
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
            let left = wish.most - visits.taken.len();
            let most = if lone { left } else { LANE_BATCH.min(left) };
            let Some(lane) = self.lanes.get_mut(&number) else { break };
            let before = visits.taken.len();
            while visits.taken.len() - before < most
                && let Some(at) = lane.next(free)
                && let Some(head) = lane.lines[at].heads.pop_front()
            {
                let line = &mut lane.lines[at];
                if !line.quick {
                    free -= 1;
                    visits.not_quick += 1;
                }
                if head.keyed == 2 {
                    visits.started.push(head.stand.3);
                }
                visits.taken.push(head.stand.3);
                line.taken = Some(head.stand);
                if line.heads.is_empty() {
                    line.read_on(tx, (most + before - visits.taken.len()).max(LANE_BATCH)).await?;
                }
            }
            lane.charge(&mut self.names, lag, visits.taken.len() - before, tx.now);
        }
        let lines = || self.lanes.values().flat_map(|lane| &lane.lines);
        for (line, (rank, due, id, job)) in lines().filter_map(|l| Some((l, l.taken.as_ref()?))) {
            let leave = query(include_str!("reserve_leave.sql")).bind(line.sublane);
            tx.db.run(leave.bind(*rank).bind(*due).bind(id).bind(*job)).await?;
        }
        visits.drained = lines().filter(|line| line.drained()).map(|line| line.sublane).collect();
        Ok(visits)
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
        let open = self.open(free).filter_map(|(at, line)| Some((&line.heads.front()?.stand, at)));
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
    fn new(sublane: i64, name: usize, quick: bool) -> Self {
        let read = (i64::MIN, i64::MIN, Vec::new(), i64::MIN);
        Self { sublane, name, quick, heads: VecDeque::new(), read, taken: None, whole: false }
    }

    /// Reads its next jobs.
    async fn read_on(&mut self, tx: &mut Tx<'_>, most: usize) -> Result<(), Fault> {
        if self.whole {
            return Ok(());
        }
        let (rank, due, id, job) = &self.read;
        let heads = query(include_str!("reserve_heads.sql")).bind(self.sublane).bind(*rank);
        let heads = heads.bind(*due).bind(id).bind(*job);
        let rows = tx.db.all(heads.bind(i64::try_from(most).unwrap_or(i64::MAX))).await?;
        for row in &rows {
            let stand = (get(row, 0)?, get(row, 1)?, get(row, 2)?, get(row, 3)?);
            self.heads.push_back(Head { stand, keyed: get(row, 4)? });
        }
        self.whole = rows.len() < most;
        if let Some(last) = self.heads.back() {
            self.read = last.stand.clone();
        }
        Ok(())
    }

    fn drained(&self) -> bool {
        self.heads.is_empty() && self.whole
    }
}
