//! No two holders at once (R2): on record, in deliveries, and in handlers that ran.

use std::collections::HashMap;

use jobs_core::{JobRef, OutcomeKind, queue::KEPT_ATTEMPTS, view::Attempt};

use super::{Evidence, Violation};
use crate::soak::{
    read::{Run, Story},
    store::Kept,
};

const PROMISE: &str = "one holder at a time";

pub fn check(evidence: &Evidence) -> Vec<Violation> {
    let mut found = Vec::new();
    let mut say = |job: &JobRef, what| found.push(Violation::new(PROMISE, Some(job), what));
    for (job, kept) in &evidence.store.jobs {
        kept.attempts.windows(2).filter_map(on_record).for_each(|what| say(job, what));
    }
    for (job, story) in &evidence.ledger.stories {
        // Pushed again after it was deleted, its fences are counted again.
        if story.asked("delete") {
            continue;
        }
        delivered(evidence, story).into_iter().for_each(|what| say(job, what));
        if let Some(kept) = evidence.store.jobs.get(job) {
            ran(evidence, story, kept).into_iter().for_each(|what| say(job, what));
        }
    }
    found
}

fn on_record(pair: &[Attempt]) -> Option<String> {
    let [one, next] = pair else { return None };
    let ordered = one.fence < next.fence
        && one.started_at <= one.ended_at
        && one.ended_at <= next.started_at
        && next.started_at <= next.ended_at;
    (!ordered).then(|| format!("two attempts on record meet: {one:?}, {next:?}"))
}

/// One fence is one delivery, to one process.
fn delivered(evidence: &Evidence, story: &Story) -> Vec<String> {
    let mut holders: HashMap<i64, usize> = HashMap::new();
    let mut found = Vec::new();
    for (take, fence) in &story.takes {
        let other = *holders.entry(*fence).or_insert(*take);
        let [by, before] = [*take, other].map(|take| &evidence.ledger.takes[take].by);
        if by != before {
            found.push(format!("fence {fence} was delivered to {before} and to {by}"));
        }
    }
    found
}

/// Two runs meet only where the earlier one had lost its lease by then.
fn ran(evidence: &Evidence, story: &Story, kept: &Kept) -> Vec<String> {
    let mut found = Vec::new();
    for (at, one) in story.runs.iter().enumerate() {
        for other in &story.runs[at + 1..] {
            if one.fence == other.fence {
                let (one, other) = (&one.by, &other.by);
                found.push(format!("one delivery was run twice, by {one} and {other}"));
                continue;
            }
            let (early, late) = if one.fence < other.fence { (one, other) } else { (other, one) };
            let meet = late.start < evidence.ledger.over(early)
                && early.start < evidence.ledger.over(late);
            if meet && !may_meet(evidence, story, kept, early, late) {
                found.push(format!(
                    "two handlers ran at once, and neither lost its lease: {early:?}, {late:?}"
                ));
            }
        }
    }
    found
}

fn may_meet(evidence: &Evidence, story: &Story, kept: &Kept, early: &Run, late: &Run) -> bool {
    let lost =
        |attempt: &Attempt| attempt.fence == early.fence && attempt.outcome == OutcomeKind::Lost;
    // An operator cancels what runs past its lease.
    let taken = story.touched_before(late.start)
        && evidence.danger.of_leases(&early.by, early.start, late.start);
    kept.attempts.iter().any(lost) || taken || kept.attempts.len() >= KEPT_ATTEMPTS
}
