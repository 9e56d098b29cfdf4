//! No two holders at once (R2): on record, in deliveries, and in handlers that ran.

use std::collections::HashMap;

use jobs_core::{JobRef, OutcomeKind, queue::KEPT_ATTEMPTS, view::Attempt};

use super::{Evidence, Violation};
use crate::soak::{
    lease::outlived,
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
        // Perhaps deleted and pushed again, it may have its fences twice.
        if story.unheard("delete") {
            continue;
        }
        delivered(evidence, story).into_iter().for_each(|what| say(job, what));
        ran(evidence, story, evidence.store.jobs.get(job))
            .into_iter()
            .for_each(|what| say(job, what));
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

/// Runs that meet: an earlier delivery's and a later one's.
pub fn meetings<'e>(
    evidence: &'e Evidence,
    story: &'e Story,
) -> impl Iterator<Item = (&'e Run, &'e Run)> {
    let over = |run| evidence.ledger.over(run);
    let pairs = story.runs.iter().enumerate();
    let pairs = pairs.flat_map(|(at, one)| story.runs[at + 1..].iter().map(move |two| (one, two)));
    let ordered =
        pairs.map(|(one, two)| if one.fence < two.fence { (one, two) } else { (two, one) });
    ordered.filter(move |(early, late)| {
        early.fence != late.fence && late.start < over(early) && early.start < over(late)
    })
}

/// Two runs meet only where the earlier one had lost its lease by then, and only until its worker
/// could know (K3).
fn ran(evidence: &Evidence, story: &Story, kept: Option<&Kept>) -> Vec<String> {
    let mut found = Vec::new();
    for (at, one) in story.runs.iter().enumerate() {
        if let Some(other) = story.runs[at + 1..].iter().find(|other| other.fence == one.fence) {
            let (one, other) = (&one.by, &other.by);
            found.push(format!("one delivery was run twice, by {one} and {other}"));
        }
        if let Some(beyond) = outlived(&evidence.ledger, &evidence.danger, story, one) {
            let beyond = beyond / 1000;
            found.push(format!("its handler outlived its lease's trust by {beyond} ms: {one:?}"));
        }
    }
    // What is not there any more has no record to ask.
    let Some(kept) = kept else { return found };
    for (early, late) in meetings(evidence, story) {
        let lost = |attempt: &Attempt| {
            attempt.fence == early.fence && attempt.outcome == OutcomeKind::Lost
        };
        if !kept.attempts.iter().any(lost) && kept.attempts.len() < KEPT_ATTEMPTS {
            found.push(format!(
                "two handlers ran at once, and neither lost its lease: {early:?}, {late:?}"
            ));
        }
    }
    found
}
