//! No stale write is accepted (R2, S1, S2): what is late or has another nonce is refused and changes
//! nothing, and what is on record as an
//! attempt's end is how that attempt's own handler ended, before it.

use jobs_core::{JobRef, OutcomeKind, view::Attempt};

use super::{Evidence, Violation};
use crate::soak::{
    ledger::{How, Told},
    read::{Late, Run, Sent, Story},
    store::label,
};

const PROMISE: &str = "no stale write is accepted";
/// What the store's clock and the machine's may differ by, beyond what is known, in microseconds.
const SLACK: i64 = 1_000_000;

pub fn check(evidence: &Evidence) -> Vec<Violation> {
    let mut found = Vec::new();
    for (job, story) in &evidence.ledger.stories {
        found.extend(accepted(evidence, story).into_iter().map(|what| violation(job, what)));
    }
    for (job, kept) in &evidence.store.jobs {
        let Some(story) = evidence.ledger.stories.get(job) else { continue };
        let wrong = kept.attempts.iter().filter_map(|attempt| one(evidence, story, attempt));
        found.extend(wrong.map(|what| violation(job, what)));
    }
    found
}

/// Under a claim that was over, or when another holder had been told that it has the job.
fn accepted(evidence: &Evidence, story: &Story) -> Vec<String> {
    let mut found: Vec<String> = story.late.iter().filter_map(late).collect();
    // Perhaps deleted and pushed again, it may have its fences twice.
    if story.unheard("delete") {
        return found;
    }
    let taken = |fence: i64| {
        let later = story.takes.iter().filter(|(_, of)| *of > fence);
        later.map(|(take, _)| evidence.ledger.takes[*take].at).min().unwrap_or(i64::MAX)
    };
    let renewed = story.renewals.iter().filter(|renewal| renewal.sent > taken(renewal.fence));
    found.extend(renewed.map(|of| format!("renewed, and the job was taken before: {of:?}")));
    let applied = |sent: &&Sent| matches!(sent.told, Some(Told::Applied(_)));
    let settled = story.settlements.iter().filter(applied);
    let settled = settled.filter(|sent| sent.sent > taken(sent.fence));
    found.extend(settled.map(|of| format!("settled, and the job was taken before: {of:?}")));
    found
}

/// A write that had to be refused, and was not.
fn late(late: &Late) -> Option<String> {
    let Late { by, fence, outcome, forged, told, changed, .. } = late;
    let what = outcome.map_or_else(|| "a renewal".to_owned(), |outcome| outcome.to_string());
    let why = if *forged { "another nonce" } else { "long over" };
    let refused = match told {
        Told::Lost => true,
        // Its repetition is told what won; another claim's, and a renewal, are not.
        Told::Already(_) => !forged && outcome.is_some(),
        Told::Applied(_) | Told::Held => false,
    };
    if !refused {
        return Some(format!("{by} was told {told:?} of {what} under fence {fence}, {why}"));
    }
    let changed = changed.as_ref()?;
    Some(format!("{by} was refused {what} under fence {fence}, {why}, and {changed}"))
}

fn violation(job: &JobRef, what: String) -> Violation {
    Violation::new(PROMISE, Some(job), what)
}

fn one(evidence: &Evidence, story: &Story, attempt: &Attempt) -> Option<String> {
    let hows: &[How] = match attempt.outcome {
        OutcomeKind::Done => &[How::Done],
        OutcomeKind::Retry | OutcomeKind::Park => &[How::Failed, How::Panicked],
        // The store's or an operator's word, or not on record.
        _ => return None,
    };
    let of = |run: &&Run| run.fence == attempt.fence;
    // After a delete, an id that is pushed again has its fences again: one run that fits will do.
    let runs: Vec<&Run> = story.runs.iter().filter(of).collect();
    let ended = evidence.store.clock.machine(attempt.ended_at) + SLACK;
    let fits = |run: &&&Run| {
        let end = run.end.is_some_and(|(at, how)| hows.contains(&how) && at <= ended);
        end && run.by == label(attempt)
    };
    match (runs.iter().find(fits), runs.first()) {
        (Some(_), _) => None,
        (None, None) => Some(format!("no handler ran it: {attempt:?}")),
        (None, Some(run)) if run.by != label(attempt) => {
            Some(format!("{} ran it, not its worker: {attempt:?}", run.by))
        }
        (None, Some(run)) => {
            Some(format!("its handler ended otherwise, or later: {run:?}, {attempt:?}"))
        }
    }
}
