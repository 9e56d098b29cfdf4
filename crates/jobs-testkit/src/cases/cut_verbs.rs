//! Cases: an operator's verb whose answer was lost, repeated (F1).

use jobs_core::{
    Admin, JobRef, Outcome, State,
    admin::{Cancelled, Deleted, Retried},
    queue::Renewed,
};

use super::faults::{Turn, cut_or, every_cut, held};
use crate::{
    kit::{Kit, job, operator, push},
    ops::{LATER, look, record, renew, settle, state},
};

super::cases![
    f1_cut_after_every_round_trip_retry,
    f1_cut_after_every_round_trip_cancel,
    f1_cut_after_every_round_trip_delete,
];

/// Of each: what the first call answered, if that arrived, and what the second did, which is
/// `first` too where the first call did nothing, else `then`.
fn consistent<T: Copy + PartialEq + std::fmt::Debug>(
    told: Option<&Vec<T>>,
    repeated: &[T],
    expected: &[(T, T)],
) {
    assert_eq!(repeated.len(), expected.len());
    for (at, ((first, then), second)) in expected.iter().zip(repeated).enumerate() {
        match told.map(|told| told[at]) {
            Some(told) => assert_eq!((told, *second), (*first, *then), "job {at}"),
            None => assert!([*first, *then].contains(second), "job {at}: {second:?}"),
        }
    }
}

async fn ended(store: &dyn Admin, place: &str, outcome: Outcome) -> JobRef {
    let claim = held(store, place, 1).await.remove(0);
    settle(store, &claim, outcome).await;
    claim.job
}

/// Retried once: ready, due, its key its own again.
async fn f1_cut_after_every_round_trip_retry(kit: &Kit) {
    let store = &kit.handle().await;
    every_cut(kit, &**store, "retry", async |Turn { cut, again, place }| {
        let cancelled = job("acme").on(place.as_str()).after(LATER).key(place.as_str());
        let cancelled = push(&**store, cancelled).await.job_ref();
        crate::ops::cancel(&**store, &cancelled).await;
        let parked = ended(&**store, &place, Outcome::Park { cause: "no".into() }).await;
        let done = ended(&**store, &place, Outcome::Done).await;
        let jobs = [cancelled, parked, done];
        let told = cut_or(cut.retry(&operator().await, &jobs).await);
        let repeated = again
            .after(told.is_none())
            .retry(&operator().await, &jobs)
            .await
            .expect("it is cut once");
        let once = (Retried::Retried, Retried::NotRetryable(State::Ready));
        let never = Retried::NotRetryable(State::Done);
        consistent(told.as_ref(), &repeated, &[once, once, (never, never)]);
        for job in &jobs[..2] {
            let record = record(&**store, job).await;
            assert_eq!((record.view.state, record.view.attempt), (State::Ready, 0));
        }
        let taken = checked_key(&**store, &place).await;
        assert_eq!(taken, jobs_core::queue::Pushed::KeyHeld(jobs[0].id, State::Ready));
        told.is_none()
    })
    .await;
}

async fn checked_key(store: &dyn Admin, key: &str) -> jobs_core::queue::Pushed {
    let another = crate::kit::checked(job("acme").on("elsewhere").key(key));
    *store.enqueue(&[another]).await[0].as_ref().expect("the store answers")
}

/// Ended or asked, once.
async fn f1_cut_after_every_round_trip_cancel(kit: &Kit) {
    let store = &kit.handle().await;
    every_cut(kit, &**store, "cancel", async |Turn { cut, again, place }| {
        let parked = ended(&**store, &place, Outcome::Park { cause: "no".into() }).await;
        let expired = held(&**store, &place, 1).await.remove(0);
        kit.age(crate::ops::LAPSE).await;
        let running = held(&**store, &place, 1).await.remove(0);
        let ready = push(&**store, job("acme").on(place.as_str()).key(place.as_str())).await;
        let later = push(&**store, job("acme").on(place.as_str()).after(LATER)).await;
        let jobs =
            [parked, expired.job.clone(), running.job.clone(), ready.job_ref(), later.job_ref()];
        let told = cut_or(cut.cancel(&operator().await, &jobs).await);
        let repeated = again
            .after(told.is_none())
            .cancel(&operator().await, &jobs)
            .await
            .expect("it is cut once");
        let once = (Cancelled::Cancelled, Cancelled::NotLive(State::Cancelled));
        let asked = (Cancelled::Requested, Cancelled::Requested);
        consistent(told.as_ref(), &repeated, &[once, once, asked, once, once]);
        for (at, job) in jobs.iter().enumerate() {
            let to = if at == 2 { State::Running } else { State::Cancelled };
            assert_eq!(state(&**store, job).await, to, "job {at}");
        }
        assert_eq!(record(&**store, &expired.job).await.attempts.len(), 1);
        assert_eq!(renew(&**store, &expired).await, Renewed::Lost);
        assert_eq!(renew(&**store, &running).await, Renewed::CancelRequested);
        // The key is free: its next holder is stored.
        push(&**store, job("acme").key(place.as_str()).on(place.as_str())).await;
        told.is_none()
    })
    .await;
}

/// Gone whole: row, key and place in line.
async fn f1_cut_after_every_round_trip_delete(kit: &Kit) {
    let store = &kit.handle().await;
    every_cut(kit, &**store, "delete", async |Turn { cut, again, place }| {
        let parked = ended(&**store, &place, Outcome::Park { cause: "no".into() }).await;
        let done = ended(&**store, &place, Outcome::Done).await;
        let running = held(&**store, &place, 1).await.remove(0);
        let ready = push(&**store, job("acme").on(place.as_str()).key(place.as_str())).await;
        let later = push(&**store, job("acme").on(place.as_str()).after(LATER)).await;
        let jobs = [parked, done, running.job.clone(), ready.job_ref(), later.job_ref()];
        let told = cut_or(cut.delete(&operator().await, &jobs).await);
        let repeated = again
            .after(told.is_none())
            .delete(&operator().await, &jobs)
            .await
            .expect("it is cut once");
        let once = (Deleted::Deleted, Deleted::Unknown);
        let never = (Deleted::Running, Deleted::Running);
        consistent(told.as_ref(), &repeated, &[once, once, never, once, once]);
        for (at, job) in jobs.iter().enumerate() {
            assert_eq!(look(&**store, job).await.is_some(), at == 2, "job {at}");
        }
        let key_again = job("acme").on(place.as_str()).key(place.as_str());
        let key_again = push(&**store, key_again).await.job_ref();
        // Nothing of the deleted ones is in line before it.
        let request = crate::ops::from_queue(&place, "suite", 10);
        let next = store.reserve(&request).await.expect("the store answers").deliveries;
        let next: Vec<_> = next.iter().map(|held| &held.claim.job).collect();
        assert_eq!(next, [&key_again]);
        told.is_none()
    })
    .await;
}
