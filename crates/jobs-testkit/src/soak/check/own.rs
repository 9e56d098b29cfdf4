//! Each job keeps what it was pushed with (P1, P5): its handler is given its own name and payload, from
//! its own queue, and so is an operator, its key as well.

use jobs_core::JobRef;

use super::{Evidence, Violation};
use crate::soak::{
    read::{Push, Story},
    store::Kept,
};

const PROMISE: &str = "a job keeps what it was pushed with";

pub fn check(evidence: &Evidence) -> Vec<Violation> {
    let mut found = Vec::new();
    for (job, story) in &evidence.ledger.stories {
        let Some(push) = story.pushes.first() else { continue };
        let kept = evidence.store.jobs.get(job);
        let wrong = ran(job, story, push)
            .or_else(|| taken(evidence, story, push))
            .or_else(|| stored(job, kept?, push));
        found.extend(wrong.map(|what| Violation::new(PROMISE, Some(job), what)));
    }
    found
}

fn ran(job: &JobRef, story: &Story, push: &Push) -> Option<String> {
    let own = (&push.queue, &push.name, &job.id.to_string());
    let mixed = story.runs.iter().find(|run| (&run.queue, &run.name, &run.payload) != own);
    mixed.map(|run| format!("its handler was given another: {run:?}, pushed as {push:?}"))
}

fn taken(evidence: &Evidence, story: &Story, push: &Push) -> Option<String> {
    let mut takes = story.takes.iter().map(|(take, _)| &evidence.ledger.takes[*take]);
    let other = takes.find(|take| take.queue != push.queue)?;
    Some(format!("it was reserved from {} and pushed to {}", other.queue, push.queue))
}

fn stored(job: &JobRef, kept: &Kept, push: &Push) -> Option<String> {
    let own = (&push.queue, &push.name, &job.id.to_string(), &push.key);
    let is = (&kept.queue, &kept.name, &kept.payload, &kept.key);
    (is != own).then(|| format!("it is stored as {is:?}, and was pushed as {own:?}"))
}
