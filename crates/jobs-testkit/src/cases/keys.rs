//! P3: a key is held by one live job of its tenant.

use std::{sync::Arc, time::Duration};

use jobs_core::{
    Admin, Cause, Job, JobRef, Outcome, QueueExt, Settled, State,
    admin::{Cancelled, Deleted, Retried},
    permit::{Delete, Retry},
    queue::{Delivery, Pushed},
};

use super::stage::{cancel, known, one, race, retry, stage, state_of, take_one_from, try_push};
use crate::kit::{Kit, QUEUE, checked, job, permit, push, take_one};

super::cases![
    p3_a_held_key_refuses,
    p3_concurrent_pushes_of_one_key_store_one,
    p3_keys_are_a_tenants_own,
    p3_until_finished,
    p3_until_started,
    p3_a_stored_id_beats_a_held_key,
    p3_inside_a_batch_the_first_wins,
    p3_retry_takes_the_key_again,
];

/// Another job of `tenant` with the key is refused, names the holder, and leaves nothing behind.
async fn held_by(store: &dyn Admin, holder: &Job, state: State) {
    let text = holder.key.as_ref().expect("the holder has a key").text.clone();
    // Whatever the queue and whatever the newcomer's own scope.
    let rest = job(&holder.tenant).on("elsewhere");
    for newcomer in [rest.clone().key(text.clone()), rest.key_until_started(text)] {
        let newcomer = Job { id: jobs_core::JobId::new(), ..newcomer };
        assert_eq!(try_push(store, &newcomer).await, Pushed::KeyHeld(holder.id, state));
        assert!(known(store, &newcomer.job_ref()).await.is_none(), "a refused job is stored");
    }
}

/// The key is free: another job takes it, and is removed again.
async fn free(store: &dyn Admin, text: &str) {
    let newcomer = push(store, job("acme").on("elsewhere").key(text)).await;
    delete(store, &newcomer.job_ref()).await;
}

async fn delete(store: &dyn Admin, job: &JobRef) {
    let permit = permit::<Delete>(&job.tenant);
    let answers = store.delete(&permit, std::slice::from_ref(job)).await;
    assert_eq!(one(answers.expect("the store answers")), Deleted::Deleted);
}

async fn settle(store: &dyn Admin, delivery: &Delivery, outcome: Outcome, state: State) {
    let settled = store.settle_one(&delivery.claim, outcome).await;
    assert_eq!(settled.expect("the store answers"), Settled::Applied(state));
}

async fn p3_a_held_key_refuses(kit: &Kit) {
    let store = kit.handle().await;
    let long = "k".repeat(256);
    // Keys are compared byte for byte: none of these is another.
    let keys = [
        "k",
        "K",
        " k",
        "k ",
        "é",
        "e\u{301}",
        "ß",
        "ss",
        "*",
        "k:1",
        "k/1",
        "{}",
        "null",
        "\n",
        "\u{1}",
        "'; --",
        &long,
        &long[..255],
    ];
    let mut holders = Vec::new();
    for key in keys {
        holders.push(push(&*store, job("acme").key(key)).await);
    }
    for holder in &holders {
        held_by(&*store, holder, State::Ready).await;
    }
    let other = kit.handle().await;
    held_by(&*other, &holders[0], State::Ready).await;
    // No key is not a key.
    push(&*store, job("acme")).await;
    push(&*store, job("acme")).await;
}

async fn p3_concurrent_pushes_of_one_key_store_one(kit: &Kit) {
    let handles = [kit.handle().await, kit.handle().await, kit.handle().await];
    for round in 0..8 {
        let key = format!("round {round}");
        let jobs: Vec<_> = (0..64)
            .map(|i| job("acme").on(if i % 2 == 0 { "one" } else { "two" }).key(key.as_str()))
            .collect();
        let answers = race(64, |i| {
            let (store, mine) = (handles[i % 3].clone(), jobs[i].clone());
            async move { try_push(&*store, &mine).await }
        })
        .await;
        let stored: Vec<_> = (0..64).filter(|&i| answers[i] == Pushed::Stored).collect();
        assert_eq!(stored.len(), 1, "round {round}: {answers:?}");
        let held = Pushed::KeyHeld(jobs[stored[0]].id, State::Ready);
        let rest = answers.iter().filter(|answer| **answer == held).count();
        assert_eq!(rest, 63, "round {round}: {answers:?}");
        for (i, job) in jobs.iter().enumerate() {
            let found = known(&*handles[0], &job.job_ref()).await.is_some();
            assert_eq!(found, i == stored[0], "round {round}, job {i}");
        }
    }
}

