//! A push that is refused for its key is refused for a reason (P2, P3): the job named has that key, and
//! held it at some moment between the push and its answer; and it is another job.

use jobs_core::{JobId, JobRef, KeyScope, OutcomeKind, State};

use super::{Evidence, Violation};
use crate::soak::{
    ledger::{Answer, Told},
    read::{Push, Story},
};

const PROMISE: &str = "a key that is held has a holder";
/// What a time in the ledger and one in the store may differ by, in microseconds.
const SLACK: i64 = 1_000_000;

pub fn check(evidence: &Evidence) -> Vec<Violation> {
    let mut found = Vec::new();
    for (job, story) in &evidence.ledger.stories {
        for push in &story.pushes {
            let Answer::KeyHeld(holder, state) = &push.answer else { continue };
            let wrong = own(job, story, push, *holder)
                .or_else(|| held_by(evidence, job, push, (*holder, *state)));
            found.extend(wrong.map(|what| Violation::new(PROMISE, Some(job), what)));
        }
    }
    found
}

/// A stored id beats a held key.
fn own(job: &JobRef, story: &Story, push: &Push, holder: JobId) -> Option<String> {
    if holder == job.id {
        return Some("it was refused for its own key".to_owned());
    }
    let before = |other: &&Push| other.answer == Answer::Stored && other.at < push.sent;
    let stored = story.pushes.iter().find(before)?;
    let deleted = story.may("delete", "Deleted");
    (!deleted).then(|| format!("it was stored before, and refused for its key: {stored:?}"))
}

fn held_by(
    evidence: &Evidence,
    job: &JobRef,
    push: &Push,
    (id, state): (JobId, State),
) -> Option<String> {
    let holder = JobRef { tenant: job.tenant.clone(), id };
    let say = |what: &str| Some(format!("{what}: {holder}, {state}; {push:?}"));
    let Some(story) = evidence.ledger.stories.get(&holder) else {
        return say("its key is held by a job that nobody pushed");
    };
    if !state.is_live() {
        return say("its key is held by a job that has ended");
    }
    // It may have been another job under the same id.
    if story.reborn || story.unheard("delete") {
        return None;
    }
    let first = story.pushes.first()?;
    let key =
        first.key.as_ref().filter(|key| Some(&key.text) == push.key.as_ref().map(|k| &k.text));
    let Some(key) = key else {
        return say("its key is held by a job without it");
    };
    match story.stored() {
        None => return say("its key is held by a job that was never stored"),
        Some(stored) if stored.sent > push.at => {
            return say("its key is held by a job that was stored later");
        }
        Some(_) => {}
    }
    freed(evidence, story, &holder, key.scope, push.sent).and_then(say)
}

/// Was this holder's key certainly free before then?
fn freed(
    evidence: &Evidence,
    story: &Story,
    holder: &JobRef,
    scope: KeyScope,
    at: i64,
) -> Option<&'static str> {
    let started = |(take, _): &(usize, i64)| evidence.ledger.takes[*take].at < at;
    if scope == KeyScope::UntilStarted && story.takes.iter().any(started) {
        return Some("its key was held until its holder started, and it had");
    }
    let told = |verb: &str, answer: &str| {
        let mut told = story.verbs.iter().filter(|(when, asked, _)| asked == verb && *when < at);
        told.any(|(.., told)| told.as_deref() == Some(answer))
    };
    if told("delete", "[Deleted]") {
        return Some("its key is held by a job that was deleted");
    }
    // A retry takes it again.
    if !story.may("retry", "Retried") && told("cancel", "[Cancelled]") {
        return Some("its key is held by a job that was cancelled");
    }
    let done = story.settlements.iter().any(|sent| {
        let done = sent.outcome == OutcomeKind::Done;
        done && sent.at < at && matches!(sent.told, Some(Told::Applied(_)))
    });
    if done {
        return Some("its key is held by a job that is done");
    }
    let kept = evidence.store.jobs.get(holder)?;
    let ended = evidence.store.clock.machine(kept.finished_at?);
    (ended < at - SLACK).then_some("its key is held by a job that had ended")
}
