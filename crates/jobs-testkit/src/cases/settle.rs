//! Cases: settle. What is on record afterwards is in [`ended`](super::ended).

use std::time::Duration;

use jobs_core::{
    Job, Outcome, OutcomeKind, Settled, Settlement, State,
    admin::Cancelled,
    queue::{Lease, Pushed, Renewed},
    retention::Retention,
    state::{Facts, Step, step},
};

use crate::{
    invariants,
    kit::{Kit, checked, job, push, take_one, wants},
    ops::{
        LAPSE, LATER, cancel, due, from_queue, hold, look, nothing, outcomes, record, renew,
        settle, state, sweep_all,
    },
};

super::cases![
    s2_each_outcome,
    s2_delays_are_the_stores,
    s2_release_and_snooze_give_the_attempt_back,
    s2_a_requested_cancel_wins_over_all_but_done,
    s2_settle_and_reserve_is_both,
    s3_repeating_a_settlement,
    s3_a_stub_outlives_retention,
    s3_inside_a_batch_the_first_wins,
];

/// As the table says, in one batch, answered in order; and the claim is over.
async fn s2_each_outcome(kit: &Kit) {
    let store = kit.handle().await;
    let mut jobs = Vec::new();
    for _ in outcomes() {
        jobs.push(push(&*store, job("acme")).await.job_ref());
    }
    let held = hold(&*store, &wants(6), 6).await;
    let batch: Vec<_> = held
        .iter()
        .zip(outcomes())
        .map(|(delivery, outcome)| Settlement { claim: delivery.claim.clone(), outcome })
        .collect();
    let answers = store.settle(&batch).await.expect("the store answers");
    for (settlement, answer) in batch.iter().zip(answers) {
        let (job, outcome) = (&settlement.claim.job, &settlement.outcome);
        let Step::To(to) = step(State::Running, outcome.event(), Facts::default()) else {
            panic!("a running job is settled")
        };
        assert_eq!(answer, Settled::Applied(to), "{outcome:?}");
        let after = record(&*store, job).await;
        assert_eq!(after.view.state, to, "{outcome:?}");
        assert_eq!(after.holder, None, "{outcome:?} ends the hold");
        assert_eq!(after.view.last_cause.as_ref(), outcome.cause(), "{outcome:?}");
        assert_eq!(after.view.finished_at.is_some(), !to.is_live(), "{outcome:?}");
        assert_eq!(renew(&*store, &settlement.claim).await, Renewed::Lost, "{outcome:?}");
    }
    // Of all six only the released one is in line.
    let again = take_one(&*store).await;
    assert_eq!(again.claim.job, batch[4].claim.job);
    nothing(&*store, &wants(10)).await;
    assert!(store.settle(&[]).await.expect("the store answers").is_empty());
    invariants::hold_with(&*store, &jobs).await;
}

/// A delay counts from the store's now, to the millisecond, and the longest ends in 2200.
async fn s2_delays_are_the_stores(kit: &Kit) {
    let store = kit.handle().await;
    // First, because ageing moves what is stored, the year 2200 too.
    for after in [Duration::MAX, Duration::from_secs(400 * 366 * 24 * 3600)] {
        push(&*store, job("acme").on("far")).await;
        let held = hold(&*store, &from_queue("far", "suite", 1), 1).await.remove(0);
        let answer = settle(&*store, &held.claim, Outcome::Snooze { after }).await;
        assert_eq!(answer, Settled::Applied(State::Scheduled));
        let view = record(&*store, &held.claim.job).await.view;
        assert_eq!(due(&view).to_string(), "2200-12-31T23:59:59.999Z");
    }
    let delay = Duration::from_secs(30);
    let delayed =
        [Outcome::Retry { after: delay, cause: "later".into() }, Outcome::Snooze { after: delay }];
    for outcome in delayed {
        let queue = outcome.kind().as_str();
        push(&*store, job("acme").on(queue)).await;
        let request = from_queue(queue, "suite", 1);
        let held = hold(&*store, &request, 1).await.remove(0);
        // A run as long as this one: neither its start nor its due time is what the delay is from.
        kit.age_secs(10).await;
        let before = record(&*store, &held.claim.job).await.now;
        settle(&*store, &held.claim, outcome.clone()).await;
        let after = record(&*store, &held.claim.job).await;
        let due = due(&after.view);
        let fits = before + delay <= due && due <= after.now + delay;
        assert!(fits, "{outcome:?}: due {due}, settled from {before} to {}", after.now);

        kit.age_secs(25).await;
        nothing(&*store, &request).await;
        kit.age_secs(6).await;
        hold(&*store, &request, 1).await;
    }
}

