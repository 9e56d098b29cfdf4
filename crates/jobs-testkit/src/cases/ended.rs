//! Cases: what settlements leave behind, on record and as history.

use std::time::Duration;

use jobs_core::{
    Admin, Cause, JobRef, Outcome, OutcomeKind, Settled, State, admin::Cancelled,
    outcome::MAX_CAUSE, queue::KEPT_ATTEMPTS, retention::Retention, view::List,
};

use crate::{
    invariants,
    kit::{Kit, QUEUE, checked, job, push, take_one, wants},
    ops::{LAPSE, LATER, cancel, from_queue, hold, look, record, settle, sweep_all, walk},
};

super::cases![
    s4_attempts_are_on_record,
    s4_causes_are_cut_and_kept,
    s4_the_newest_hundred_are_kept,
    s5_retention_by_age,
    s5_retention_by_number,
    s5_the_number_counts_jobs_that_end_together,
    s5_parked_is_never_pruned,
];

/// Number, fence, worker, start, end, outcome and cause of each, through every way to end.
async fn s4_attempts_are_on_record(kit: &Kit) {
    let store = kit.handle().await;
    let job = push(&*store, job("acme")).await.job_ref();
    let mut expected = Vec::new();
    let ends = [
        Some(Outcome::Retry { after: Duration::ZERO, cause: "first".into() }),
        Some(Outcome::Release),
        None,
        Some(Outcome::Snooze { after: Duration::ZERO }),
        Some(Outcome::Retry { after: LATER, cause: "third".into() }),
        Some(Outcome::Done),
    ];
    for (turn, end) in ends.into_iter().enumerate() {
        let worker = format!("worker {turn} é");
        let held = hold(&*store, &from_queue(QUEUE, &worker, 1), 1).await.remove(0);
        kit.age_secs(5).await;
        let kind = end.as_ref().map_or(OutcomeKind::Lost, Outcome::kind);
        let cause = end.as_ref().and_then(Outcome::cause).cloned();
        match end {
            Some(outcome) => {
                let answer = settle(&*store, &held.claim, outcome).await;
                assert!(matches!(answer, Settled::Applied(_)), "{answer:?}");
            }
            None => {
                kit.age(LAPSE).await;
                assert_eq!(sweep_all(&*store).await.len(), 1);
            }
        }
        if kind.is_recorded() {
            expected.push((held.attempt, held.claim.fence, worker, kind, cause));
        }
        let record = record(&*store, &job).await;
        let last = record.attempts.last().expect("the first one is on record");
        let took = last.ended_at.duration_since(last.started_at).as_secs();
        assert!((5..90).contains(&took), "{last:?} took at least 5 s");
        assert!(last.ended_at <= record.now);
        kit.age(LATER).await;
    }
    let record = record(&*store, &job).await;
    let numbers: Vec<_> = record.attempts.iter().map(|attempt| attempt.number).collect();
    assert_eq!(numbers, [1, 2, 3, 4]);
    assert_eq!(record.attempts.len(), expected.len());
    for (attempt, (number, fence, worker, outcome, cause)) in record.attempts.iter().zip(expected) {
        assert_eq!((attempt.number, attempt.fence), (number, fence), "{attempt:?}");
        assert_eq!((&attempt.worker, attempt.outcome), (&worker, outcome), "{attempt:?}");
        if outcome != OutcomeKind::Lost {
            assert_eq!(attempt.cause, cause, "{attempt:?}");
        }
    }
    assert_eq!((record.releases, record.snoozes), (1, 1));
    assert_eq!(record.view.state, State::Done);
    invariants::hold(&*store).await;
}

