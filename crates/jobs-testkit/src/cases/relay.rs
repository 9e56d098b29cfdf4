//! From an outbox into another store; one of the two is in memory.

use std::sync::{Arc, atomic::Ordering};

use jobs_core::{Admin, Job, Payload, QueueExt, State, queue::Pushed, relay::relay};

use super::{
    cases,
    worker_help::{Flaky, look, state, until, work},
};
use crate::{
    kit::{Kit, NAME, QUEUE, grant, push},
    model::Model,
};

cases![g4_a_relay_keeps_id_and_authority, k9_a_relay_waits_out_an_outage];

async fn g4_a_relay_keeps_id_and_authority(kit: &Kit) {
    let store = kit.handle().await;
    relays(store.clone(), Arc::new(Model::alone())).await;
    // The other way; all that is left there of the first is done.
    relays(Arc::new(Model::alone()), store).await;
}

async fn relays(from: Arc<dyn Admin>, to: Arc<dyn Admin>) {
    let plain = work("acme", 1).priority(7).max_attempts(3).meta("traceparent", "00-1-2-01");
    let plain = push(&*from, plain).await;
    let other = push(&*from, work("globex", 2)).await;
    let payload = Payload::encode(&"x".repeat(100_000)).expect("text is JSON");
    let large = Job { payload, ..work("acme", 3) };
    let pushed = from.push(&grant("acme").with_payload_limit(1 << 20), large.clone()).await;
    assert_eq!(pushed.expect("the store answers"), Pushed::Stored);
    // An earlier relay came as far as the push.
    let twice = push(&*from, work("acme", 4)).await;
    push(&*to, twice.clone()).await;
    let holder = push(&*to, work("acme", 5).key("one")).await;
    let held = push(&*from, work("acme", 6).key("one")).await;
    // A name that it was not given.
    let left = push(&*from, Job { name: "other".to_owned(), ..work("acme", 7) }).await;

    let worker = relay(from.clone(), to.clone(), [NAME]).queue(QUEUE, 1);
    let ended = worker.run_until_idle().await.expect("it starts");
    assert_eq!((ended.exit_code(), ended.settled), (0, 5), "{ended:?}");
    for job in [&plain, &other, &large, &twice] {
        assert_eq!(state(&*from, job).await, State::Done);
        let there = look(&*to, job).await.view;
        assert_eq!((there.state, there.attempt), (State::Ready, 0));
        let run_at = there.job.run_at;
        assert_eq!(there.job, Job { run_at, ..job.clone() }, "as it was pushed");
        assert_eq!(there.job.authorized_by, "system:suite", "not the relay");
    }
    let cancelled = look(&*from, &held).await.view;
    let cause = cancelled.last_cause.map(|cause| cause.to_string()).unwrap_or_default();
    assert_eq!(cancelled.state, State::Cancelled);
    assert!(cause.contains(&holder.id.to_string()), "{cause}");
    assert_eq!(state(&*from, &left).await, State::Ready);
}

/// However short its jobs' timeouts, and however few their attempts.
async fn k9_a_relay_waits_out_an_outage(kit: &Kit) {
    let (from, to) = (kit.handle().await, Model::alone());
    let flaky = Flaky::new(Arc::new(to.clone()));
    let switch = flaky.switch.clone();
    let hasty = jobs_core::Timeout::After(std::time::Duration::from_millis(200));
    let job = push(&*from, work("acme", 1).max_attempts(1).timeout(hasty)).await;
    switch.off.store(true, Ordering::SeqCst);
    let (say, told) = tokio::sync::oneshot::channel::<()>();
    let worker = relay(from.clone(), flaky, [NAME]).queue(QUEUE, 1);
    let relaying = worker.run_until(async { told.await.unwrap_or_default() });
    let outage = async {
        until("it was refused", || async { look(&*from, &job).await.snoozes == 1 }).await;
        *switch.hung.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = "enqueue";
        switch.off.store(false, Ordering::SeqCst);
        until("it was not answered", || async { look(&*from, &job).await.snoozes == 2 }).await;
        assert_eq!(look(&*from, &job).await.view.attempt, 0, "nothing was spent");
        *switch.hung.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = "";
        until("it moved", || async { state(&*from, &job).await == State::Done }).await;
        let _ = say.send(());
    };
    let (ended, ()) = tokio::join!(relaying, outage);
    assert_eq!(ended.expect("it starts").exit_code(), 0);
    assert_eq!(state(&to, &job).await, State::Ready);
}