async fn p3_keys_are_a_tenants_own(kit: &Kit) {
    let store = kit.handle().await;
    // Tenants whose name and key would meet if the two were joined by any letter of either.
    let owners = [("a", "b-c"), ("a-b", "c"), ("a_b", "c"), ("a", "b_c"), ("b", "b-c"), ("c", "c")];
    let mut holders = Vec::new();
    for (tenant, key) in owners {
        holders.push(push(&*store, job(tenant).key(key)).await);
    }
    for holder in &holders {
        held_by(&*store, holder, State::Ready).await;
    }
    delete(&*store, &holders[0].job_ref()).await;
    push(&*store, holders[0].clone()).await;
    for holder in &holders {
        held_by(&*store, holder, State::Ready).await;
    }
}

async fn p3_until_finished(kit: &Kit) {
    let store = kit.handle().await;
    let minute = Duration::from_secs(60);
    let first = push(&*store, job("acme").key("k").max_attempts(9).after(minute)).await;
    held_by(&*store, &first, State::Scheduled).await;
    kit.age(minute * 2).await;
    let delivery = take_one(&*store).await;
    held_by(&*store, &first, State::Running).await;
    let again = Outcome::Retry { after: minute, cause: Cause::from("no") };
    settle(&*store, &delivery, again, State::Scheduled).await;
    held_by(&*store, &first, State::Scheduled).await;
    kit.age(minute * 2).await;
    let delivery = take_one(&*store).await;
    settle(&*store, &delivery, Outcome::Snooze { after: minute }, State::Scheduled).await;
    held_by(&*store, &first, State::Scheduled).await;
    kit.age(minute * 2).await;
    settle(&*store, &take_one(&*store).await, Outcome::Release, State::Ready).await;
    held_by(&*store, &first, State::Ready).await;
    take_one(&*store).await;
    kit.age(minute).await;
    held_by(&*store, &first, State::Running).await;
    assert_eq!(store.sweep().await.expect("the store answers").lost.len(), 1);
    held_by(&*store, &first, State::Ready).await;
    let delivery = take_one(&*store).await;
    settle(&*store, &delivery, Outcome::Park { cause: Cause::default() }, State::Parked).await;
    held_by(&*store, &first, State::Parked).await;
    kit.age_secs(400 * 24 * 3600).await;
    store.sweep().await.expect("the store answers");
    held_by(&*store, &first, State::Parked).await;
    assert_eq!(retry(&*store, &first.job_ref()).await, Retried::Retried);
    held_by(&*store, &first, State::Ready).await;
    let delivery = take_one(&*store).await;
    assert_eq!(cancel(&*store, &first.job_ref()).await, Cancelled::Requested);
    held_by(&*store, &first, State::Running).await;
    settle(&*store, &delivery, Outcome::Done, State::Done).await;
    free(&*store, "k").await;

    for state in [State::Scheduled, State::Ready, State::Parked] {
        let (held, _) = stage(&*store, job("acme").on(state.as_str()).key("c"), state).await;
        assert_eq!(cancel(&*store, &held.job_ref()).await, Cancelled::Cancelled);
        free(&*store, "c").await;
        let (held, _) = stage(&*store, job("acme").on("deleted").key("d"), state).await;
        delete(&*store, &held.job_ref()).await;
        free(&*store, "d").await;
    }
    let (_, delivery) = stage(&*store, job("acme").key("s"), State::Running).await;
    let outcome = Outcome::Cancelled { cause: Cause::default() };
    settle(&*store, &delivery.expect("it runs"), outcome, State::Cancelled).await;
    free(&*store, "s").await;
    // A job that ended earlier frees only its own key: the next holder's stays.
    let next = push(&*store, job("acme").key("k")).await;
    delete(&*store, &first.job_ref()).await;
    held_by(&*store, &next, State::Ready).await;
    // Nor does history that ends: by now a done and some cancelled jobs of these keys are in it.
    let others = ["c", "s"].map(|key| job("acme").on("elsewhere").key(key));
    for other in &others {
        push(&*store, other.clone()).await;
    }
    kit.age_secs(400 * 24 * 3600).await;
    while store.sweep().await.expect("the store answers").more {}
    for holder in others.iter().chain([&next]) {
        held_by(&*store, holder, State::Ready).await;
    }
}