/// And release keeps the place in line, snooze does not; retry spends it.
async fn s2_release_and_snooze_give_the_attempt_back(kit: &Kit) {
    let store = kit.handle().await;
    let first = push(&*store, job("acme").max_attempts(2)).await;
    kit.age_secs(5).await;
    let urgent = push(&*store, job("acme").priority(7)).await;
    kit.age_secs(5).await;
    for _ in 0..3 {
        let held = take_one(&*store).await;
        assert_eq!((held.job.id, held.attempt), (urgent.id, 1), "release keeps the priority");
        let due_before = due(&record(&*store, &held.claim.job).await.view);
        assert_eq!(
            settle(&*store, &held.claim, Outcome::Release).await,
            Settled::Applied(State::Ready)
        );
        assert_eq!(due(&record(&*store, &held.claim.job).await.view), due_before);
    }
    let held = take_one(&*store).await;
    settle(&*store, &held.claim, Outcome::Done).await;
    // Younger than the one that is taken and given back: that one keeps its due time.
    push(&*store, job("acme")).await;
    for _ in 0..3 {
        let held = take_one(&*store).await;
        assert_eq!((held.job.id, held.attempt), (first.id, 1), "release keeps the due time");
        assert!(!held.suspect, "given back is not lost");
        settle(&*store, &held.claim, Outcome::Release).await;
    }
    let held = take_one(&*store).await;
    settle(&*store, &held.claim, Outcome::Snooze { after: Duration::from_secs(30) }).await;
    let other = take_one(&*store).await;
    assert_ne!(other.job.id, first.id);
    settle(&*store, &other.claim, Outcome::Done).await;
    kit.age_secs(31).await;
    let held = take_one(&*store).await;
    assert_eq!((held.job.id, held.attempt), (first.id, 1), "a snooze gives the attempt back");
    settle(&*store, &held.claim, Outcome::Retry { after: LATER, cause: "no".into() }).await;
    kit.age(LATER + LAPSE).await;
    let held = take_one(&*store).await;
    assert_eq!(held.attempt, 2, "a retry spends it");
    // The last attempt, given back, is there again.
    settle(&*store, &held.claim, Outcome::Release).await;
    let held = take_one(&*store).await;
    assert_eq!(held.attempt, 2);
    let record = record(&*store, &held.claim.job).await;
    assert_eq!((record.releases, record.snoozes), (4, 1));
    assert_eq!(record.attempts.len(), 1, "what was given back is counted, not recorded");
}

/// Also when the attempt would be given back, or were the last.
async fn s2_a_requested_cancel_wins_over_all_but_done(kit: &Kit) {
    let store = kit.handle().await;
    for max_attempts in [1, 5] {
        for outcome in outcomes() {
            let keyed = job("acme").max_attempts(max_attempts).key("one at a time");
            push(&*store, keyed).await;
            let held = take_one(&*store).await;
            assert_eq!(cancel(&*store, &held.claim.job).await, Cancelled::Requested);
            let done = outcome.kind() == OutcomeKind::Done;
            let to = if done { State::Done } else { State::Cancelled };
            let answer = settle(&*store, &held.claim, outcome.clone()).await;
            assert_eq!(answer, Settled::Applied(to), "{outcome:?}");
            let after = record(&*store, &held.claim.job).await;
            assert_eq!(after.view.state, to, "{outcome:?}");
            assert!(after.view.finished_at.is_some() && !after.view.cancel_requested);
            kit.age(LATER + LAPSE).await;
            sweep_all(&*store).await;
            nothing(&*store, &wants(10)).await;
            // Its end freed the key, so the next round's push is stored.
        }
    }
    invariants::hold(&*store).await;
}

