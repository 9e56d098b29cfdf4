//! Nobody loses a lease that it could renew (S1, X1, K3, K4): whatever was lost, on record or by
//! the store's answer, is explained by what kept that worker from renewing that lease. And what was
//! lost is found by a sweep in time (X2). No lease is shorter than it is (S1).

use jobs_core::{JobRef, OutcomeKind};

use super::{Evidence, Violation};
use crate::soak::{
    danger::Span,
    lease::{early, excused, found_late, unseen},
    ledger::Event,
    read::{Sent, Story, Take},
    store::label,
};

const PROMISE: &str = "a live job is not taken";
/// Until the end of a process is written down.
const NOTICED: i64 = 500_000;
/// The longest that a worker waits for an answer.
const CALL: i64 = 10_000_000;
const SOON: &str = "a lost job runs again soon";

pub fn check(evidence: &Evidence) -> Vec<Violation> {
    let mut found = on_record(evidence);
    found.extend(taken_early(evidence));
    for line in &evidence.ledger.lines {
        let Event::Lost { job, fence, call } = &line.event else { continue };
        let Some(story) = evidence.ledger.stories.get(job) else { continue };
        let excuse = match call.as_str() {
            "renew" => {
                settled(story, &line.by, *fence, line.at)
                    || ended(evidence, job, (&line.by, *fence), line.at)
            }
            _ => repeated(story, &line.by, *fence, line.at),
        };
        let by = (line.by.as_str(), *fence);
        let early = early(&evidence.ledger, &evidence.danger, story, by, line.at).is_some();
        if !excuse && ((early && !story.reborn) || !lost(evidence, story, by, line.at)) {
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
            let early = early(&evidence.ledger, &evidence.danger, story, (by, attempt.fence), to);
            if let Some(early) = early.filter(|_| !story.reborn) {
                let early = early / 1000;
                let what = format!("its lease was over {early} ms before its end: {attempt:?}");
                found.push(Violation::new(PROMISE, Some(job), what));
            } else if !excuse {
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

/// Deliveries that came before the lease of the one before was over, although its worker lived and
/// had settled nothing. What a worker that was killed had settled is not known; what is on record says
/// when its lease was over.
fn taken_early(evidence: &Evidence) -> Vec<Violation> {
    let mut found = Vec::new();
    for (job, story) in &evidence.ledger.stories {
        if story.reborn || story.unheard("delete") {
            continue;
        }
        let kept = evidence.store.jobs.get(job);
        let mut takes: Vec<(i64, &Take)> = story
            .takes
            .iter()
            .map(|(take, fence)| (*fence, &evidence.ledger.takes[*take]))
            .collect();
        takes.sort_by_key(|(fence, take)| (*fence, take.at));
        for pair in takes.windows(2) {
            let [(fence, one), (next, other)] = pair else { continue };
            let settled = |sent: &Sent| sent.fence == *fence && sent.sent < other.at;
            let died = |(from, to): &Span| *to == i64::MAX && *from < other.at + NOTICED;
            let recorded = kept.is_some_and(|kept| kept.attempts.iter().any(|a| a.fence == *fence));
            if fence == next
                || recorded
                || story.settlements.iter().any(settled)
                || evidence.danger.down(&one.by).iter().any(died)
            {
                continue;
            }
            let by = (one.by.as_str(), *fence);
            if let Some(early) = early(&evidence.ledger, &evidence.danger, story, by, other.at) {
                let (early, to) = (early / 1000, &other.by);
                let what =
                    format!("{to} got it {early} ms before the lease of fence {fence} ended");
                found.push(Violation::new(PROMISE, Some(job), what));
            }
        }
    }
    found
}

/// A renewal of what was settled meanwhile is too late for nobody.
fn settled(story: &Story, by: &str, fence: i64, at: i64) -> bool {
    let own = story.settlements.iter().filter(|sent| sent.by == by && sent.fence == fence);
    let sent = own.map(|settlement| settlement.sent).min();
    // One that is under way is written down when it is answered.
    sent.is_some_and(|sent| sent <= at)
}

/// A worker that was killed before its settlement was answered wrote nothing down; the store did.
fn ended(evidence: &Evidence, job: &JobRef, (by, fence): (&str, i64), at: i64) -> bool {
    let died = |(from, to): &Span| *to == i64::MAX && (at..at + CALL).contains(from);
    evidence.danger.down(by).iter().any(died)
        && evidence.store.jobs.get(job).is_some_and(|kept| {
            kept.attempts.iter().any(|a| a.fence == fence && a.outcome != OutcomeKind::Lost)
        })
}

/// A lost reply makes a call twice, and the second may come after the job's next delivery.
fn repeated(story: &Story, by: &str, fence: i64, at: i64) -> bool {
    let own = story.settlements.iter().filter(|sent| sent.by == by && sent.fence == fence);
    own.into_iter().any(|sent| sent.told.is_none() && sent.at <= at)
}
