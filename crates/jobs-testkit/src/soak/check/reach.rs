//! No job is out of reach, nothing waits for ever, the store is sound, and every process ended as it
//! was told.

use jobs_core::{OutcomeKind, view::Attempt};

use super::{Evidence, Violation};
use crate::soak::{
    ledger::{Event, Line},
    run::FOUND,
    store::label,
    worker::GRACE,
};

pub fn check(evidence: &Evidence) -> Vec<Violation> {
    let store = &evidence.store;
    let mut found = Vec::new();
    let mut say = |promise, what: &str| found.push(Violation::new(promise, None, what));
    store.unfinished.iter().for_each(|lane| say("everything ends", lane));
    // The store says that a clock ran ahead, and its own did.
    let fast = !evidence.danger.jumps().is_empty();
    let findings = store.findings.iter().filter(|finding| !(fast && finding.contains("clock")));
    findings.for_each(|finding| say("the store is sound", finding));
    for line in &evidence.ledger.lines {
        match &line.event {
            Event::Gone { who, status, clean: false, .. } => {
                say("a process ends as it is told", &format!("{who}: {status}"));
            }
            Event::Gone { who, status, left: true, .. } if !lost_lately(evidence, who, line.at) => {
                let what = format!("{who} left something, and lost no lease lately: {status}");
                say("a process ends as it is told", &what);
            }
            Event::Closed { left } => {
                let say_left = |what: &String| format!("{} {what}", line.by);
                left.iter().for_each(|what| say("nothing is left", &say_left(what)));
            }
            Event::Refused { call, error } => {
                say("no call fails for good", &format!("{call} of {}: {error}", line.by));
            }
            Event::Looked { findings } => {
                let seen = |finding: &String| format!("{finding}, seen while the run went on");
                findings.iter().for_each(|finding| say("the store is sound", &seen(finding)));
            }
            _ => {}
        }
    }
    let differs = store.differs.iter();
    let differs = differs
        .map(|(job, what)| Violation::new("no job is unreachable", job.as_ref(), what.as_str()));
    found.extend(differs);
    found
}

/// How long a worker that lost a lease reports the job as left, and how long it may take to end.
const LATELY: i64 = (FOUND.as_micros() + GRACE.as_micros()) as i64;

/// Did this process, which is gone since then, lose a lease, on record or by the store's answer? What
/// it did not renew is on record when it is swept.
fn lost_lately(evidence: &Evidence, who: &str, gone: i64) -> bool {
    let machine = |attempt: &Attempt| evidence.store.clock.machine(attempt.ended_at);
    let lost = |attempt: &Attempt| {
        let its = attempt.outcome == OutcomeKind::Lost && label(attempt) == who;
        its && machine(attempt) >= gone - LATELY
    };
    let told = |line: &Line| {
        line.by == who && line.at >= gone - LATELY && matches!(line.event, Event::Lost { .. })
    };
    evidence.store.jobs.values().any(|kept| kept.attempts.iter().any(lost))
        || evidence.ledger.lines.iter().any(told)
}