/// One call, two answers, the settlements first.
async fn s2_settle_and_reserve_is_both(kit: &Kit) {
    let store = kit.handle().await;
    for _ in 0..4 {
        push(&*store, job("acme")).await;
    }
    let held = hold(&*store, &wants(4), 4).await;
    kit.age(LAPSE).await;
    store
        .renew(Lease::default(), &held[..3].iter().map(|d| d.claim.clone()).collect::<Vec<_>>())
        .await
        .expect("the store answers");
    sweep_all(&*store).await;
    let batch: Vec<_> = held
        .iter()
        .zip([Outcome::Done, Outcome::Release, Outcome::Park { cause: "no".into() }, Outcome::Done])
        .map(|(delivery, outcome)| Settlement { claim: delivery.claim.clone(), outcome })
        .collect();
    let request = wants(10);
    let (settled, reserved) =
        store.settle_and_reserve(&batch, &request).await.expect("the store answers");
    let applied = [State::Done, State::Ready, State::Parked].map(Settled::Applied);
    assert_eq!(settled, [&applied[..], &[Settled::Lost]].concat());
    // The released one and the swept one.
    let mut taken: Vec<_> = reserved.deliveries.iter().map(|delivery| &delivery.claim).collect();
    taken.sort_unstable_by_key(|claim| claim.job.id);
    let mut expected = [&held[1].claim.job, &held[3].claim.job];
    expected.sort_unstable_by_key(|job| job.id);
    assert_eq!(taken.iter().map(|claim| &claim.job).collect::<Vec<_>>(), expected);
    for claim in &taken {
        assert_eq!(claim.nonce, request.nonce_of());
        assert_eq!(renew(&*store, claim).await, Renewed::Held);
    }
    // Repeated after a lost answer, both halves say what they said.
    let (settled, again) =
        store.settle_and_reserve(&batch[..3], &request).await.expect("the store answers");
    let kinds = [OutcomeKind::Done, OutcomeKind::Release, OutcomeKind::Park];
    assert_eq!(settled[0], Settled::AlreadyApplied(kinds[0]));
    assert_eq!(settled[1], Settled::Lost, "delivered again since");
    assert_eq!(settled[2], Settled::AlreadyApplied(kinds[2]));
    let mut repeated: Vec<_> = again.deliveries.iter().map(|delivery| &delivery.claim).collect();
    repeated.sort_unstable_by_key(|claim| claim.job.id);
    assert_eq!(repeated, taken);

    // Either half may be empty.
    let none = from_queue("elsewhere", "suite", 1);
    let (settled, reserved) =
        store.settle_and_reserve(&[], &none).await.expect("the store answers");
    assert!(settled.is_empty() && reserved.deliveries.is_empty());
    let last = Settlement { claim: taken[0].clone(), outcome: Outcome::Done };
    let zero = wants(0);
    let (settled, reserved) =
        store.settle_and_reserve(&[last], &zero).await.expect("the store answers");
    assert_eq!(settled, [Settled::Applied(State::Done)]);
    assert!(reserved.deliveries.is_empty());
}

/// The outcome that won is told, whatever is asked now, and nothing changes; after the job's next
/// delivery, or two minutes after its end, the claim is lost.
async fn s3_repeating_a_settlement(kit: &Kit) {
    let store = kit.handle().await;
    for outcome in outcomes() {
        let kind = outcome.kind();
        push(&*store, job("acme").on(kind.as_str())).await;
        let request = from_queue(kind.as_str(), "suite", 1);
        let claim = hold(&*store, &request, 1).await.remove(0).claim;
        settle(&*store, &claim, outcome.clone()).await;
        let before = look(&*store, &claim.job).await;
        for other in outcomes() {
            let answer = settle(&*store, &claim, other).await;
            assert_eq!(answer, Settled::AlreadyApplied(kind));
        }
        assert_eq!(look(&*store, &claim.job).await, before, "repeating {kind} changes nothing");
        let strange = jobs_core::Claim { nonce: jobs_core::Nonce::random(), ..claim.clone() };
        let answer = settle(&*store, &strange, outcome.clone()).await;
        assert_eq!(answer, Settled::Lost, "not the claim that was settled");

        kit.age_secs(100).await;
        let answer = settle(&*store, &claim, outcome.clone()).await;
        assert_eq!(answer, Settled::AlreadyApplied(kind), "within two minutes");
        kit.age_secs(25).await;
        let ended = matches!(kind, OutcomeKind::Done | OutcomeKind::Cancelled);
        let told = if ended { Settled::Lost } else { Settled::AlreadyApplied(kind) };
        let answer = settle(&*store, &claim, outcome.clone()).await;
        assert_eq!(answer, told, "{kind}, 125 s later");
        if ended || kind == OutcomeKind::Park {
            continue;
        }
        kit.age(LATER).await;
        let next = hold(&*store, &request, 1).await.remove(0);
        assert_eq!(next.claim.job, claim.job);
        let before = look(&*store, &claim.job).await;
        assert_eq!(settle(&*store, &claim, outcome).await, Settled::Lost, "delivered again");
        assert_eq!(look(&*store, &claim.job).await, before);
    }
}

