//! Keys.

use super::*;

const KEY: &str = "a key has one live job";

fn keyed(s: &mut Scene, scope: KeyScope, state: State, at: i64) -> JobRef {
    let job = job("acme");
    let key = Key { text: "k1".into(), scope };
    s.push_as(&job, at, ("quick", Some(key.clone())), Answer::Stored);
    let attempts = match state {
        State::Parked => vec![attempt(1, at, at + 1, OutcomeKind::Lost)],
        _ => Vec::new(),
    };
    let kept = s.keep(&job, state, attempts);
    kept.key = Some(key);
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
            s.verb(&first, end, "cancel", None);
            s.verb(&first, end, "cancel", Some("[Cancelled]"));
            keyed(s, UntilFinished, State::Parked, 200);
        })
    };
    ended(150).in_order();
    let held = scene(|s, first| {
        key_of(s, first, UntilFinished);
        keyed(s, UntilFinished, State::Parked, 10);
    });
    held.finds(KEY, "while it held that");
    let started = |at| {
        scene(move |s, first| {
            key_of(s, first, UntilStarted);
            keyed(s, UntilFinished, State::Parked, at);
        })
    };
    started(5).finds(KEY, "while it held that");
    started(15).in_order();
    // It was delivered before its push was answered, and again later.
    let racing = scene(|s, first| {
        key_of(s, first, UntilStarted);
        s.lines[0].at = micros(12);
        s.take(first, 40, "w0.1", 1);
        keyed(s, UntilFinished, State::Parked, 15);
    });
    racing.in_order();
    let seen = scene(|s, first| {
        let (job, other) = (first.clone(), job("acme"));
        s.say(7, "coordinator", Event::TwoKeys { job, other, key: "k1".into() });
    });
    seen.finds(KEY, "also held by");
}

/// The first job with the key, cancelled at 30 and taken again by a retry at 50 until it is done at 95;
/// and another that held it from `from` until it was deleted at `to`.
fn retried(from: i64, to: i64) -> Scene {
    scene(move |s, first| {
        key_of(s, first, KeyScope::UntilFinished);
        s.lines.retain(|line| matches!(line.event, Event::Pushed { .. }));
        for (at, verb, answer) in [(30, "cancel", "[Cancelled]"), (50, "retry", "[Retried]")] {
            s.verb(first, at, verb, None);
            s.verb(first, at, verb, Some(answer));
        }
        s.take(first, 90, "w0.1", 2);
        s.run(first, (91, 95), "w0.1", 2, How::Done);
        for line in &mut s.lines {
            if let Event::Start { attempt, .. } = &mut line.event {
                *attempt = 1;
            }
        }
        let done = Attempt { number: 1, ..attempt(2, 89, 96, OutcomeKind::Done) };
        s.keep(first, State::Done, vec![done]);
        key_of(s, first, KeyScope::UntilFinished);
        let (other, key) = (job("acme"), Key { text: "k1".into(), scope: KeyScope::UntilFinished });
        s.push_as(&other, from, ("quick", Some(key)), Answer::Stored);
        s.verb(&other, to, "delete", None);
        s.verb(&other, to, "delete", Some("[Deleted]"));
    })
}

#[test]
fn a_verb_divides_a_life_and_does_not_hide_it() {
    retried(32, 48).in_order();
    retried(97, 99).in_order();
    // Before the cancel, and after the retry.
    retried(20, 25).finds(KEY, "while it held that");
    retried(40, 60).finds(KEY, "while it held that");
    retried(60, 70).finds(KEY, "while it held that");
}

#[test]
fn only_a_verb_that_happened_frees_a_key() {
    let verb = |verb, answer| {
        scene(move |s, first| {
            key_of(s, first, KeyScope::UntilFinished);
            s.verb(first, 11, verb, None);
            s.verb(first, 11, verb, Some(answer));
            keyed(s, KeyScope::UntilFinished, State::Parked, 15);
        })
    };
    verb("cancel", "[NotLive(Parked)]").finds(KEY, "while it held that");
    verb("delete", "[Running]").finds(KEY, "while it held that");
    verb("cancel", "[Requested]").in_order();
}
