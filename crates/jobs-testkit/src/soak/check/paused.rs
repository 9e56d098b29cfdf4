//! Nothing is delivered from a paused lane (R8).

use super::{Evidence, Violation};
use crate::soak::{
    ledger::{Event, Line},
    read::Take,
    schedule::Kind,
};

const PROMISE: &str = "a paused lane delivers nothing";
/// How long a reserve may not see another handle's write (R6), and as much again for the machine.
const UNSEEN: i64 = 500_000;
/// A repeated reserve answers what it took before.
const REPEATS: i64 = 10_000_000;

pub fn check(evidence: &Evidence) -> Vec<Violation> {
    let (mut found, lines) = (Vec::new(), &evidence.ledger.lines);
    for line in lines {
        let Event::Fault { kind: Kind::Pause, who: Some(lane), over: false, .. } = &line.event
        else {
            continue;
        };
        let Some((queue, tenant)) = lane.split_once('/') else { continue };
        let Some(end) = resumed(lines, lane, line.at) else { continue };
        let inside = |take: &&Take| {
            let sent = take.sent > line.at + UNSEEN && take.at < end && take.queue == queue;
            sent && !repeats(evidence, take)
        };
        for take in evidence.ledger.takes.iter().filter(inside) {
            let of = |job: &str| tenant == "*" || tenant == job;
            for claim in take.claims.iter().filter(|claim| of(&claim.job.tenant)) {
                let what = format!("{} got it while {lane} was paused", take.by);
                found.push(Violation::new(PROMISE, Some(&claim.job), what));
            }
        }
    }
    found
}

/// May it be the repetition of a reserve that had no answer, from before?
pub fn repeats(evidence: &Evidence, take: &Take) -> bool {
    let before = |at: i64| (take.sent - REPEATS..=take.sent).contains(&at);
    let mut failed = evidence.danger.failed(&take.by).iter();
    failed.any(|failed| failed.call.ends_with("reserve") && before(failed.span.1))
}

/// When this lane was resumed after that: whoever resumes it ends every pause of it.
fn resumed(lines: &[Line], lane: &str, paused: i64) -> Option<i64> {
    let resumes = |line: &&Line| match &line.event {
        Event::Fault { kind: Kind::Pause, who: Some(who), over: true, .. } => {
            who == lane && line.at >= paused
        }
        _ => false,
    };
    lines.iter().find(resumes).map(|line| line.at)
}
