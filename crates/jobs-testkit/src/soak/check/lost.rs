//! Nobody loses a lease that it could renew (S1, X1, K3, K4): whatever was lost, on record or by
//! the store's answer, is explained by a fault that hit that worker meanwhile.

use jobs_core::OutcomeKind;

use super::{Evidence, Violation};
use crate::soak::{ledger::Event, store::label};

const PROMISE: &str = "a live job is not taken";

pub fn check(evidence: &Evidence) -> Vec<Violation> {
    let (mut found, danger) = (Vec::new(), &evidence.danger);
    for (job, kept) in &evidence.store.jobs {
        for attempt in kept.attempts.iter().filter(|a| a.outcome == OutcomeKind::Lost) {
            let machine = |time| evidence.store.clock.machine(time);
            let (from, to) = (machine(attempt.started_at), machine(attempt.ended_at));
            if !danger.of_leases(label(attempt), from, to) {
                let what = format!("nothing disturbed its worker: {attempt:?}");
                found.push(Violation::new(PROMISE, Some(job), what));
            }
        }
    }
    for line in &evidence.ledger.lines {
        let Event::Lost { job, fence, call } = &line.event else { continue };
        let Some(story) = evidence.ledger.stories.get(job) else { continue };
        let takes = story.takes.iter().filter(|(_, of)| of == fence);
        let sent = takes.map(|(take, _)| evidence.ledger.takes[*take].sent).min();
        let (from, to) = (sent.unwrap_or(line.at), line.at);
        // A lost reply makes a call twice, and the second may come after the job's next delivery.
        // A renewal of what was settled meanwhile, or given back, is too late for nobody.
        let runs = |run: &crate::soak::read::Run| {
            run.fence == *fence && run.start <= to && run.end.is_none_or(|(end, _)| end > to)
        };
        let settled = call == "renew" && !story.runs.iter().any(runs);
        let excused = settled
            || danger.of_leases(&line.by, from, to)
            || danger.of_calls(&line.by, from, to)
            || story.touched_before(to);
        if !excused {
            let what = format!("{call} of fence {fence} by {} was answered lost", line.by);
            found.push(Violation::new(PROMISE, Some(job), what));
        }
    }
    found
}
