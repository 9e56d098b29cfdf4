//! A cancel that was requested is not forgotten (§2, A3): however its run ends, the job is delivered no
//! more, until an operator retries it.

use super::{Evidence, Violation, paused::repeats};
use crate::soak::read::{Story, Take};

const PROMISE: &str = "a requested cancel is kept";

pub fn check(evidence: &Evidence) -> Vec<Violation> {
    let mut found = Vec::new();
    for (job, story) in &evidence.ledger.stories {
        // What is deleted and pushed again was not asked for.
        if story.unheard("delete") || story.may("retry", "Retried") {
            continue;
        }
        if let Some((requested, take)) = again(evidence, story) {
            let (by, after) = (&take.by, (take.sent - requested) / 1000);
            let what = format!("{by} got it {after} ms after its cancel was requested");
            found.push(Violation::new(PROMISE, Some(job), what));
        }
    }
    found
}

/// A delivery that was asked for after a request was answered.
fn again<'e>(evidence: &'e Evidence, story: &Story) -> Option<(i64, &'e Take)> {
    let requests = story.verbs.iter();
    let mut requests = requests
        .filter(|(_, verb, answer)| verb == "cancel" && answer.as_deref() == Some("[Requested]"));
    let (requested, ..) = requests.next()?;
    let takes = story.takes.iter().map(|(take, _)| &evidence.ledger.takes[*take]);
    let mut later = takes.filter(|take| take.sent > *requested && !repeats(evidence, take));
    Some((*requested, later.next()?))
}