/// 16 KiB of anything a handler may say, byte for byte, in the record and in the view.
async fn s4_causes_are_cut_and_kept(kit: &Kit) {
    let store = kit.handle().await;
    let causes = [
        Cause::new("x".repeat(MAX_CAUSE)),
        Cause::new("x".repeat(MAX_CAUSE * 3)),
        Cause::new(format!("a{}", "é".repeat(MAX_CAUSE))),
        Cause::new("🦀".repeat(MAX_CAUSE)),
        Cause::from_bytes(b"\xff\xfe\0 not UTF-8 \x80"),
        Cause::new("line\r\n\ttab \u{1b}[31m \\ \\u0000 ' \" {} %s $1 ?1 \u{2028} \u{feff}end"),
    ];
    assert!(causes.iter().all(|cause| cause.as_str().len() <= MAX_CAUSE));
    for cause in causes {
        for outcome in [
            Outcome::Retry { after: LATER, cause: cause.clone() },
            Outcome::Park { cause: cause.clone() },
            Outcome::Cancelled { cause: cause.clone() },
        ] {
            push(&*store, job("acme")).await;
            let claim = take_one(&*store).await.claim;
            let answer = settle(&*store, &claim, outcome.clone()).await;
            assert!(matches!(answer, Settled::Applied(_)), "{answer:?}");
            let record = record(&*store, &claim.job).await;
            let kept = record.attempts.last().and_then(|attempt| attempt.cause.as_ref());
            assert!(kept == Some(&cause), "{:?} of {:.40}", outcome.kind(), cause.as_str());
            assert!(record.view.last_cause.as_ref() == Some(&cause), "{:?}", outcome.kind());
        }
    }
}

/// Of 103 attempts the newest 100, numbers going on.
async fn s4_the_newest_hundred_are_kept(kit: &Kit) {
    let store = kit.handle().await;
    let job = push(&*store, job("acme").max_attempts(1000)).await.job_ref();
    let attempts = KEPT_ATTEMPTS as u32 + 3;
    for number in 1..=attempts {
        let held = take_one(&*store).await;
        assert_eq!(held.attempt, number);
        let cause = format!("attempt {number}").into();
        settle(&*store, &held.claim, Outcome::Retry { after: Duration::ZERO, cause }).await;
    }
    let record = record(&*store, &job).await;
    let numbers: Vec<_> = record.attempts.iter().map(|attempt| attempt.number).collect();
    assert_eq!(numbers, (4..=attempts).collect::<Vec<_>>());
    assert_eq!(record.view.attempt, attempts);
    let causes = record.attempts.iter().zip(4..);
    for (attempt, number) in causes {
        assert_eq!(attempt.cause, Some(format!("attempt {number}").into()));
    }
}

/// Ends `jobs` jobs of a queue, one second apart, oldest first.
async fn end(
    kit: &Kit,
    store: &dyn Admin,
    queue: &str,
    outcome: Outcome,
    jobs: usize,
) -> Vec<JobRef> {
    let mut ended = Vec::new();
    for _ in 0..jobs {
        push(store, job("acme").on(queue)).await;
        let claim = hold(store, &from_queue(queue, "suite", 1), 1).await.remove(0).claim;
        settle(store, &claim, outcome.clone()).await;
        kit.age_secs(1).await;
        ended.push(claim.job);
    }
    ended
}

async fn listed(store: &dyn Admin, queue: &str) -> Vec<JobRef> {
    let list = List { queue: Some(queue.to_owned()), ..List::default() };
    let mut jobs: Vec<_> = walk(store, &list).await.iter().map(|view| view.job.job_ref()).collect();
    jobs.sort_unstable_by_key(|job| job.id);
    jobs
}

/// Done and cancelled each by their own age, from the end and not from the push.
async fn s5_retention_by_age(kit: &Kit) {
    let hour = Duration::from_secs(3600);
    let keeping = Retention { done: hour, cancelled: 3 * hour, ..Retention::default() };
    let store = kit.handle_keeping(keeping).await;
    push(&*store, job("acme").on("done")).await;
    kit.age(2 * hour).await;
    let claim = hold(&*store, &from_queue("done", "suite", 1), 1).await.remove(0).claim;
    settle(&*store, &claim, Outcome::Done).await;
    let done = [claim.job];
    let not_wanted = Outcome::Cancelled { cause: "not wanted".into() };
    let cancelled = end(kit, &*store, "cancelled", not_wanted, 1).await;
    let by_hand = push(&*store, job("acme").on("cancelled")).await.job_ref();
    assert_eq!(cancel(&*store, &by_hand).await, Cancelled::Cancelled);
    let cancelled = [cancelled, vec![by_hand]].concat();

    kit.age(hour - Duration::from_secs(60)).await;
    sweep_all(&*store).await;
    assert_eq!(listed(&*store, "done").await, done, "younger than an hour");
    kit.age_secs(120).await;
    let swept = store.sweep().await.expect("the store answers");
    assert!(swept.pruned >= 1, "a sweep says what left history: {swept:?}");
    sweep_all(&*store).await;
    assert!(listed(&*store, "done").await.is_empty());
    assert!(look(&*store, &done[0]).await.is_none());
    assert_eq!(listed(&*store, "cancelled").await, cancelled, "kept for three hours");
    kit.age(2 * hour).await;
    sweep_all(&*store).await;
    assert!(listed(&*store, "cancelled").await.is_empty());
    invariants::hold_with(&*store, &[]).await;
}

