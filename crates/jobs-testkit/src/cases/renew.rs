//! Cases: renew.

use std::time::Duration;

use jobs_core::{
    JobId, JobRef, Settled, State,
    admin::Cancelled,
    queue::{Lease, Renewed},
};

use crate::{
    kit::{Kit, job, push, take_one, wants},
    ops::{LAPSE, cancel, hold, record, renew, settle, sweep_all},
};

super::cases![s1_renew_extends_and_keeps_the_claim, s1_renew_tells_a_requested_cancel];

/// By the store's clock, from now: renewed at 15 s of 20 a claim lasts to 35, for the lease that
/// the renewal asks for; fence and nonce stay, and the answers stand beside their claims.
async fn s1_renew_extends_and_keeps_the_claim(kit: &Kit) {
    let store = kit.handle().await;
    for _ in 0..3 {
        push(&*store, job("acme")).await;
    }
    let held = hold(&*store, &wants(3), 3).await;
    let [kept, left, ended] = [&held[0].claim, &held[1].claim, &held[2].claim];
    let before = record(&*store, &kept.job).await;

    kit.age_secs(15).await;
    settle(&*store, ended, jobs_core::Outcome::Done).await;
    let unknown = jobs_core::Claim {
        job: JobRef { tenant: "acme".into(), id: JobId::new() },
        ..kept.clone()
    };
    let claims = [ended.clone(), kept.clone(), unknown];
    let answers = store.renew(Lease::default(), &claims).await.expect("the store answers");
    assert_eq!(answers, [Renewed::Lost, Renewed::Held, Renewed::Lost]);

    let after = record(&*store, &kept.job).await;
    let (old, new) = (before.holder.expect("held"), after.holder.expect("held"));
    assert_eq!(after.fence, kept.fence, "a renewal is no new owner");
    assert_eq!(after.view.attempt, 1, "a renewal is no new attempt");
    assert_eq!(new.worker, old.worker);
    let moved = |to: jiff::Timestamp, from: jiff::Timestamp| to.duration_since(from).as_secs();
    assert!(
        moved(new.renewed_at, new.started_at) >= 15,
        "{new:?} was renewed 15 s after its start"
    );
    assert_eq!(moved(new.lease_until, new.renewed_at), 20, "for another lease, from now");
    assert!((19..=20).contains(&moved(new.lease_until, after.now)), "by the store's clock");

    kit.age_secs(15).await;
    let lost = sweep_all(&*store).await;
    let lost: Vec<_> = lost.iter().map(|lost| &lost.job).collect();
    assert_eq!(lost, [&left.job], "only the one that was not renewed");

    let hour = Lease::new(Duration::from_secs(3600)).expect("legal");
    let claims = [kept.clone(), left.clone(), kept.clone()];
    let answers = store.renew(hour, &claims).await.expect("the store answers");
    assert_eq!(answers, [Renewed::Held, Renewed::Lost, Renewed::Held]);
    kit.age_secs(3500).await;
    assert!(sweep_all(&*store).await.is_empty(), "the lease is as long as the renewal asked");

    kit.age_secs(200).await;
    assert_eq!(renew(&*store, kept).await, Renewed::Held, "over, and nobody took it");
    kit.age_secs(15).await;
    assert!(sweep_all(&*store).await.is_empty(), "a late renewal counts");
    assert_eq!(
        settle(&*store, kept, jobs_core::Outcome::Done).await,
        Settled::Applied(State::Done)
    );
    assert_eq!(renew(&*store, kept).await, Renewed::Lost, "an ended run is not held");
    let none = store.renew(Lease::default(), &[]).await.expect("the store answers");
    assert!(none.is_empty());
}

/// Every renewal says so until the run ends, and extends all the same: the handler needs the time
/// to stop.
async fn s1_renew_tells_a_requested_cancel(kit: &Kit) {
    let store = kit.handle().await;
    push(&*store, job("acme")).await;
    push(&*store, job("acme")).await;
    let held = hold(&*store, &wants(2), 2).await;
    let [asked, other] = [&held[0].claim, &held[1].claim];
    assert_eq!(renew(&*store, asked).await, Renewed::Held);
    assert_eq!(cancel(&*store, &asked.job).await, Cancelled::Requested);
    for _ in 0..3 {
        kit.age_secs(15).await;
        let claims = [other.clone(), asked.clone()];
        let answers = store.renew(Lease::default(), &claims).await.expect("the store answers");
        assert_eq!(answers, [Renewed::Held, Renewed::CancelRequested]);
        assert!(sweep_all(&*store).await.is_empty(), "asked to end is not lost");
    }

    // The request ends with the run it was for.
    let released = settle(&*store, asked, jobs_core::Outcome::Release).await;
    assert_eq!(released, Settled::Applied(State::Cancelled));
    assert_eq!(crate::ops::retry(&*store, &asked.job).await, jobs_core::admin::Retried::Retried);
    let again = take_one(&*store).await;
    assert_eq!(again.claim.job, asked.job);
    assert_eq!(renew(&*store, &again.claim).await, Renewed::Held);
    assert!(!record(&*store, &asked.job).await.view.cancel_requested);
    kit.age(LAPSE).await;
    let lost = sweep_all(&*store).await;
    assert!(lost.iter().all(|lost| lost.state == State::Ready), "{lost:?}");
}
