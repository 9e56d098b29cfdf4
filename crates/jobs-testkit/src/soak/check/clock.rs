//! The store's clock runs as the machine's does: it jumps only where a process came whose clock is
//! ahead, and drifts nowhere. A drift makes every lease shorter or longer.

use super::{Evidence, Violation};
use crate::soak::ledger::{Event, Line};

const PROMISE: &str = "the store's clock runs as time does";
/// What readings between two jumps may differ by, beyond what each is known to, in milliseconds.
const DRIFT: i64 = 100;
/// After a jump a reader shows the time of the last commit until it sees another one, and a lock that
/// is held keeps everybody from committing for 5 s: these readings say nothing, in microseconds.
const SETTLED: i64 = 6_000_000;
/// How long before or after its process is up a clock may show in the store, in microseconds.
const SHOWN: i64 = 30_000_000;

pub fn check(evidence: &Evidence) -> Vec<Violation> {
    let (lines, jumps) = (&evidence.ledger.lines, evidence.danger.jumps());
    let mut found = Vec::new();
    let mut say = |what: String| found.push(Violation::new(PROMISE, None, what));
    let ahead = |line: &Line| matches!(line.event, Event::Up { clock, .. } if clock > 0);
    for (from, to) in jumps {
        let mut near = lines.iter().filter(|line| ahead(line));
        if !near.any(|line| (from - SHOWN..=to + SHOWN).contains(&line.at)) {
            say(format!("it jumped by more than a second before {to}, and nobody's was ahead"));
        }
    }
    let mut bounds: Vec<i64> = jumps.iter().map(|(_, to)| *to).collect();
    bounds.push(i64::MAX);
    let mut from = i64::MIN;
    for to in bounds {
        let within = |line: &&Line| (from..to).contains(&line.at);
        if let Some((least, most)) = range(lines.iter().filter(within))
            && most - least > DRIFT
        {
            say(format!("it drifted by {} ms without a jump", most - least));
        }
        from = to.saturating_add(SETTLED);
    }
    found
}

/// The least that is above some reading, and the most that is below one.
fn range<'l>(lines: impl Iterator<Item = &'l Line>) -> Option<(i64, i64)> {
    let readings = lines.filter_map(|line| match line.event {
        Event::Ahead { millis, within } => Some((millis + within, millis - within)),
        _ => None,
    });
    readings.reduce(|(least, most), (above, below)| (least.min(above), most.max(below)))
}
