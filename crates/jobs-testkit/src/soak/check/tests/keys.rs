//! Keys.

use jobs_core::{Key, KeyScope};

use super::*;

const KEY: &str = "a key has one live job";

fn keyed(s: &mut Scene, scope: KeyScope, state: State, at: i64) -> JobRef {
    let job = job("acme");
    s.push(&job, at, Answer::Stored);
    let attempts = match state {
        State::Parked => vec![attempt(1, at, at + 1, OutcomeKind::Lost)],
        _ => Vec::new(),
    };
    let kept = s.keep(&job, state, attempts);
    kept.key = Some(Key { text: "k1".into(), scope });
    kept.pushed_at = stored_at(at);
    s.fault(at, Kind::Kill, Some("w0.1"), false);
    job
}

#[test]
fn keys() {
    use KeyScope::{UntilFinished, UntilStarted};
    let both = scene(|s, _| {
        keyed(s, UntilFinished, State::Parked, 100);
        keyed(s, UntilFinished, State::Parked, 200);
    });
    both.finds(KEY, "while it held that");
    // The first one's end, before or after the second one's push.
    let ended = |end| {
        scene(move |s, _| {
            let first = keyed(s, UntilFinished, State::Cancelled, 100);
            s.store.jobs.get_mut(&first).unwrap().finished_at = Some(stored_at(end));
            s.verb(&first, 500, "cancel", None);
            s.verb(&first, 500, "cancel", Some("[Cancelled]"));
            keyed(s, UntilFinished, State::Parked, 200);
        })
    };
    ended(150).in_order();
    let held = scene(|s, first| {
        let kept = s.store.jobs.get_mut(first).unwrap();
        kept.key = Some(Key { text: "k1".into(), scope: UntilFinished });
        keyed(s, UntilFinished, State::Parked, 10);
    });
    held.finds(KEY, "while it held that");
    let started = |at| {
        scene(move |s, first| {
            let kept = s.store.jobs.get_mut(first).unwrap();
            kept.key = Some(Key { text: "k1".into(), scope: UntilStarted });
            keyed(s, UntilFinished, State::Parked, at);
        })
    };
    started(5).finds(KEY, "while it held that");
    started(15).in_order();
    let seen = scene(|s, first| {
        let (job, other) = (first.clone(), job("acme"));
        s.say(7, "coordinator", Event::TwoKeys { job, other, key: "k1".into() });
    });
    seen.finds(KEY, "also held by");
}

#[test]
fn only_a_verb_that_happened_frees_a_key() {
    let verb = |verb, answer| {
        scene(move |s, first| {
            let kept = s.store.jobs.get_mut(first).unwrap();
            kept.key = Some(Key { text: "k1".into(), scope: KeyScope::UntilFinished });
            s.verb(first, 9, verb, None);
            s.verb(first, 9, verb, Some(answer));
            keyed(s, KeyScope::UntilFinished, State::Parked, 10);
        })
    };
    verb("cancel", "[NotLive(Parked)]").finds(KEY, "while it held that");
    verb("delete", "[Running]").finds(KEY, "while it held that");
    verb("cancel", "[Requested]").in_order();
}