async fn p3_until_started(kit: &Kit) {
    let store = kit.handle().await;
    let minute = Duration::from_secs(60);
    let first = job("acme").key_until_started("k").max_attempts(9).after(minute);
    let first = push(&*store, first).await;
    held_by(&*store, &first, State::Scheduled).await;
    kit.age(minute * 2).await;
    let delivery = take_one(&*store).await;
    // The next one may wait while this one runs, and holds the key against a third.
    let next = push(&*store, job("acme").on("next").key_until_started("k")).await;
    held_by(&*store, &next, State::Ready).await;

    // Whatever brings the first one back in line, it neither takes the key nor frees the next's.
    settle(&*store, &delivery, Outcome::Release, State::Ready).await;
    held_by(&*store, &next, State::Ready).await;
    let again = Outcome::Retry { after: Duration::ZERO, cause: Cause::from("no") };
    settle(&*store, &take_one(&*store).await, again, State::Scheduled).await;
    held_by(&*store, &next, State::Ready).await;
    let snooze = Outcome::Snooze { after: Duration::ZERO };
    settle(&*store, &take_one(&*store).await, snooze, State::Scheduled).await;
    held_by(&*store, &next, State::Ready).await;
    take_one(&*store).await;
    kit.age(minute).await;
    assert_eq!(store.sweep().await.expect("the store answers").lost.len(), 1);
    held_by(&*store, &next, State::Ready).await;
    let park = Outcome::Park { cause: Cause::default() };
    settle(&*store, &take_one(&*store).await, park, State::Parked).await;
    assert_eq!(retry(&*store, &first.job_ref()).await, Retried::Retried);
    held_by(&*store, &next, State::Ready).await;

    // With the next one started, the key is free although the first waits in line.
    take_one_from(&*store, "next").await;
    free(&*store, "k").await;
    assert_eq!(state_of(&*store, &first.job_ref()).await, State::Ready);
    settle(&*store, &take_one(&*store).await, Outcome::Done, State::Done).await;
    free(&*store, "k").await;

    // Before the first delivery, cancel and delete free it, and a retry does not take it again.
    for state in [State::Scheduled, State::Ready] {
        let held = job("acme").on(format!("c-{state}")).key_until_started("c");
        let (held, _) = stage(&*store, held, state).await;
        assert_eq!(cancel(&*store, &held.job_ref()).await, Cancelled::Cancelled);
        free(&*store, "c").await;
        assert_eq!(retry(&*store, &held.job_ref()).await, Retried::Retried);
        free(&*store, "c").await;
        let held = job("acme").on("d").key_until_started("d");
        let (held, _) = stage(&*store, held, state).await;
        delete(&*store, &held.job_ref()).await;
        free(&*store, "d").await;
    }
}

async fn p3_a_stored_id_beats_a_held_key(kit: &Kit) {
    let store = kit.handle().await;
    let holder = push(&*store, job("acme").key("k")).await;
    for state in State::ALL {
        let (stored, _) = stage(&*store, job("acme").on(state.as_str()), state).await;
        // The key it asks for now is another's: that it is stored is still the answer.
        let again = Job { id: stored.id, ..job("acme").on(state.as_str()).key("k") };
        assert_eq!(try_push(&*store, &again).await, Pushed::Duplicate(state));
    }
    let again = holder.clone().on("elsewhere");
    assert_eq!(try_push(&*store, &again).await, Pushed::Duplicate(State::Ready));
}