/// With nothing kept as history, the end of a job answers pushes and settlements for two minutes.
async fn s3_a_stub_outlives_retention(kit: &Kit) {
    let zero = Retention { done: Duration::ZERO, done_per_queue: 0, cancelled: Duration::ZERO };
    let store = kit.handle_keeping(zero).await;
    let mut ended = Vec::new();
    for outcome in [Outcome::Done, Outcome::Cancelled { cause: "not wanted".into() }] {
        let job: Job = push(&*store, job("acme")).await;
        let claim = take_one(&*store).await.claim;
        let Settled::Applied(state) = settle(&*store, &claim, outcome.clone()).await else {
            panic!("{outcome:?} is applied")
        };
        ended.push((job, claim, outcome, state));
    }
    let by_hand = push(&*store, job("acme")).await;
    assert_eq!(cancel(&*store, &by_hand.job_ref()).await, Cancelled::Cancelled);
    for age in [0, 60, 50] {
        kit.age_secs(age).await;
        sweep_all(&*store).await;
        for (job, claim, outcome, state) in &ended {
            let answer = settle(&*store, claim, outcome.clone()).await;
            assert_eq!(answer, Settled::AlreadyApplied(outcome.kind()));
            assert_eq!(push_again(&*store, job).await, Pushed::Duplicate(*state));
        }
        assert_eq!(push_again(&*store, &by_hand).await, Pushed::Duplicate(State::Cancelled));
        nothing(&*store, &wants(10)).await;
    }
    kit.age_secs(20).await;
    sweep_all(&*store).await;
    for (job, claim, outcome, _) in &ended {
        assert_eq!(settle(&*store, claim, outcome.clone()).await, Settled::Lost);
        assert!(look(&*store, &job.job_ref()).await.is_none(), "the stub is gone too");
        assert_eq!(push_again(&*store, job).await, Pushed::Stored);
    }
    assert_eq!(push_again(&*store, &by_hand).await, Pushed::Stored);
}

async fn push_again(store: &dyn jobs_core::Admin, job: &Job) -> Pushed {
    let answers = store.enqueue(&[checked(job.clone())]).await;
    *answers[0].as_ref().expect("the store answers")
}

/// Each later entry for the claim is answered as a repetition.
async fn s3_inside_a_batch_the_first_wins(kit: &Kit) {
    let store = kit.handle().await;
    for first in outcomes() {
        let queue = first.kind().as_str();
        push(&*store, job("acme").on(queue)).await;
        let claim = hold(&*store, &from_queue(queue, "suite", 1), 1).await.remove(0).claim;
        let settlement = |outcome| Settlement { claim: claim.clone(), outcome };
        let batch: Vec<_> = [first.clone()].into_iter().chain(outcomes()).map(settlement).collect();
        let answers = store.settle(&batch).await.expect("the store answers");
        assert!(matches!(answers[0], Settled::Applied(_)), "{first:?}: {answers:?}");
        assert_eq!(answers[1..], [Settled::AlreadyApplied(first.kind()); 6], "{first:?}");
        let recorded = record(&*store, &claim.job).await.attempts.len();
        assert_eq!(recorded, usize::from(first.kind().is_recorded()));
        let answer = Settled::Applied(state(&*store, &claim.job).await);
        assert_eq!(answers[0], answer, "the state it answered is the state it is in");
    }
    invariants::hold(&*store).await;
}
