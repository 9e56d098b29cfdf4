//! No job is out of reach, nothing waits for ever, the store is sound, and every process ended as it
//! was told.

use super::{Evidence, Violation};
use crate::soak::ledger::Event;

pub fn check(evidence: &Evidence) -> Vec<Violation> {
    let store = &evidence.store;
    let mut found = Vec::new();
    let mut say = |promise, what: &str| found.push(Violation::new(promise, None, what));
    store.unfinished.iter().for_each(|lane| say("everything ends", lane));
    let told = |line: &crate::soak::ledger::Line| matches!(line.event, Event::Up { clock, .. } if clock > 0);
    // The store says that a clock ran ahead, and one did.
    let fast = evidence.ledger.lines.iter().any(told);
    let findings = store.findings.iter().filter(|finding| !(fast && finding.contains("clock")));
    findings.for_each(|finding| say("the store is sound", finding));
    for line in &evidence.ledger.lines {
        match &line.event {
            Event::Gone { who, status, clean: false } => {
                say("a process ends as it is told", &format!("{who}: {status}"));
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
