//! No key on two live jobs of a tenant (P3), parked ones included, at the end and all along: by the
//! store's times, and by what was seen.

use std::collections::BTreeMap;

use jobs_core::{JobRef, KeyScope};

use super::{Evidence, Violation};
use crate::soak::{
    danger::Span,
    ledger::{Event, How},
    read::{Push, Story},
    store::Kept,
};

const PROMISE: &str = "a key has one live job";

/// A job that was stored with a key.
struct Keyed<'e> {
    job: &'e JobRef,
    story: &'e Story,
    kept: Option<&'e Kept>,
    push: &'e Push,
    scope: KeyScope,
    /// When it certainly held it, by the machine's clock.
    held: Vec<Span>,
}

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
    for (job, story) in &evidence.ledger.stories {
        let Some(push) = story.stored() else { continue };
        let Some(key) = &push.key else { continue };
        let (kept, scope) = (evidence.store.jobs.get(job), key.scope);
        let held = held(evidence, story, kept, push);
        let keyed = Keyed { job, story, kept, push, scope, held };
        holders.entry((&job.tenant, &key.text)).or_default().push(keyed);
    }
    for ((_, key), mut jobs) in holders {
        jobs.sort_by_key(|keyed| keyed.push.at);
        for (at, one) in jobs.iter().enumerate() {
            let wrong = |other: &&Keyed<'_>| stored_while_held(one, other) || meet(one, other);
            if let Some(other) = jobs[at + 1..].iter().find(wrong) {
                let what =
                    format!("{} was stored with its key {key} while it held that", other.job);
                found.push(Violation::new(PROMISE, Some(one.job), what));
            }
        }
    }
    found
}

/// Both held it at a time, by what was seen.
fn meet(one: &Keyed<'_>, other: &Keyed<'_>) -> bool {
    let meets = |(from, to): &Span| other.held.iter().any(|(start, end)| from < end && start < to);
    one.held.iter().any(meets)
}

/// By the store's times, where no operator has freed the key: was one of them stored before the
/// other had ended?
fn stored_while_held(one: &Keyed<'_>, other: &Keyed<'_>) -> bool {
    let (Some(first), Some(second)) = (one.kept, other.kept) else { return false };
    let (first, second, story) = match first.pushed_at <= second.pushed_at {
        true => ((first, one.scope), second, one.story),
        false => ((second, other.scope), first, other.story),
    };
    let (first, scope) = first;
    if scope != KeyScope::UntilFinished || !effects(story, "cancel").is_empty() {
        return false;
    }
    let end = first.finished_at;
    second.pushed_at < end.unwrap_or(second.pushed_at) || (end.is_none() && first.state.is_live())
}

/// When this job certainly held its key: from its push, and from each retry, until something that may
/// have freed it. A parked or a running job holds it; one that is done never takes it again.
pub fn held(evidence: &Evidence, story: &Story, kept: Option<&Kept>, push: &Push) -> Vec<Span> {
    let Some(key) = &push.key else { return Vec::new() };
    let mut ends = [effects(story, "cancel"), effects(story, "delete")].concat();
    // Its settlement was sent after its handler ended.
    let done = story.runs.iter().filter_map(|run| run.end);
    ends.extend(done.filter(|(_, how)| *how == How::Done).map(|(at, _)| at));
    // It may have been delivered, or seen, before its push was answered.
    let mut from = vec![(i64::MIN, push.at)];
    match key.scope {
        KeyScope::UntilStarted => {
            // Only where every delivery of it was seen is its first one known.
            let seen: std::collections::BTreeSet<_> =
                story.takes.iter().map(|(_, fence)| fence).collect();
            let all = kept.map(|kept| kept.attempts.len() + kept.given_back);
            if all.is_none_or(|all| seen.len() < all) {
                return Vec::new();
            }
            ends.extend(story.takes.iter().map(|(take, _)| evidence.ledger.takes[*take].sent));
        }
        KeyScope::UntilFinished => {
            let mut asked = None;
            for (at, verb, answer) in story.verbs.iter().filter(|(_, verb, _)| verb == "retry") {
                match answer.as_deref() {
                    None => asked = Some(*at),
                    Some("[Retried]") => from.extend(asked.take().map(|asked| (asked, *at))),
                    Some(_) => asked = None,
                }
                debug_assert_eq!(verb, "retry");
            }
        }
    }
    let end = |after: i64| ends.iter().copied().filter(|end| *end >= after).min();
    let spans = from.into_iter().map(|(asked, at)| (at, end(asked).unwrap_or(i64::MAX)));
    spans.filter(|(from, to)| from < to).collect()
}

/// When verbs were asked for that may have freed a key: their answers do not say that they did
/// nothing.
fn effects(story: &Story, verb: &str) -> Vec<i64> {
    let own: Vec<_> = story.verbs.iter().filter(|(_, asked, _)| asked == verb).collect();
    let nothing = ["[NotLive", "[Running]", "[Unknown]"];
    let mut found = Vec::new();
    for (at, (when, _, answer)) in own.iter().enumerate() {
        if answer.is_some() {
            continue;
        }
        // Where two ask at once, an answer may be either's.
        let alone = at == 0 || own[at - 1].2.is_some();
        let told = own.get(at + 1).and_then(|(.., answer)| answer.as_deref());
        let idle = told.is_some_and(|told| nothing.iter().any(|word| told.starts_with(word)));
        if !(alone && idle) {
            found.push(*when);
        }
    }
    found
}
