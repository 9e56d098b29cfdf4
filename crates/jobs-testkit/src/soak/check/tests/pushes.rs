//! Pushes that are refused for a key, cancels that are requested, and the clock.

use super::*;

const HOLDER: &str = "a key that is held has a holder";
const KEPT: &str = "a requested cancel is kept";
const CLOCK: &str = "the store's clock runs as time does";

/// A job with the key, done at 22 or as it is changed; and one that is refused for it at `at`.
fn refused(at: i64, scope: KeyScope, change: impl FnOnce(&mut Scene, &JobRef)) -> Scene {
    let (mut scene, job) = (Scene::default(), job("acme"));
    let key = Some(Key { text: "k1".into(), scope });
    scene.push_as(&job, 1, ("quick", key.clone()), Answer::Stored);
    scene.take(&job, 10, "w0.1", 1);
    scene.run(&job, (13, 20), "w0.1", 1, How::Done);
    scene.settle(&job, (22, "w0.1"), 1, OutcomeKind::Done, Some(Told::Applied(State::Done)));
    scene.keep(&job, State::Done, vec![attempt(1, 9, 21, OutcomeKind::Done)]).key = key.clone();
    let other = super::job("acme");
    let held = Answer::KeyHeld(job.id, State::Running);
    scene.push_as(&other, at, ("quick", key), held);
    change(&mut scene, &job);
    scene
}

/// The answer of the refused push becomes this one.
fn answered(scene: &mut Scene, id: JobId, state: State) {
    for line in &mut scene.lines {
        if let Event::Pushed { answer, .. } = &mut line.event
            && matches!(answer, Answer::KeyHeld(..))
        {
            *answer = Answer::KeyHeld(id, state);
        }
    }
}

#[test]
fn a_key_that_is_held_has_a_holder() {
    use KeyScope::{UntilFinished, UntilStarted};
    refused(15, UntilFinished, |_, _| {}).in_order();
    refused(30, UntilFinished, |_, _| {}).finds(HOLDER, "by a job that is done");
    refused(9, UntilStarted, |_, _| {}).in_order();
    refused(15, UntilStarted, |_, _| {}).finds(HOLDER, "until its holder started, and it had");
    let ended = |s: &mut Scene, job: &JobRef| answered(s, job.id, State::Done);
    refused(15, UntilFinished, ended).finds(HOLDER, "by a job that has ended");
    let stranger = |s: &mut Scene, _: &JobRef| answered(s, JobId::new(), State::Ready);
    refused(15, UntilFinished, stranger).finds(HOLDER, "that nobody pushed");
    // Another tenant's.
    let foreign = |s: &mut Scene, _: &JobRef| {
        let foreign = job("globex");
        s.done(&foreign);
        answered(s, foreign.id, State::Ready);
    };
    refused(15, UntilFinished, foreign).finds(HOLDER, "that nobody pushed");
    let without = |s: &mut Scene, _: &JobRef| {
        let without = job("acme");
        s.done(&without);
        answered(s, without.id, State::Ready);
    };
    refused(15, UntilFinished, without).finds(HOLDER, "by a job without it");
    let later = |s: &mut Scene, _: &JobRef| {
        let (later, key) = (job("acme"), Some(Key { text: "k1".into(), scope: UntilFinished }));
        s.push_as(&later, 50, ("quick", key.clone()), Answer::Stored);
        s.take(&later, 60, "w0.1", 1);
        s.run(&later, (61, 62), "w0.1", 1, How::Done);
        let done = vec![attempt(1, 59, 63, OutcomeKind::Done)];
        let kept = s.keep(&later, State::Done, done);
        (kept.key, kept.pushed_at) = (key, stored_at(50));
        answered(s, later.id, State::Ready);
    };
    refused(15, UntilFinished, later).finds(HOLDER, "that was stored later");
    // Its settlement was not heard, and it had ended long before.
    let unheard = |s: &mut Scene, _: &JobRef| {
        s.lines.retain(|line| !matches!(line.event, Event::Settled { .. }));
    };
    refused(900, UntilFinished, unheard).in_order();
    refused(1100, UntilFinished, unheard).finds(HOLDER, "that had ended");
    let cancelled = |s: &mut Scene, job: &JobRef| {
        unheard(s, job);
        s.verb(job, 24, "cancel", None);
        s.verb(job, 25, "cancel", Some("[NotLive(Done)]"));
    };
    refused(30, UntilFinished, cancelled).in_order();
    // A stored id beats a held key.
    let own = |s: &mut Scene, job: &JobRef| {
        let key = Some(Key { text: "k1".into(), scope: UntilFinished });
        s.push_as(job, 16, ("quick", key), Answer::KeyHeld(job.id, State::Running));
    };
    refused(15, UntilFinished, own).finds(HOLDER, "for its own key");
    let stored = |s: &mut Scene, job: &JobRef| {
        let other = s.lines.iter().find_map(|line| match &line.event {
            Event::Pushed { job: other, .. } if other != job => Some(other.clone()),
            _ => None,
        });
        let key = Some(Key { text: "k1".into(), scope: UntilFinished });
        s.push_as(job, 16, ("quick", key), Answer::KeyHeld(other.unwrap().id, State::Running));
    };
    let found = refused(15, UntilFinished, stored).found();
    assert!(found[0].starts_with(HOLDER) && found[0].contains("stored before"), "{found:?}");
}

