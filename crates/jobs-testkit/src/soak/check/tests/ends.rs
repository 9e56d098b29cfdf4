//! Pushes and their ends, and the attempts between.

use super::*;

const ENDS: &str = "an acknowledged push ends once";
const COUNTED: &str = "attempts are counted";

#[test]
fn a_job_pushed_again_after_its_end_is_another() {
    let again = |s: &mut Scene, job: &JobRef| {
        s.verb(job, 30, "cancel", Some("[Cancelled]"));
        s.verb(job, 31, "delete", Some("[Deleted]"));
        s.push(job, 40, Answer::Stored);
        s.take(job, 50, "w0.1", 1);
        s.run(job, (53, 60), "w0.1", 1, How::Done);
        s.keep(job, State::Done, vec![attempt(1, 49, 62, OutcomeKind::Done)]);
    };
    scene(again).in_order();
}

#[test]
fn pushes_and_their_ends() {
    scene(|s, job| drop(s.store.jobs.remove(job))).finds(ENDS, "gone");
    let stranger = |s: &mut Scene, _: &JobRef| _ = s.keep(&job("acme"), State::Parked, Vec::new());
    scene(stranger).finds(ENDS, "nobody");
    scene(|s, _| s.push(&job("acme"), 2, Answer::Duplicate(State::Done))).finds(ENDS, "fresh id");
    scene(|s, _| s.push(&job("acme"), 2, Answer::Refused("no".into()))).finds(ENDS, "refused");
    let refused = |s: &mut Scene, first: &JobRef| {
        key_of(s, first, KeyScope::UntilFinished);
        let (job, key) = (job("acme"), s.store.jobs[first].key.clone());
        s.push_as(&job, 2, ("quick", key.clone()), Answer::KeyHeld(first.id, State::Ready));
        s.keep(&job, State::Parked, vec![attempt(1, 3, 4, OutcomeKind::Lost)]).key = key;
        s.fault(3, Kind::Kill, Some("w0.1"), false);
    };
    scene(refused).finds(ENDS, "no push of it");
    let state = |state| scene(move |s, job| s.store.jobs.get_mut(job).unwrap().state = state);
    state(State::Ready).finds(ENDS, "on record as done");
    let parked = |cause| {
        scene(move |s, job| {
            s.lines.retain(|line| !matches!(line.event, Event::End { .. }));
            let (job, how) = (job.clone(), How::Failed);
            s.say(20, "w0.1", Event::End { job: job.clone(), fence: 1, how });
            let attempts = vec![attempt(1, 9, 22, OutcomeKind::Park)];
            s.keep(&job, State::Parked, attempts).has_cause = cause;
        })
    };
    parked(true).in_order();
    parked(false).finds(ENDS, "without a cause");
    scene(|s, job| s.store.jobs.get_mut(job).unwrap().attempts.clear()).finds(ENDS, "0 attempts");
    let cancelled = scene(|s, job| _ = s.keep(job, State::Cancelled, Vec::new()));
    cancelled.finds(ENDS, "nobody asked");
    scene(|s, job| s.push(job, 40, Answer::Stored)).finds(ENDS, "stored 2 times");
    scene(|s, job| s.verb(job, 5, "cancel", Some("[Cancelled]"))).finds(ENDS, "after it was");
    scene(|s, job| s.verb(job, 30, "delete", Some("[Deleted]"))).finds(ENDS, "it is there");
}

#[test]
fn what_an_operator_did_is_in_order() {
    let deleted = |s: &mut Scene, job: &JobRef| {
        s.verb(job, 30, "delete", Some("[Deleted]"));
        s.store.jobs.remove(job);
    };
    scene(deleted).in_order();
    let cancelled = |s: &mut Scene, job: &JobRef| {
        s.verb(job, 5, "cancel", Some("[Cancelled]"));
        s.keep(job, State::Cancelled, Vec::new());
    };
    scene(cancelled).in_order();
}

#[test]
fn only_a_delete_that_happened_excuses_a_job_that_is_gone() {
    let gone = |answers: &'static [Option<&'static str>]| {
        scene(move |s, job| {
            answers.iter().for_each(|answer| s.verb(job, 30, "delete", *answer));
            s.store.jobs.remove(job);
        })
    };
    gone(&[None, Some("[Running]")]).finds(ENDS, "gone");
    gone(&[None, Some("[Unknown]")]).finds(ENDS, "gone");
    gone(&[None, Some("[Deleted]")]).in_order();
    // Whoever asked does not know.
    gone(&[None, Some("no answer: the disk is slow")]).in_order();
    gone(&[None]).in_order();
}

