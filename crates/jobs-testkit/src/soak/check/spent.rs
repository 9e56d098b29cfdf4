//! Attempts are counted (R7): one more for each that ended, from one again where an operator
//! retried; as the handler was told; never more than the job may have; and a job is parked when all
//! are spent and not before, by its worker or by the sweep.

use jobs_core::{OutcomeKind, State, queue::KEPT_ATTEMPTS, view::Attempt};

use super::{Evidence, Violation};
use crate::soak::{read::Story, store::Kept};

const PROMISE: &str = "attempts are counted";

pub fn check(evidence: &Evidence) -> Vec<Violation> {
    let mut found = Vec::new();
    for (job, kept) in &evidence.store.jobs {
        let Some(story) = evidence.ledger.stories.get(job) else { continue };
        // It may be two jobs, one after the other.
        if story.unheard("delete") {
            continue;
        }
        let wrong = numbers(story, kept).or_else(|| told(story, kept)).or_else(|| parked(kept));
        found.extend(wrong.map(|what| Violation::new(PROMISE, Some(job), what)));
    }
    found
}

fn numbers(story: &Story, kept: &Kept) -> Option<String> {
    let most = kept.max_attempts;
    if let Some(over) = kept.attempts.iter().find(|attempt| attempt.number > most) {
        return Some(format!("it may have {most} attempts: {over:?}"));
    }
    let retried = story.may("retry", "Retried");
    let follows = |before: u32, next: u32| next == before + 1 || (retried && next == 1);
    let first = kept.attempts.first().filter(|_| kept.attempts.len() < KEPT_ATTEMPTS);
    let first = first.filter(|first| !follows(0, first.number));
    if let Some(first) = first {
        return Some(format!("its first attempt on record is no first: {first:?}"));
    }
    let mut pairs = kept.attempts.windows(2);
    let gap = pairs.find(|pair| !follows(pair[0].number, pair[1].number))?;
    Some(format!("two attempts on record do not follow each other: {gap:?}"))
}

/// Did the handler of each attempt hear the number that is on record?
fn told(story: &Story, kept: &Kept) -> Option<String> {
    let other = |attempt: &&Attempt| {
        let mut runs = story.runs.iter().filter(|run| run.fence == attempt.fence);
        runs.any(|run| run.attempt != attempt.number)
    };
    let attempt = kept.attempts.iter().find(other)?;
    Some(format!("its handler was told another number: {attempt:?}"))
}

/// No handler of a run parks by itself: whoever is parked has spent all.
fn parked(kept: &Kept) -> Option<String> {
    let most = kept.max_attempts;
    let (last, before) = kept.attempts.split_last()?;
    let parks = |attempt: &Attempt| attempt.outcome == OutcomeKind::Park;
    if let Some(early) = kept.attempts.iter().find(|a| parks(a) && a.number < most) {
        return Some(format!("it was parked before its {most} attempts were spent: {early:?}"));
    }
    let spent = |attempt: &Attempt| attempt.number >= most;
    if let Some(late) = kept.attempts.iter().find(|a| spent(a) && a.outcome == OutcomeKind::Retry) {
        return Some(format!("it was to be tried again with its {most} attempts spent: {late:?}"));
    }
    if kept.state == State::Parked && !spent(last) {
        return Some(format!("it is parked with attempts left of {most}: {last:?}, {before:?}"));
    }
    None
}
