//! A settlement that was answered holds (S2, S3): it is on record, no second one was applied to its
//! claim, and its repetition was told what won.

use jobs_core::{OutcomeKind, queue::KEPT_ATTEMPTS};

use super::{Evidence, Violation};
use crate::soak::{
    ledger::Told,
    read::{Sent, Story},
    store::Kept,
};

const PROMISE: &str = "a settlement that was answered holds";

pub fn check(evidence: &Evidence) -> Vec<Violation> {
    let mut found = Vec::new();
    for (job, story) in &evidence.ledger.stories {
        // It may be two jobs, one after the other, with the same fences.
        if story.unheard("delete") {
            continue;
        }
        let mut wrong = twice(story);
        wrong.extend(repeated(story, evidence.store.jobs.get(job)));
        if let Some(kept) = evidence.store.jobs.get(job) {
            wrong.extend(unrecorded(story, kept));
        }
        found.extend(wrong.into_iter().map(|what| Violation::new(PROMISE, Some(job), what)));
    }
    found
}

fn applied(story: &Story) -> impl Iterator<Item = &Sent> {
    story.settlements.iter().filter(|sent| matches!(sent.told, Some(Told::Applied(_))))
}

fn twice(story: &Story) -> Vec<String> {
    let first = |sent: &Sent| applied(story).find(|first| first.fence == sent.fence);
    let second = |sent: &&Sent| first(sent).is_some_and(|first| !std::ptr::eq(first, *sent));
    let twice = applied(story).filter(second);
    twice.map(|sent| format!("two settlements of one claim were applied: {sent:?}")).collect()
}

/// What was told to have won before is what did, as far as that is known: by the answer to it, by
/// the record, or by what the holder ever sent.
fn repeated(story: &Story, kept: Option<&Kept>) -> Vec<String> {
    let own = story.settlements.iter();
    let own = own.filter_map(|sent| Some((&sent.by, sent.fence, sent.told?)));
    let late = story.late.iter().map(|late| (&late.by, late.fence, late.told));
    let mut found = Vec::new();
    for (by, fence, told) in own.chain(late) {
        let Told::Already(told) = told else { continue };
        let won = applied(story).find(|sent| sent.fence == fence).map(|sent| sent.outcome);
        let mut record = kept.into_iter().flat_map(|kept| &kept.attempts);
        let won = won.or_else(|| record.find(|a| a.fence == fence).map(|a| a.outcome));
        let mut sent = story.settlements.iter().filter(|sent| sent.fence == fence);
        let wrong = match won {
            Some(won) => won != told,
            None => sent.clone().next().is_some() && !sent.any(|sent| sent.outcome == told),
        };
        if wrong {
            let won = won.map_or_else(|| "another one".to_owned(), |won| won.to_string());
            found.push(format!("{by} was told that {told} had won of fence {fence}; {won} did"));
        }
    }
    found
}

/// What was applied and is of a kind that is recorded is on record, as it was sent.
fn unrecorded(story: &Story, kept: &Kept) -> Vec<String> {
    if kept.attempts.len() >= KEPT_ATTEMPTS {
        return Vec::new();
    }
    let recorded = |sent: &&Sent| {
        let mut attempts = kept.attempts.iter();
        attempts.any(|attempt| attempt.fence == sent.fence && attempt.outcome == sent.outcome)
    };
    let kinds = |outcome: OutcomeKind| outcome.is_recorded();
    let missing = applied(story).filter(|sent| kinds(sent.outcome) && !recorded(sent));
    missing.map(|sent| format!("it was applied, and it is not on record: {sent:?}")).collect()
}
