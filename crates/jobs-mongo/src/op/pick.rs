//! Who is next: lanes in turn, and in a lane by priority, due time and id (R4, R5), decided on what
//! was read of the lines.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use jobs_core::queue::{LANE_BATCH, Reserve};

use crate::frontier::{Known, Line};

/// A job in line: due, then id.
pub(crate) type Head = (i64, String);

/// What was read of one line.
#[derive(Clone, Debug, Default)]
pub(crate) struct Read {
    pub heads: Vec<Head>,
    /// When the first that was there is due, whether it is among them or not.
    pub first: Option<i64>,
    /// There may be more behind them.
    pub more: bool,
}

/// What the decision came to.
pub(crate) enum Decision {
    /// These, in this order. Turns are charged in what is known.
    Take(Vec<(Line, Head)>),
    /// More has to be read of these lines.
    Look(BTreeSet<Line>),
}

/// What is still wanted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wish<'r> {
    pub request: &'r Reserve,
    pub most: usize,
    /// Of these, jobs that may not be held ahead.
    pub anything: usize,
}

impl<'r> Wish<'r> {
    pub fn of(request: &'r Reserve) -> Self {
        Self { request, most: request.most(), anything: request.free_slots() }
    }

    pub fn may(&self, line: &Line) -> bool {
        let ahead = self.request.may_hold_ahead(&line.name, line.suspect);
        let knows = self.request.names().binary_search(&line.name).is_ok();
        self.most > 0 && knows && (self.anything > 0 || ahead)
    }

    pub fn took(&mut self, name: &str, suspect: bool) {
        self.most = self.most.saturating_sub(1);
        if !self.request.may_hold_ahead(name, suspect) {
            self.anything = self.anything.saturating_sub(1);
        }
    }
}

/// Lines read at once when more have to be.
const READ_AHEAD: usize = 64;

/// The lanes with admitted lines that are not paused, with these lines.
type Lanes<'k> = BTreeMap<&'k str, Vec<&'k Line>>;

pub(crate) fn lanes<'k>(known: &'k Known, wish: &Wish, now: i64) -> Lanes<'k> {
    let mut lanes = Lanes::new();
    for line in known.lines.keys().filter(|line| line.ready && wish.may(line)) {
        lanes.entry(&line.tenant).or_default().push(line);
    }
    lanes.retain(|tenant, _| known.settings.paused_until(tenant, now).is_none());
    lanes
}

/// The lines to read first: all of the lanes that are next, a few more than are visited.
pub(crate) fn first(known: &Known, wish: &Wish, now: i64) -> (BTreeSet<Line>, usize) {
    let lanes = lanes(known, wish, now);
    if lanes.len() == 1 {
        return (lanes.into_values().flatten().cloned().collect(), wish.most);
    }
    let mut turns: Vec<_> = lanes
        .iter()
        .map(|(tenant, lines)| (known.turns.turn(tenant, names(lines)), *tenant))
        .collect();
    turns.sort_unstable();
    let visits = wish.most.div_ceil(LANE_BATCH) + 1;
    let rounds = visits.div_ceil(turns.len().max(1));
    let chosen = turns.iter().take(visits).filter_map(|(_, tenant)| lanes.get(tenant));
    let lines = chosen.flatten().map(|line| (*line).clone()).collect();
    (lines, (LANE_BATCH * rounds).min(wish.most.max(1)))
}

fn names<'l>(lines: &[&'l Line]) -> impl Iterator<Item = &'l str> {
    let names: HashSet<_> = lines.iter().map(|line| line.name.as_str()).collect();
    names.into_iter()
}

/// A lane on the way of a decision: its lines, and how far each is taken.
struct Open<'k> {
    tenant: &'k str,
    lines: Vec<(&'k Line, usize)>,
}

