//! No key on two live jobs of a tenant (P3), parked ones included, at the end and all along.

use std::collections::BTreeMap;

use jobs_core::{JobRef, KeyScope};

use super::{Evidence, Violation};
use crate::soak::{ledger::Event, read::Story, store::Kept};

const PROMISE: &str = "a key has one live job";

/// A job with a key: what is stored, and what was seen.
type Keyed<'e> = (&'e JobRef, &'e Kept, &'e Story);

pub fn check(evidence: &Evidence) -> Vec<Violation> {
    let mut found = Vec::new();
    for line in &evidence.ledger.lines {
        if let Event::TwoKeys { job, other, key } = &line.event {
            found.push(Violation::new(
                PROMISE,
                Some(job),
                format!("{key} is also held by {other}"),
            ));
        }
    }
    let mut holders: BTreeMap<(&str, &str), Vec<Keyed<'_>>> = BTreeMap::new();
    for (job, kept) in &evidence.store.jobs {
        let Some(story) = evidence.ledger.stories.get(job) else { continue };
        if let Some(key) = &kept.key {
            holders.entry((&job.tenant, &key.text)).or_default().push((job, kept, story));
        }
    }
    for ((_, key), mut jobs) in holders {
        jobs.sort_by_key(|(_, kept, _)| kept.pushed_at);
        for (at, one) in jobs.iter().enumerate() {
            let later = jobs[at + 1..].iter().find(|other| both(evidence, one, other));
            if let Some((other, ..)) = later {
                let what = format!("{other} was stored with its key {key} while it held that");
                found.push(Violation::new(PROMISE, Some(one.0), what));
            }
        }
    }
    found
}

/// Was the later one stored while the earlier one held the key?
fn both(evidence: &Evidence, one: &Keyed<'_>, other: &Keyed<'_>) -> bool {
    let ((_, kept, story), (_, later, later_story)) = (one, other);
    // An operator frees keys, and gives them back; what is live in the end holds it in any case.
    let freed = story.may("cancel", "Cancelled")
        || story.told("cancel", "Requested")
        || story.may("delete", "Deleted");
    match kept.key.as_ref().map(|key| key.scope) {
        Some(KeyScope::UntilFinished) => {
            let end = kept.finished_at;
            let at_once = later.pushed_at < end.unwrap_or(later.pushed_at)
                || (end.is_none() && kept.state.is_live());
            let until_started = later.key.as_ref().map(|key| key.scope);
            let holds = until_started == Some(KeyScope::UntilFinished) && later.state.is_live();
            if freed { end.is_none() && holds } else { at_once }
        }
        Some(KeyScope::UntilStarted) if !freed => {
            // Only where every delivery of it was seen is its first one known.
            let seen: std::collections::BTreeSet<_> =
                story.takes.iter().map(|(_, fence)| fence).collect();
            let complete = seen.len() >= kept.attempts.len() + kept.given_back;
            let first = story.takes.iter().map(|(take, _)| evidence.ledger.takes[*take].sent).min();
            match (story.stored(), later_story.stored(), first) {
                (Some(push), Some(later), Some(first)) => {
                    complete && push.at <= later.sent && later.at < first
                }
                _ => false,
            }
        }
        _ => false,
    }
}