/// The newest of each queue, cancelled ones not among them.
async fn s5_retention_by_number(kit: &Kit) {
    let keeping = Retention { done_per_queue: 3, ..Retention::default() };
    let store = kit.handle_keeping(keeping).await;
    let not_wanted = Outcome::Cancelled { cause: "not wanted".into() };
    let cancelled = end(kit, &*store, "many", not_wanted, 5).await;
    let many = end(kit, &*store, "many", Outcome::Done, 7).await;
    let few = end(kit, &*store, "few", Outcome::Done, 3).await;
    // Past the time in which even a pruned job leaves a stub.
    kit.age_secs(130).await;
    sweep_all(&*store).await;
    assert_eq!(listed(&*store, "many").await, [&cancelled[..], &many[4..]].concat());
    assert_eq!(listed(&*store, "few").await, few, "another queue's number");
    let one_more = end(kit, &*store, "many", Outcome::Done, 1).await;
    kit.age_secs(130).await;
    sweep_all(&*store).await;
    assert_eq!(listed(&*store, "many").await, [&cancelled[..], &many[5..], &one_more[..]].concat());
    invariants::hold(&*store).await;
}

/// Of those that one call ended, as many stay as were asked for, no fewer.
async fn s5_the_number_counts_jobs_that_end_together(kit: &Kit) {
    let keeping = Retention { done_per_queue: 30, ..Retention::default() };
    let store = kit.handle_keeping(keeping).await;
    for round in 1..=3 {
        let jobs: Vec<_> = (0..100).map(|_| checked(job("acme"))).collect();
        assert!(store.enqueue(&jobs).await.iter().all(|answer| answer.is_ok()));
        let held = hold(&*store, &wants(1), 100).await;
        for part in held.chunks(40) {
            let done = |held: &jobs_core::queue::Delivery| jobs_core::Settlement {
                claim: held.claim.clone(),
                outcome: Outcome::Done,
            };
            let done: Vec<_> = part.iter().map(done).collect();
            store.settle(&done).await.expect("the store answers");
        }
        sweep_all(&*store).await;
        assert_eq!(listed(&*store, QUEUE).await.len(), 30, "round {round}: as young as they are");
        kit.age_secs(130).await;
        sweep_all(&*store).await;
        assert_eq!(listed(&*store, QUEUE).await.len(), 30, "round {round}: without their stubs");
    }
    invariants::hold(&*store).await;
}

/// Whatever the age and the number: it waits for a person.
async fn s5_parked_is_never_pruned(kit: &Kit) {
    let zero = Retention { done: Duration::ZERO, done_per_queue: 0, cancelled: Duration::ZERO };
    let store = kit.handle_keeping(zero).await;
    let park = Outcome::Park { cause: "for a person".into() };
    let mut parked = end(kit, &*store, QUEUE, park, 3).await;
    push(&*store, job("acme").max_attempts(1)).await;
    parked.extend(hold(&*store, &wants(1), 1).await.into_iter().map(|held| held.claim.job));
    kit.age(LAPSE).await;
    sweep_all(&*store).await;
    kit.age_secs(400 * 24 * 3600).await;
    sweep_all(&*store).await;
    let records = invariants::hold_with(&*store, &parked).await;
    assert!(records.values().all(|record| record.view.state == State::Parked));
}
