//! What went wrong for whom, and when: the processes that could not act, the calls without an
//! answer, and the jumps of the store's clock.

use std::collections::HashMap;

use super::{
    ledger::{Event, Line},
    read::Ledger,
    schedule::Kind,
    watched::SLOW_CALL,
    worker::{GRACE, STALL},
};

/// A time, in microseconds of the machine's clock.
pub type Span = (i64, i64);

/// What a time in the ledger and one in the store may differ by, in microseconds.
const SLACK: i64 = 1_000_000;
/// The store's clock has jumped where it gains as much on the machine's, in milliseconds. The
/// offsets of processes are 30 s at least, a reading's error is its call's length at most.
const JUMP: i64 = 1_000;

/// A call of a worker that was not answered.
#[derive(Clone, Debug)]
pub struct Failed {
    /// Which.
    pub call: String,
    /// From when it was sent to when it was given up.
    pub span: Span,
}

/// Times of danger, by worker where they are one's own.
#[derive(Debug, Default)]
pub struct Danger {
    down: HashMap<String, Vec<Span>>,
    blocked: HashMap<String, Vec<Span>>,
    failed: HashMap<String, Vec<Failed>>,
    renewals: HashMap<String, Vec<Span>>,
    jumps: Vec<Span>,
    held: Vec<Span>,
}

impl Danger {
    /// From the ledger.
    pub fn new(ledger: &Ledger) -> Self {
        let mut danger = Self::default();
        for line in &ledger.lines {
            danger.add(line, &ledger.lines);
        }
        for run in ledger.stories.values().flat_map(|story| &story.runs) {
            if run.name == "blocks" {
                let span = (run.start, ledger.over(run));
                danger.blocked.entry(run.by.clone()).or_default().push(span);
            }
        }
        for (by, sent, at) in &ledger.renewals {
            danger.renewals.entry(by.clone()).or_default().push((*sent, *at));
        }
        danger.jumps = jumps(&ledger.lines);
        danger
    }

    fn add(&mut self, line: &Line, lines: &[Line]) {
        let at = line.at;
        let mut down = |who: &str, span| self.down.entry(who.to_owned()).or_default().push(span);
        match &line.event {
            Event::Fault { number, kind, who, over: false } => {
                let over = || end_of(lines, *number).unwrap_or(i64::MAX);
                match (kind, who) {
                    (Kind::Kill, Some(who)) => down(who, (at, i64::MAX)),
                    (Kind::Stop | Kind::Nap, Some(who)) => down(who, (at, over())),
                    (Kind::Hold | Kind::Restart, _) => self.held.push((at, over())),
                    _ => {}
                }
            }
            Event::Gone { who, .. } => down(who, (at, i64::MAX)),
            // What its grace did not end is left to its lease (K8).
            Event::Told { who } => down(who, (at + GRACE.as_micros() as i64, i64::MAX)),
            Event::Stall { since } => down(&line.by, (*since, at)),
            Event::Call { call, sent, trouble } if trouble != SLOW_CALL => {
                let failed = Failed { call: call.clone(), span: (*sent, at) };
                self.failed.entry(line.by.clone()).or_default().push(failed);
            }
            _ => {}
        }
    }

    /// When this process could do nothing: stopped, starved, past its grace, or gone.
    pub fn down(&self, who: &str) -> &[Span] {
        self.down.get(who).map_or(&[], Vec::as_slice)
    }

    /// When a handler blocked the runtime of all of its handlers.
    pub fn blocked(&self, who: &str) -> &[Span] {
        self.blocked.get(who).map_or(&[], Vec::as_slice)
    }

    /// Its calls without an answer.
    pub fn failed(&self, who: &str) -> &[Failed] {
        self.failed.get(who).map_or(&[], Vec::as_slice)
    }

    /// Its renewals that were answered, of whatever claims.
    pub fn renewals(&self, who: &str) -> &[Span] {
        self.renewals.get(who).map_or(&[], Vec::as_slice)
    }

    /// When the store's clock jumped: between these two readings. Every lease then held ends at once.
    pub fn jumps(&self) -> &[Span] {
        &self.jumps
    }

    /// When the store was slow or away for everybody.
    pub fn held(&self) -> &[Span] {
        &self.held
    }

    /// When anybody was disturbed, as exactly as the two clocks are known.
    pub fn of_anybody(&self) -> Vec<Span> {
        // A process that is gone disturbs at its beginning; one that starves for a moment does not.
        let least = STALL.as_micros() as i64;
        let short = |(from, to): &Span| to.saturating_sub(*from) < least;
        let instant = |(from, to): Span| (from, if to == i64::MAX { from } else { to });
        let down = self.down.values().flatten().filter(|span| !short(span)).copied();
        // A renewal brings nobody a job.
        let failed = self.failed.values().flatten().filter(|failed| failed.call != "renew");
        let failed = failed.map(|failed| failed.span);
        let store = self.jumps.iter().chain(&self.held).copied();
        let all = down.chain(failed).chain(store).map(instant);
        all.map(|(from, to)| (from - SLACK, to.saturating_add(SLACK))).collect()
    }
}

/// How much of `of` is covered by these together.
pub fn covered(spans: impl IntoIterator<Item = Span>, of: Span) -> i64 {
    let clip = |(from, to): Span| (from.max(of.0), to.min(of.1));
    let mut spans: Vec<Span> = spans.into_iter().map(clip).filter(|(a, b)| a < b).collect();
    spans.sort_unstable();
    let (mut sum, mut end) = (0, of.0);
    for (from, to) in spans {
        sum += (to - from.max(end)).max(0);
        end = end.max(to);
    }
    sum
}

fn jumps(lines: &[Line]) -> Vec<Span> {
    let reading = |line: &Line| match line.event {
        Event::Ahead { millis, .. } => Some((line.at, millis)),
        _ => None,
    };
    let readings: Vec<_> = lines.iter().filter_map(reading).collect();
    // The clock never goes back: a reading that is less than one before it is a late one.
    let mut highest = i64::MIN;
    let mut found = Vec::new();
    for pair in readings.windows(2) {
        highest = highest.max(pair[0].1);
        if pair[1].1 - highest > JUMP {
            found.push((pair[0].0, pair[1].0));
        }
    }
    found
}

/// When a fault was over.
pub fn end_of(lines: &[Line], number: usize) -> Option<i64> {
    let over = |line: &&Line| matches!(line.event, Event::Fault { number: this, over: true, .. } if this == number);
    lines.iter().find(over).map(|line| line.at)
}
