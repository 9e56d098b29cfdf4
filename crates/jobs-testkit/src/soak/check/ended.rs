//! Every acknowledged push ended once: done, parked with its cause, or as an operator wanted; and
//! nothing else is stored (P2, P3, A3).

use jobs_core::{JobRef, OutcomeKind, State};

use super::{Evidence, Violation};
use crate::soak::{ledger::Answer, read::Story, store::Kept};

const PROMISE: &str = "an acknowledged push ends once";

pub fn check(evidence: &Evidence) -> Vec<Violation> {
    let mut found = Vec::new();
    for (job, story) in &evidence.ledger.stories {
        let kept = evidence.store.jobs.get(job);
        if let Some(what) = presence(story, kept).or_else(|| ending(story, kept?)) {
            found.push(Violation::new(PROMISE, Some(job), what));
        }
    }
    let unknown = |job: &&JobRef| !evidence.ledger.stories.contains_key(*job);
    let unknown = evidence.store.jobs.keys().filter(unknown);
    found.extend(unknown.map(|job| Violation::new(PROMISE, Some(job), "nobody pushed it")));
    found
}

/// Is it there if and only if it should be?
fn presence(story: &Story, kept: Option<&Kept>) -> Option<String> {
    let refused = story.pushes.iter().find(|push| matches!(push.answer, Answer::Refused(_)));
    if let Some(push) = refused {
        return Some(format!("a legal push was refused: {:?}", push.answer));
    }
    let mut first = story.pushes.iter();
    if let Some(Answer::Duplicate(state)) = first.next().map(|push| &push.answer)
        && story.unknown.is_empty()
    {
        return Some(format!("a fresh id was answered as a duplicate, {state}"));
    }
    let stored = story.pushes.iter().filter(|push| push.answer == Answer::Stored).count();
    if stored > 1 && !story.unheard("delete") {
        return Some(format!("one id was stored {stored} times, and nobody deleted it"));
    }
    match (story.stored(), kept) {
        // Asked is not answered: an operator may have been told that it runs.
        (Some(_), None) if !story.may("delete", "Deleted") => {
            Some("it was acknowledged, and it is gone".to_owned())
        }
        (None, Some(_)) if story.unknown.is_empty() => {
            Some("it is stored, and no push of it was acknowledged".to_owned())
        }
        (Some(push), Some(_)) => {
            let gone = story.verbs.iter().find(|(_, verb, answer)| {
                verb == "delete" && answer.as_deref() == Some("[Deleted]")
            });
            let (at, ..) = gone?;
            let again = story.pushes.iter().any(|later| later.at > *at && later.at > push.at);
            let told = "an operator was told that it is deleted, and it is there";
            (!again).then(|| told.to_owned())
        }
        _ => None,
    }
}

/// Did it end as it should?
fn ending(story: &Story, kept: &Kept) -> Option<String> {
    let done = kept.attempts.iter().filter(|attempt| attempt.outcome == OutcomeKind::Done).count();
    let last = kept.attempts.last().map(|attempt| attempt.outcome);
    let cancelled = story.may("cancel", "Cancelled") || story.told("cancel", "Requested");
    let (cancels, retried) = (story.told("cancel", "Cancelled"), story.may("retry", "Retried"));
    // No handler of a run cancels its job by itself.
    let by_worker = kept.attempts.iter().find(|a| a.outcome == OutcomeKind::Cancelled);
    let requested = story.may("cancel", "Requested");
    if let Some(attempt) = by_worker.filter(|_| !requested) {
        return Some(format!("an attempt ended as cancelled, and nobody asked: {attempt:?}"));
    }
    match kept.state {
        State::Done if done != 1 => Some(format!("it is done, by {done} attempts on record")),
        State::Done if cancels && !retried => Some("it is done, after it was cancelled".to_owned()),
        State::Done => None,
        _ if done > 0 => Some(format!("it is {}, and an attempt is on record as done", kept.state)),
        State::Parked if !kept.has_cause => Some("it is parked without a cause".to_owned()),
        State::Parked if !matches!(last, Some(OutcomeKind::Park | OutcomeKind::Lost)) => {
            Some(format!("it is parked after {last:?}"))
        }
        State::Parked => None,
        State::Cancelled if cancelled => None,
        State::Cancelled => Some("it is cancelled, and nobody asked for that".to_owned()),
        state => Some(format!("it has not ended: it is {state}")),
    }
}
