//! What several cases need: a job in a given state, what the store says of it, and races.

use std::{
    future::Future,
    sync::Arc,
    time::{Duration, Instant},
};

use jobs_core::{
    Admin, Cause, Job, JobRef, QueueExt, Settled, State, Timestamp,
    admin::{Cancelled, Retried},
    permit::{Cancel, Read, Retry},
    queue::{Delivery, Pushed, Reserve},
    view::JobRecord,
};
use tokio::sync::Barrier;

use crate::kit::{NAME, grant, permit, push};

/// How late a reserve may see what another handle committed (R6).
pub(super) const FRESHNESS: Duration = Duration::from_millis(250);

/// Reserves up to `slots` jobs called [`NAME`] from `queue`.
pub(super) async fn take_from(store: &dyn Admin, queue: &str, slots: usize) -> Vec<Delivery> {
    let request = Reserve::new(queue, [NAME], "suite").expect("legal").slots(slots);
    store.reserve(&request).await.expect("the store answers").deliveries
}

/// Reserves one job of `queue` and expects it there.
pub(super) async fn take_one_from(store: &dyn Admin, queue: &str) -> Delivery {
    let mut deliveries = take_from(store, queue, 1).await;
    assert_eq!(deliveries.len(), 1, "one job of {queue} is due");
    deliveries.remove(0)
}

/// Reserves from `queue` until it is empty.
pub(super) async fn drain(store: &dyn Admin, queue: &str) -> Vec<Delivery> {
    let mut all = Vec::new();
    loop {
        let more = take_from(store, queue, 1000).await;
        if more.is_empty() {
            return all;
        }
        all.extend(more);
    }
}

/// Drains `queue`, into which other handles pushed: what they stored may take 250 ms to be seen
/// (R6), what nobody stored must not come at all.
pub(super) async fn drain_seen(store: &dyn Admin, queue: &str, expected: usize) -> Vec<Delivery> {
    let start = Instant::now();
    let mut all = Vec::new();
    loop {
        let late = start.elapsed() > FRESHNESS;
        all.extend(drain(store, queue).await);
        if all.len() >= expected || late {
            return all;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Pushes `job` and brings it into `state`. Nothing else may be due on its queue.
pub(super) async fn stage(store: &dyn Admin, job: Job, state: State) -> (Job, Option<Delivery>) {
    let job = match state {
        State::Scheduled => job.after(Duration::from_secs(86_400)),
        _ => job,
    };
    let job = push(store, job).await;
    let settled = match state {
        State::Scheduled | State::Ready => return (job, None),
        State::Cancelled => {
            assert_eq!(cancel(store, &job.job_ref()).await, Cancelled::Cancelled);
            return (job, None);
        }
        State::Running | State::Parked | State::Done => take_one_from(store, &job.queue).await,
    };
    assert_eq!(settled.job.id, job.id, "nothing else is due on {}", job.queue);
    let answer = match state {
        State::Parked => store.park(&settled.claim, Cause::from("staged")).await,
        State::Done => store.ack(&settled.claim).await,
        _ => return (job, Some(settled)),
    };
    assert_eq!(answer.expect("the store answers"), Settled::Applied(state));
    (job, Some(settled))
}

/// Everything the store knows of a job, under its tenant's permit; the reading's own time is left
/// out, so that two readings of an unchanged job are equal.
pub(super) async fn known(store: &dyn Admin, job: &JobRef) -> Option<JobRecord> {
    let record = store.get(&permit::<Read>(&job.tenant), job).await.expect("the store answers");
    record.map(|record| JobRecord { now: Timestamp::UNIX_EPOCH, ..record })
}

/// The job's state; it has to be stored.
pub(super) async fn state_of(store: &dyn Admin, job: &JobRef) -> State {
    known(store, job).await.expect("the job is stored").view.state
}

/// Cancels one job under its tenant's permit.
pub(super) async fn cancel(store: &dyn Admin, job: &JobRef) -> Cancelled {
    let permit = permit::<Cancel>(&job.tenant);
    let answers = store.cancel(&permit, std::slice::from_ref(job)).await;
    one(answers.expect("the store answers"))
}

/// Retries one job under its tenant's permit.
pub(super) async fn retry(store: &dyn Admin, job: &JobRef) -> Retried {
    let permit = permit::<Retry>(&job.tenant);
    let answers = store.retry(&permit, std::slice::from_ref(job)).await;
    one(answers.expect("the store answers"))
}

/// The only answer.
pub(super) fn one<T>(mut answers: Vec<T>) -> T {
    assert_eq!(answers.len(), 1, "one answer per element");
    answers.remove(0)
}

/// Pushes under the job's tenant's Grant, whatever the answer.
pub(super) async fn try_push(store: &dyn Admin, job: &Job) -> Pushed {
    store.push(&grant(&job.tenant), job.clone()).await.expect("the store answers")
}

/// Runs `tasks` at once, released at one barrier, and answers in the order of their numbers.
pub(super) async fn race<T, F>(tasks: usize, make: impl Fn(usize) -> F) -> Vec<T>
where
    T: Send + 'static,
    F: Future<Output = T> + Send + 'static,
{
    let barrier = Arc::new(Barrier::new(tasks));
    let spawn = |number| {
        let (barrier, work) = (barrier.clone(), make(number));
        tokio::spawn(async move {
            barrier.wait().await;
            work.await
        })
    };
    let handles: Vec<_> = (0..tasks).map(spawn).collect();
    let mut answers = Vec::with_capacity(tasks);
    for handle in handles {
        answers.push(handle.await.expect("no task panics"));
    }
    answers
}

/// A reserve in `place` costs no more than it did `before` (three times and 5 ms, for noise). Judged
/// by the best of three readings: a busy machine spoils one, a cost that is there spoils all.
pub(super) async fn no_dearer<F: Future<Output = Duration>>(
    before: Duration,
    place: &str,
    measure: impl Fn() -> F,
) {
    let most = before * 3 + Duration::from_millis(5);
    let mut best = Duration::MAX;
    for _ in 0..3 {
        best = best.min(measure().await);
        if best <= most {
            return;
        }
    }
    panic!("a reserve took {before:?}, {place} it takes {best:?}");
}
