//! No job is out of reach, nothing waits for ever, the store is sound, and every process ended as it
//! was told.

use jobs_core::{OutcomeKind, view::Attempt};

use super::{Evidence, Violation};
use crate::soak::{
    ledger::{Event, Line},
    store::label,
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
            Event::Gone { who, status, left: true, .. } if !lost_something(evidence, who) => {
                let what = format!("{who} left something, and lost no lease: {status}");
                say("a process ends as it is told", &what);
            }
            Event::Looked { findings } => {
                let seen = |finding: &String| format!("{finding}, seen while the run went on");
                findings.iter().for_each(|finding| say("the store is sound", &seen(finding)));
            }
            _ => {}
        }
    }
    let lost = store.unreachable.iter();
    let lost = lost.map(|job| {
        Violation::new("no job is unreachable", Some(job), "in the list, or by its id, not both")
    });
    found.extend(lost);
    found
}

/// Did this process lose a lease, on record or by the store's answer?
fn lost_something(evidence: &Evidence, who: &str) -> bool {
    let lost = |attempt: &Attempt| attempt.outcome == OutcomeKind::Lost && label(attempt) == who;
    let told = |line: &Line| line.by == who && matches!(line.event, Event::Lost { .. });
    evidence.store.jobs.values().any(|kept| kept.attempts.iter().any(lost))
        || evidence.ledger.lines.iter().any(told)
}
