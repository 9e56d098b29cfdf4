//! Nobody loses a lease that it could renew (S1, X1, K3, K4): whatever was lost, on record or by
//! the store's answer, is explained by what kept that worker from renewing that lease. And what was
//! lost is found by a sweep in time (X2).

use jobs_core::OutcomeKind;

use super::{Evidence, Violation};
use crate::soak::{
    lease::{excused, found_late, unseen},
    ledger::Event,
    read::Story,
    store::label,
};

const PROMISE: &str = "a live job is not taken";
const SOON: &str = "a lost job runs again soon";

pub fn check(evidence: &Evidence) -> Vec<Violation> {
    let mut found = on_record(evidence);
    for line in &evidence.ledger.lines {
        let Event::Lost { job, fence, call } = &line.event else { continue };
        let Some(story) = evidence.ledger.stories.get(job) else { continue };
        let excuse = match call.as_str() {
            "renew" => settled(story, &line.by, *fence, line.at),
            _ => repeated(story, &line.by, *fence, line.at),
        };
        if !excuse && !lost(evidence, story, (&line.by, *fence), line.at) {
            let what = format!("{call} of fence {fence} by {} was answered lost", line.by);
            found.push(Violation::new(PROMISE, Some(job), what));
        }
    }
    found
}

fn on_record(evidence: &Evidence) -> Vec<Violation> {
    let mut found = Vec::new();
    for (job, kept) in &evidence.store.jobs {
        let Some(story) = evidence.ledger.stories.get(job) else { continue };
        for attempt in kept.attempts.iter().filter(|a| a.outcome == OutcomeKind::Lost) {
            let machine = |time| evidence.store.clock.machine(time);
            let (from, to) = (machine(attempt.started_at), machine(attempt.ended_at));
            let by = label(attempt);
            let excuse = match story.take(&evidence.ledger.takes, by, attempt.fence) {
                Some(_) => lost(evidence, story, (by, attempt.fence), to),
                None => unseen(&evidence.danger, by, from, to),
            };
            if !excuse {
                let what = format!("nothing kept its worker from renewing: {attempt:?}");
                found.push(Violation::new(PROMISE, Some(job), what));
            }
            let late =
                found_late(&evidence.ledger, &evidence.danger, story, (by, attempt.fence), to);
            if let Some(late) = late {
                let late = late / 1000;
                let what =
                    format!("it was taken back {late} ms after its lease's end: {attempt:?}");
                found.push(Violation::new(SOON, Some(job), what));
            }
        }
    }
    found
}

fn lost(evidence: &Evidence, story: &Story, (by, fence): (&str, i64), at: i64) -> bool {
    // An earlier job's, which was deleted.
    let earlier = story.reborn && story.take(&evidence.ledger.takes, by, fence).is_none();
    earlier || excused(&evidence.ledger, &evidence.danger, story, (by, fence), at)
}

/// A renewal of what was settled meanwhile is too late for nobody.
fn settled(story: &Story, by: &str, fence: i64, at: i64) -> bool {
    let own = story.settlements.iter().filter(|sent| sent.by == by && sent.fence == fence);
    let sent = own.map(|settlement| settlement.sent).min();
    // One that is under way is written down when it is answered.
    sent.is_some_and(|sent| sent <= at)
}

/// A lost reply makes a call twice, and the second may come after the job's next delivery.
fn repeated(story: &Story, by: &str, fence: i64, at: i64) -> bool {
    let own = story.settlements.iter().filter(|sent| sent.by == by && sent.fence == fence);
    own.into_iter().any(|sent| sent.told.is_none() && sent.at <= at)
}
