//! No stale write is accepted (S2): a late settlement changes nothing, and what is on record as an
//! attempt's end is how that attempt's own handler ended, before it.

use jobs_core::{JobRef, OutcomeKind, view::Attempt};

use super::{Evidence, Violation};
use crate::soak::{
    ledger::{Event, How},
    read::{Run, Story},
    store::label,
};

const PROMISE: &str = "no stale write is accepted";
/// What the store's clock and the machine's may differ by, beyond what is known, in microseconds.
const SLACK: i64 = 1_000_000;

pub fn check(evidence: &Evidence) -> Vec<Violation> {
    let mut found = Vec::new();
    for line in &evidence.ledger.lines {
        if let Event::Late { job, fence, answer, accepted: true } = &line.event {
            let what = format!("{} wrote under fence {fence}, long over: {answer}", line.by);
            found.push(Violation::new(PROMISE, Some(job), what));
        }
    }
    for (job, kept) in &evidence.store.jobs {
        let Some(story) = evidence.ledger.stories.get(job) else { continue };
        let wrong = kept.attempts.iter().filter_map(|attempt| one(evidence, story, attempt));
        found.extend(wrong.map(|what| violation(job, what)));
    }
    found
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
