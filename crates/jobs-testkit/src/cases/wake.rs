//! Cases: wake.

use std::time::Duration;

use jobs_core::{Admin, Outcome, Queue, admin::Retried, wake::Watch};

use crate::{
    kit::{Kit, QUEUE, checked, job, push, take, take_one},
    ops::{cancel, hold, retry, settle},
};

super::cases![
    n1_a_push_wakes,
    n1_a_retry_wakes,
    n1_another_handles_push_wakes,
    n1_nothing_is_missed_before_reserve,
    n1_other_queues_do_not_wake,
];

/// Long for a hint on a busy machine, and short of any poll.
const SOON: Duration = Duration::from_secs(3);
/// Long enough for a hint that should not come.
const QUIET: Duration = Duration::from_millis(200);

async fn watch(store: &dyn Admin, queues: &[&str]) -> Watch {
    let queues: Vec<_> = queues.iter().map(|queue| (*queue).to_owned()).collect();
    store.watch(&queues).await.expect("the store answers")
}

async fn woken(watch: &mut Watch) -> bool {
    tokio::time::timeout(SOON, watch.woken()).await.is_ok()
}

/// Each push after a pause wakes, of a batch and on the second of two queues too.
async fn n1_a_push_wakes(kit: &Kit) {
    let store = kit.handle().await;
    let mut watch = watch(&*store, &["first", QUEUE]).await;
    for _ in 0..3 {
        push(&*store, job("acme")).await;
        assert!(woken(&mut watch).await, "a push wakes");
        settle(&*store, &take_one(&*store).await.claim, Outcome::Done).await;
        tokio::time::sleep(QUIET).await;
    }
    let batch: Vec<_> = (0..100).map(|_| checked(job("acme").on("first"))).collect();
    store.enqueue(&batch).await;
    assert!(woken(&mut watch).await, "a batch wakes");
    // Two who wait are both woken: the first may be busy.
    let mut watches = [self::watch(&*store, &[QUEUE]).await, self::watch(&*store, &[QUEUE]).await];
    tokio::time::sleep(QUIET).await;
    push(&*store, job("other")).await;
    for watch in &mut watches {
        assert!(woken(watch).await, "each watcher is woken");
    }
}

/// The job is due now, so an idle worker should hear of it now.
async fn n1_a_retry_wakes(kit: &Kit) {
    let store = kit.handle().await;
    let parked = push(&*store, job("acme")).await.job_ref();
    settle(&*store, &take_one(&*store).await.claim, Outcome::Park { cause: "no".into() }).await;
    let cancelled = push(&*store, job("acme")).await.job_ref();
    cancel(&*store, &cancelled).await;
    for job in [parked, cancelled] {
        tokio::time::sleep(QUIET).await;
        let mut watch = watch(&*store, &[QUEUE]).await;
        assert_eq!(retry(&*store, &job).await, Retried::Retried);
        assert!(woken(&mut watch).await, "a retry wakes");
        assert_eq!(take_one(&*store).await.claim.job, job);
    }
}

/// As from another process: an application pushes, the worker beside it starts at once.
async fn n1_another_handles_push_wakes(kit: &Kit) {
    let (worker, application) = (kit.handle().await, kit.handle().await);
    let own = worker.open_own().await.expect("the store answers");
    let queues = [QUEUE.to_owned()];
    for _ in 0..3 {
        let mut watches = [
            worker.watch(&queues).await.expect("the store answers"),
            own.watch(&queues).await.expect("the store answers"),
        ];
        tokio::time::sleep(QUIET).await;
        push(&*application, job("acme")).await;
        for watch in &mut watches {
            assert!(woken(watch).await, "another handle's push wakes");
        }
        let held = hold(&*worker, &crate::kit::wants(1), 1).await.remove(0);
        settle(&*worker, &held.claim, Outcome::Done).await;
    }
}

/// The worker's loop is watch, reserve, wait: a push after the watch wakes the wait, whether or
/// not the reserve saw it, and a wait that was dropped forgets nothing.
async fn n1_nothing_is_missed_before_reserve(kit: &Kit) {
    let store = kit.handle().await;
    let other = kit.handle().await;
    for pusher in [&store, &other] {
        let mut watch = watch(&*store, &[QUEUE]).await;
        assert!(take(&*store, 1).await.is_empty(), "nothing yet");
        push(&**pusher, job("acme")).await;
        assert!(woken(&mut watch).await, "said after the watch was taken, before the wait");
        let held = hold(&*store, &crate::kit::wants(1), 1).await.remove(0);
        settle(&*store, &held.claim, Outcome::Done).await;

        let mut watch = self::watch(&*store, &[QUEUE]).await;
        // Dropped half way, as by a select.
        let dropped = tokio::time::timeout(Duration::from_millis(1), watch.woken());
        let _ = dropped.await;
        push(&**pusher, job("acme")).await;
        assert!(woken(&mut watch).await, "a dropped wait misses nothing");
        let held = hold(&*store, &crate::kit::wants(1), 1).await.remove(0);
        settle(&*store, &held.claim, Outcome::Done).await;
    }
}

/// A hint may come without need, so one alone proves nothing; one per foreign push is a busy loop.
async fn n1_other_queues_do_not_wake(kit: &Kit) {
    let store = kit.handle().await;
    let mut watch = watch(&*store, &[QUEUE]).await;
    let mut quiet = 0;
    for _ in 0..5 {
        push(&*store, job("acme").on("elsewhere")).await;
        quiet += usize::from(tokio::time::timeout(QUIET, watch.woken()).await.is_err());
    }
    assert!(quiet >= 3, "{} of 5 pushes to another queue woke this one", 5 - quiet);
    push(&*store, job("acme")).await;
    assert!(woken(&mut watch).await, "its own queue still does");
}