/// A job whose cancel was requested, and whose run failed all the same.
fn requested(change: impl FnOnce(&mut Scene, &JobRef)) -> Scene {
    let (mut scene, job) = (Scene::default(), job("acme"));
    scene.push(&job, 1, Answer::Stored);
    scene.take(&job, 10, "w0.1", 1);
    scene.run(&job, (13, 20), "w0.1", 1, How::Failed);
    scene.verb(&job, 14, "cancel", None);
    scene.verb(&job, 15, "cancel", Some("[Requested]"));
    let told = Some(Told::Applied(State::Scheduled));
    scene.settle(&job, (22, "w0.1"), 1, OutcomeKind::Retry, told);
    scene.take(&job, 200, "w0.1", 2);
    scene.run(&job, (213, 220), "w0.1", 2, How::Done);
    let attempts =
        vec![attempt(1, 9, 21, OutcomeKind::Retry), attempt(2, 199, 221, OutcomeKind::Done)];
    scene.keep(&job, State::Done, attempts);
    change(&mut scene, &job);
    scene
}

#[test]
fn a_requested_cancel_is_kept() {
    requested(|_, _| {}).finds(KEPT, "w0.1 got it 184 ms after its cancel was requested");
    requested(|s, job| s.verb(job, 100, "retry", Some("[Retried]"))).in_order();
    // The repetition of a reserve from before.
    requested(|s, _| s.fail("reserve", (12, 199))).in_order();
}

#[test]
fn the_clock_drifts_nowhere() {
    let read = |readings: &'static [(i64, i64)]| {
        scene(move |s, _| readings.iter().for_each(|(at, ahead)| s.ahead(*at, *ahead)))
    };
    read(&[(100, 5), (500, 40), (900, 100)]).in_order();
    read(&[(100, 5), (500, 60), (900, 120)]).finds(CLOCK, "it drifted by 113 ms");
    let jump: &[(i64, i64)] = &[(100, 5), (500, 60_000), (900, 60_010)];
    read(jump).finds(CLOCK, "it jumped");
    let jumped = |readings| {
        let mut ahead = read(readings);
        ahead.say(300, "w2.2", Event::Up { cut: None, clock: 60_000 });
        ahead
    };
    jumped(jump).in_order();
    // The first one shows the commit that jumped, which was a while before.
    jumped(&[(100, 5), (500, 59_668), (900, 60_000), (9000, 60_001)]).in_order();
    let late = &[(100, 5), (500, 60_000), (7000, 60_000), (9000, 60_332)];
    jumped(late).finds(CLOCK, "it drifted by 330 ms");
}