impl<'k> Open<'k> {
    /// The names of its lines that have work as far as is known: one that was not read is believed
    /// to have some.
    fn names(&self, read: &HashMap<Line, Read>, wish: &Wish) -> Vec<&'k str> {
        let mut names = Vec::new();
        for (line, at) in &self.lines {
            let name = line.name.as_str();
            if wish.may(line) && !is_over(read.get(*line), *at) && !names.contains(&name) {
                names.push(name);
            }
        }
        names
    }

    /// Its first job, or the lines that have to be read before that is known.
    fn head(
        &self,
        read: &HashMap<Line, Read>,
        wish: &Wish,
    ) -> Result<Option<(usize, Head)>, BTreeSet<Line>> {
        let mut least: Option<(usize, &Line, &Head)> = None;
        let mut unread = Vec::new();
        for (place, (line, at)) in self.lines.iter().enumerate() {
            if !wish.may(line) {
                continue;
            }
            match read.get(*line).map(|read| (read.heads.get(*at), read.more)) {
                Some((Some(head), _)) => {
                    let before = |(_, other, first): &(usize, &Line, &Head)| {
                        (&line.rank, head) < (&other.rank, *first)
                    };
                    if least.as_ref().is_none_or(before) {
                        least = Some((place, line, head));
                    }
                }
                Some((None, false)) => {}
                Some((None, true)) | None => unread.push(*line),
            }
        }
        // What is not read could only come first at the same or a higher priority.
        unread.retain(|line| least.as_ref().is_none_or(|(_, first, _)| line.rank <= first.rank));
        if unread.is_empty() {
            return Ok(least.map(|(place, _, head)| (place, head.clone())));
        }
        Err(unread.into_iter().cloned().collect())
    }
}

/// Was it read to its end?
fn is_over(read: Option<&Read>, at: usize) -> bool {
    read.is_some_and(|read| at >= read.heads.len() && !read.more)
}

/// Visits lanes, the least lag first, until the wish is filled.
pub(crate) fn decide(
    known: &mut Known,
    mut wish: Wish,
    now: i64,
    read: &HashMap<Line, Read>,
) -> Decision {
    let mut turns = known.turns.clone();
    let mut picked = Vec::new();
    let mut open = Vec::new();
    for (tenant, lines) in lanes(known, &wish, now) {
        open.push(Open { tenant, lines: lines.into_iter().map(|line| (line, 0)).collect() });
    }
    let mut lanes = open;
    while wish.most > 0 {
        let mut contested = BTreeSet::new();
        let mut order = Vec::new();
        for (place, lane) in lanes.iter().enumerate() {
            let names = lane.names(read, &wish);
            if !names.is_empty() {
                order.push((turns.turn(lane.tenant, names.iter().copied()), place));
                contested.extend(names);
            }
        }
        let Some((turn, place)) = order.iter().min().copied() else { break };
        let visit = if order.len() > 1 { LANE_BATCH } else { usize::MAX };
        let lane = &mut lanes[place];
        let mut count = 0;
        while count < visit && wish.most > 0 {
            let (at, head) = match lane.head(read, &wish) {
                Ok(Some(first)) => first,
                Ok(None) => break,
                // And those of the lanes that come after it, or each would be a round trip.
                Err(mut unread) => {
                    order.sort_unstable();
                    for (_, place) in order {
                        if unread.len() >= READ_AHEAD {
                            break;
                        }
                        unread.extend(lanes[place].head(read, &wish).err().into_iter().flatten());
                    }
                    return Decision::Look(unread);
                }
            };
            let (line, taken) = &mut lane.lines[at];
            wish.took(&line.name, line.suspect);
            *taken += 1;
            picked.push(((*line).clone(), head));
            count += 1;
        }
        if order.len() > 1 {
            let contested: Vec<&str> = contested.into_iter().collect();
            let weight = known.settings.weight(lane.tenant);
            turns.charge(lane.tenant, &contested, turn, count, weight);
        }
        if count == 0 {
            break;
        }
    }
    known.turns = turns;
    Decision::Take(picked)
}
