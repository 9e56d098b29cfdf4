//! What stale claims could do, and what an answered settlement is worth.

use super::*;

const STALE: &str = "no stale write is accepted";
const HOLDS: &str = "a settlement that was answered holds";

#[test]
fn stale_writes() {
    scene(|s, job| s.late(job, 30, 1, Told::Lost)).in_order();
    scene(|s, job| s.late(job, 30, 1, Told::Applied(State::Done))).finds(STALE, "long over");
    let late = |outcome, forged, told, changed: Option<&'static str>| {
        let changed = changed.map(str::to_owned);
        scene(move |s, job| s.late_as(job, 30, (outcome, forged), (1, told), changed))
    };
    let (done, already) = (Some(OutcomeKind::Done), Told::Already(OutcomeKind::Done));
    late(None, false, Told::Lost, None).in_order();
    late(None, false, Told::Held, None).finds(STALE, "told Held of a renewal under fence 1");
    late(done, false, already, None).in_order();
    late(done, true, Told::Lost, None).in_order();
    late(done, true, already, None).finds(STALE, "of done under fence 1, another nonce");
    late(None, true, Told::Held, None).finds(STALE, "another nonce");
    late(done, false, Told::Lost, Some("it moved")).finds(STALE, "was refused done");
    let nobody = scene(|s, _| s.lines.retain(|l| !matches!(l.event, Event::Start { .. })));
    nobody.finds(STALE, "no handler ran it");
    let other =
        scene(|s, job| s.store.jobs.get_mut(job).unwrap().attempts[0].worker = "w9.9:1".into());
    other.finds(STALE, "not its worker");
    let how = |to, how| {
        scene(move |s, job| {
            s.lines.retain(|line| !matches!(line.event, Event::Start { .. }));
            s.run(job, (13, to), "w0.1", 1, how);
        })
    };
    how(21, How::Failed).finds(STALE, "otherwise, or later");
    how(1300, How::Done).finds(STALE, "otherwise, or later");
}

/// A job that failed and was taken again by w0.2, which is done.
fn again(change: impl FnOnce(&mut Scene, &JobRef)) -> Scene {
    let (mut scene, job) = (Scene::default(), job("acme"));
    scene.push(&job, 1, Answer::Stored);
    scene.take(&job, 10, "w0.1", 1);
    scene.run(&job, (13, 20), "w0.1", 1, How::Failed);
    scene.settle(&job, (22, "w0.1"), 1, OutcomeKind::Retry, Some(Told::Applied(State::Scheduled)));
    scene.take(&job, 30, "w0.2", 2);
    scene.run(&job, (33, 40), "w0.2", 2, How::Done);
    scene.settle(&job, (42, "w0.2"), 2, OutcomeKind::Done, Some(Told::Applied(State::Done)));
    let done = Attempt { worker: "w0.2:11".into(), ..attempt(2, 29, 41, OutcomeKind::Done) };
    scene.keep(&job, State::Done, vec![attempt(1, 9, 21, OutcomeKind::Retry), done]);
    change(&mut scene, &job);
    scene
}

#[test]
fn a_job_with_a_next_holder_is_not_written_to_by_the_one_before() {
    again(|s, job| s.renew(job, 15, 1)).in_order();
    again(|s, job| s.renew(job, 31, 1)).finds(STALE, "renewed, and the job was taken before");
    // Settled by the same claim twice is out of place by itself.
    let settled = again(|s, job| {
        s.lines.retain(|line| !matches!(line.event, Event::Settled { fence: 1, .. }));
        let told = Some(Told::Applied(State::Scheduled));
        s.settle(job, (35, "w0.1"), 1, OutcomeKind::Retry, told);
    });
    settled.finds(STALE, "settled, and the job was taken before");
}

#[test]
fn a_repetition_is_told_what_won() {
    let told = |fence, outcome| again(move |s, job| s.late(job, 50, fence, Told::Already(outcome)));
    told(1, OutcomeKind::Retry).in_order();
    told(1, OutcomeKind::Done).finds(HOLDS, "done had won of fence 1; retry did");
    told(2, OutcomeKind::Done).in_order();
    told(2, OutcomeKind::Retry).finds(HOLDS, "retry had won of fence 2; done did");
    // By the record, where the answer was not heard.
    let unheard = |outcome| {
        again(move |s, job| {
            s.lines.retain(|line| !matches!(line.event, Event::Settled { fence: 1, .. }));
            s.settle(job, (22, "w0.1"), 1, OutcomeKind::Retry, None);
            s.settle(job, (24, "w0.1"), 1, OutcomeKind::Retry, Some(Told::Already(outcome)));
        })
    };
    unheard(OutcomeKind::Retry).in_order();
    unheard(OutcomeKind::Park).finds(HOLDS, "park had won of fence 1; retry did");
    // By what was sent, where it is not on record either.
    let snoozed = |outcome| {
        again(move |s, job| {
            s.lines.retain(|line| !matches!(line.event, Event::Settled { fence: 1, .. }));
            s.store.jobs.get_mut(job).unwrap().attempts.remove(0);
            s.store.jobs.get_mut(job).unwrap().attempts[0].number = 1;
            for line in &mut s.lines {
                if let Event::Start { attempt, .. } = &mut line.event {
                    *attempt = 1;
                }
            }
            s.settle(job, (22, "w0.1"), 1, OutcomeKind::Snooze, None);
            s.settle(job, (24, "w0.1"), 1, OutcomeKind::Snooze, Some(Told::Already(outcome)));
        })
    };
    snoozed(OutcomeKind::Snooze).in_order();
    snoozed(OutcomeKind::Release).finds(HOLDS, "release had won of fence 1; another one did");
}

#[test]
fn a_settlement_is_applied_once_and_on_record() {
    let told = Some(Told::Applied(State::Done));
    let twice = again(|s, job| s.settle(job, (45, "w0.2"), 2, OutcomeKind::Done, told));
    twice.finds(HOLDS, "two settlements of one claim");
    let other = again(|s, _| {
        for line in &mut s.lines {
            if let Event::Settled { fence: 1, outcome, .. } = &mut line.event {
                *outcome = OutcomeKind::Park;
            }
        }
    });
    other.finds(HOLDS, "it is not on record");
}