async fn p3_inside_a_batch_the_first_wins(kit: &Kit) {
    let store = kit.handle().await;
    let old = push(&*store, job("acme").key("old")).await;
    let of = |tenant: &str, key: &str| job(tenant).on("batch").key(key);
    let (a, b, c) = (of("acme", "k"), of("acme", "k"), of("globex", "k"));
    let plain = |job: &Job| Job { key: None, ..job.clone() };
    let refused = of("acme", "old");
    let batch = [
        (a.clone(), Pushed::Stored),
        (b.clone(), Pushed::KeyHeld(a.id, State::Ready)),
        (c.clone(), Pushed::Stored),
        (plain(&a), Pushed::Duplicate(State::Ready)),
        (Job { key: None, ..a.clone().on("elsewhere") }, Pushed::Duplicate(State::Ready)),
        // Only what was stored wins: b was refused for its key, so without one it is new.
        (plain(&b), Pushed::Stored),
        (b.clone(), Pushed::Duplicate(State::Ready)),
        (refused.clone(), Pushed::KeyHeld(old.id, State::Ready)),
        (Job { id: c.id, ..of("acme", "k2") }, Pushed::Stored),
        // A duplicate takes no key, so the next may.
        (Job { id: old.id, ..of("acme", "k3") }, Pushed::Duplicate(State::Ready)),
        (of("acme", "k3"), Pushed::Stored),
    ];
    let jobs: Vec<_> = batch.iter().map(|(job, _)| checked(job.clone())).collect();
    let answers = store.enqueue(&jobs).await.into_iter();
    for (i, (answer, (_, expected))) in answers.zip(&batch).enumerate() {
        assert_eq!(answer.expect("the store answers"), *expected, "element {i}");
    }
    let delivered = super::stage::drain(&*store, "batch").await.len();
    assert_eq!(delivered, batch.iter().filter(|(_, answer)| *answer == Pushed::Stored).count());
    assert!(known(&*store, &refused.job_ref()).await.is_none());
}

async fn p3_retry_takes_the_key_again(kit: &Kit) {
    let store = kit.handle().await;
    let (first, _) = stage(&*store, job("acme").key("k"), State::Cancelled).await;
    let second = push(&*store, job("acme").on("second").key("k")).await;
    let before = known(&*store, &first.job_ref()).await;
    let held = Retried::KeyHeld(second.id, State::Ready);
    assert_eq!(retry(&*store, &first.job_ref()).await, held);
    assert_eq!(known(&*store, &first.job_ref()).await, before, "a refused retry changes nothing");
    let delivery = take_one_from(&*store, "second").await;
    let held = Retried::KeyHeld(second.id, State::Running);
    assert_eq!(retry(&*store, &first.job_ref()).await, held);
    settle(&*store, &delivery, Outcome::Done, State::Done).await;
    assert_eq!(retry(&*store, &first.job_ref()).await, Retried::Retried);
    held_by(&*store, &first, State::Ready).await;
    settle(&*store, &take_one_from(&*store, QUEUE).await, Outcome::Done, State::Done).await;
    free(&*store, "k").await;

    // Of two cancelled jobs of one key, one call gives it to the first.
    let (one_of, _) = stage(&*store, job("acme").key("b"), State::Cancelled).await;
    let (other, _) = stage(&*store, job("acme").key("b"), State::Cancelled).await;
    let both = [one_of.job_ref(), other.job_ref()];
    let answers = store.retry(&permit::<Retry>("acme"), &both).await.expect("the store answers");
    assert_eq!(answers, [Retried::Retried, Retried::KeyHeld(one_of.id, State::Ready)]);
    settle(&*store, &take_one(&*store).await, Outcome::Done, State::Done).await;

    // A retry and pushes of the same key at once, from two processes: one of them has it.
    let handles: [Arc<dyn Admin>; 2] = [store.clone(), kit.handle().await];
    for round in 0..8 {
        let key = format!("r{round}");
        let (first, _) = stage(&*store, job("acme").key(key.as_str()), State::Cancelled).await;
        let answers = race(16, |i| {
            let (store, mine) = (handles[i % 2].clone(), job("acme").key(key.as_str()));
            let first = first.job_ref();
            async move {
                match i {
                    3 => retry(&*store, &first).await == Retried::Retried,
                    _ => try_push(&*store, &mine).await == Pushed::Stored,
                }
            }
        });
        let winners = answers.await.into_iter().filter(|won| *won).count();
        assert_eq!(winners, 1, "round {round}");
        let mut left = super::stage::drain_seen(&*store, QUEUE, 1).await;
        assert_eq!(left.len(), 1, "round {round}");
        settle(&*store, &left.remove(0), Outcome::Done, State::Done).await;
    }
}