#[test]
fn only_a_cancel_that_happened_excuses_a_cancelled_job() {
    let cancelled = |answer| {
        scene(move |s, job| {
            s.verb(job, 15, "cancel", None);
            s.verb(job, 15, "cancel", Some(answer));
            s.keep(job, State::Cancelled, Vec::new());
        })
    };
    cancelled("[NotLive(Parked)]").finds(ENDS, "nobody asked");
    cancelled("[Requested]").in_order();
    let attempt = |answer| {
        scene(move |s, job| {
            s.verb(job, 15, "cancel", None);
            s.verb(job, 15, "cancel", Some(answer));
            s.keep(job, State::Cancelled, vec![attempt(1, 9, 22, OutcomeKind::Cancelled)]);
        })
    };
    attempt("[Requested]").in_order();
    attempt("[Cancelled]").finds(ENDS, "ended as cancelled, and nobody asked");
}

/// Two attempts, the last one parked, of a job that may have `most`; `change` is done to them.
fn parked(most: u32, change: impl FnOnce(&mut Vec<Attempt>)) -> Scene {
    let (mut scene, job) = (Scene::default(), job("acme"));
    scene.push(&job, 1, Answer::Stored);
    for fence in [1, 2] {
        scene.take(&job, 100 * fence, "w0.1", fence);
        scene.run(&job, (100 * fence + 1, 100 * fence + 2), "w0.1", fence, How::Failed);
    }
    let mut attempts =
        vec![attempt(1, 99, 103, OutcomeKind::Retry), attempt(2, 199, 203, OutcomeKind::Park)];
    change(&mut attempts);
    scene.keep(&job, State::Parked, attempts).max_attempts = most;
    scene
}

#[test]
fn attempts_are_all_spent_before_a_job_is_parked_and_no_more() {
    parked(2, |_| {}).in_order();
    parked(3, |_| {}).finds(COUNTED, "parked before its 3 attempts");
    parked(1, |_| {}).finds(COUNTED, "it may have 1 attempts");
    // By a lease that was lost, as the sweep does.
    let lost = |most| {
        let mut scene = parked(most, |attempts| {
            attempts[1].outcome = OutcomeKind::Lost;
            attempts[1].ended_at = stored_at(2300);
        });
        scene.fault(202, Kind::Kill, Some("w0.1"), false);
        scene
    };
    lost(2).in_order();
    lost(3).finds(COUNTED, "parked with attempts left");
    let retried = |answer: Option<&'static str>| {
        scene(move |s, job| {
            s.verb(job, 40, "cancel", Some("[Requested]"));
            answer.iter().for_each(|answer| s.verb(job, 50, "retry", Some(answer)));
            s.take(job, 100, "w0.1", 2);
            s.start(job, (101, "w0.1"), "quick", 1, 2);
            s.end(job, (102, "w0.1"), 2, How::Done);
            let kept = s.store.jobs.get_mut(job).unwrap();
            kept.attempts[0].outcome = OutcomeKind::Cancelled;
            let again = super::attempt(2, 99, 103, OutcomeKind::Done);
            kept.attempts.push(Attempt { number: 1, ..again });
        })
    };
    retried(Some("[Retried]")).in_order();
    for answer in [Some("[NotRetryable(Running)]"), None] {
        // Nor should it have been delivered.
        let found = retried(answer).found();
        assert!(found.iter().any(|found| found.contains("do not follow each other")), "{found:?}");
    }
    // Nor was its first delivery ended by anything.
    let found = parked(2, |attempts| _ = attempts.remove(0)).found();
    assert!(found.iter().any(|found| found.contains("is no first")), "{found:?}");
    let spent = scene(|s, job| {
        s.verb(job, 30, "cancel", Some("[Cancelled]"));
        let attempts = vec![attempt(1, 9, 22, OutcomeKind::Retry)];
        s.keep(job, State::Cancelled, attempts).max_attempts = 1;
        for line in &mut s.lines {
            if let Event::End { how, .. } = &mut line.event {
                *how = How::Failed;
            }
        }
    });
    spent.finds(COUNTED, "to be tried again with its 1 attempts spent");
    let heard = scene(|s, _| {
        for line in &mut s.lines {
            if let Event::Start { attempt, .. } = &mut line.event {
                *attempt = 3;
            }
        }
    });
    heard.finds(COUNTED, "was told another number");
}
