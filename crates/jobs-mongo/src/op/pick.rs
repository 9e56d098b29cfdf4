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

/// The lanes with admitted lines that are not paused, with these lines.
type Lanes<'k> = BTreeMap<&'k str, Vec<&'k Line>>;

pub(crate) fn lanes<'k>(known: &'k Known, wish: &Wish, now: i64) -> Lanes<'k> {
    let mut lanes = Lanes::new();
    for line in known.lines.keys().filter(|line| wish.may(line)) {
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

/// Visits lanes, the least lag first, until the wish is filled.
pub(crate) fn decide(
    known: &mut Known,
    mut wish: Wish,
    now: i64,
    read: &HashMap<Line, Read>,
) -> Decision {
    let mut turns = known.turns.clone();
    let mut taken = HashMap::<Line, usize>::new();
    let mut picked = Vec::new();
    let rest = |line: &Line, taken: &HashMap<Line, usize>| {
        let from = taken.get(line).copied().unwrap_or_default();
        let read = read.get(line)?;
        Some((read.heads.get(from).cloned(), read.more))
    };
    loop {
        // A line that was not read is believed to have work; one that was read to its end has none.
        let mut open = lanes(known, &wish, now);
        for lines in open.values_mut() {
            lines.retain(|line| !matches!(rest(line, &taken), Some((None, false))));
        }
        open.retain(|_, lines| !lines.is_empty());
        let turn = |(tenant, lines): &(&&str, &Vec<&Line>)| turns.turn(tenant, names(lines));
        let Some((tenant, lines)) = open.iter().min_by_key(turn) else { break };
        let (tenant, mut lines) = ((*tenant).to_owned(), lines.clone());
        let contested: HashSet<&str> = open.values().flat_map(|lines| names(lines)).collect();
        let contested: Vec<_> = contested.into_iter().collect();
        let (lag, _) = turns.turn(&tenant, names(&lines));
        let visit = if open.len() > 1 { LANE_BATCH } else { usize::MAX };
        let mut count = 0;
        while count < visit && wish.most > 0 {
            lines.retain(|line| wish.may(line));
            let mut least: Option<(&Line, Head)> = None;
            let mut unread = BTreeSet::new();
            for line in &lines {
                match rest(line, &taken) {
                    Some((Some(head), _)) => {
                        let before = |(other, first): &(&Line, Head)| {
                            (&line.rank, &head) < (&other.rank, first)
                        };
                        if least.as_ref().is_none_or(before) {
                            least = Some((line, head));
                        }
                    }
                    Some((None, false)) => {}
                    Some((None, true)) | None => _ = unread.insert((*line).clone()),
                }
            }
            // What is not read could only come first at the same or a higher priority.
            unread.retain(|line| least.as_ref().is_none_or(|(first, _)| line.rank <= first.rank));
            if !unread.is_empty() {
                return Decision::Look(unread);
            }
            let Some((line, head)) = least else { break };
            wish.took(&line.name, line.suspect);
            *taken.entry(line.clone()).or_default() += 1;
            picked.push((line.clone(), head));
            count += 1;
        }
        if open.len() > 1 {
            turns.charge(&tenant, &contested, lag, count, known.settings.weight(&tenant));
        }
        if wish.most == 0 || count == 0 {
            break;
        }
    }
    known.turns = turns;
    Decision::Take(picked)
}
