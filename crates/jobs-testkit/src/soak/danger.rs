//! What may excuse a lost lease: when which worker was disturbed so much that it could not renew.
//! A blocked runtime is no excuse (K4), nor is a cut connection by itself (K3).

use super::{
    ledger::{Event, Line},
    read::Ledger,
    schedule::Kind,
};

/// What a time in the ledger and one in the store may differ by, in microseconds.
const SLACK: i64 = 1_000_000;
/// How long after a process with a fast clock came up the store's clock may still jump by it.
const JUMP: i64 = 6_000_000;

/// Times of danger.
#[derive(Debug, Default)]
pub struct Danger {
    leases: Vec<Window>,
    calls: Vec<Window>,
}

/// One time.
#[derive(Debug)]
struct Window {
    /// Whose; everybody's when `None`.
    who: Option<String>,
    from: i64,
    to: i64,
}

impl Window {
    fn meets(&self, who: &str, from: i64, to: i64) -> bool {
        self.who.as_deref().is_none_or(|only| only == who)
            && self.from <= to.saturating_add(SLACK)
            && from <= self.to.saturating_add(SLACK)
    }
}

impl Danger {
    /// From the ledger.
    pub fn new(ledger: &Ledger) -> Self {
        let mut danger = Self::default();
        for line in &ledger.lines {
            danger.add(line, &ledger.lines);
        }
        danger
    }

    fn add(&mut self, line: &Line, lines: &[Line]) {
        let (at, by) = (line.at, Some(line.by.clone()));
        let window = |who, from, to| Window { who, from, to };
        match &line.event {
            Event::Fault { number, kind, who, over: false } => {
                let over = || end_of(lines, *number).unwrap_or(i64::MAX);
                match kind {
                    Kind::Kill => self.leases.push(window(who.clone(), at, i64::MAX)),
                    Kind::Stop => self.leases.push(window(who.clone(), at, over())),
                    Kind::Hold | Kind::Restart => self.leases.push(window(None, at, over())),
                    Kind::Cut | Kind::Clock | Kind::Block | Kind::Pause | Kind::Verbs => {}
                }
            }
            // Everybody's leases end at once when the store's clock jumps.
            Event::Up { clock, .. } if *clock > 0 => {
                self.leases.push(window(None, at, at + JUMP));
            }
            Event::Gone { who, .. } => self.leases.push(window(Some(who.clone()), at, i64::MAX)),
            Event::Stall { since } => self.leases.push(window(by, *since, at)),
            Event::Call { call, sent, trouble } => {
                if call == "renew" {
                    self.leases.push(window(by.clone(), *sent, at));
                }
                if trouble != "slow" {
                    self.calls.push(window(by, *sent, at));
                }
            }
            _ => {}
        }
    }

    /// Could this worker's leases end between these times?
    pub fn of_leases(&self, who: &str, from: i64, to: i64) -> bool {
        self.leases.iter().any(|window| window.meets(who, from, to))
    }

    /// Did this worker miss an answer between these times?
    pub fn of_calls(&self, who: &str, from: i64, to: i64) -> bool {
        self.calls.iter().any(|window| window.meets(who, from, to))
    }

    /// Was anybody disturbed between these times?
    pub fn of_anybody(&self, from: i64, to: i64) -> bool {
        let mut all = self.leases.iter().chain(&self.calls);
        // What is gone for good disturbs at its beginning.
        all.any(|window| {
            let to_end = if window.to == i64::MAX { window.from } else { window.to };
            Window { who: None, from: window.from, to: to_end }.meets("", from, to)
        })
    }
}

/// When a fault was over.
pub fn end_of(lines: &[Line], number: usize) -> Option<i64> {
    let over = |line: &&Line| matches!(line.event, Event::Fault { number: this, over: true, .. } if this == number);
    lines.iter().find(over).map(|line| line.at)
}
