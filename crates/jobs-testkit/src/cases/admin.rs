//! Cases: admin. One job and its verbs (A3, A5); lists and counts are in [`list`](super::list),
//! lanes, workers and health in [`tune`](super::tune).

use std::{sync::Arc, time::Duration};

use jobs_core::{
    Job, JobId, JobRef, Outcome, OutcomeKind, Payload, State,
    admin::{Cancelled, Deleted, Retried},
    job::{RunAt, Timeout},
    queue::{Lease, Pushed, Renewed},
    view::JobRecord,
};

use crate::{
    invariants,
    kit::{Kit, QUEUE, checked, job, operator, push, take_one, wants},
    ops::{
        LAPSE, LATER, Write, Wrote, cancel, delete, due, from_queue, hold, lane, look, nothing,
        record, renew, retry, settle, state, sweep_all,
    },
};

super::cases![
    a3_retry_has_one_winner,
    a3_retry_keeps_the_job,
    a3_cancel_at_once,
    a3_cancel_asks_a_running_job,
    a3_delete_frees_everything,
    a5_get_shows_the_holder,
];

/// Of sixteen on three handles one retries, for parked and for cancelled; the rest learn that it
/// is ready.
async fn a3_retry_has_one_winner(kit: &Kit) {
    let stores = [kit.handle().await, kit.handle().await, kit.handle().await];
    for round in 0..10 {
        let job = push(&*stores[0], job("acme")).await.job_ref();
        if round % 2 == 0 {
            let held = hold(&*stores[0], &wants(1), 1).await.remove(0);
            settle(&*stores[0], &held.claim, Outcome::Park { cause: "no".into() }).await;
        } else {
            cancel(&*stores[0], &job).await;
        }
        let gate = Arc::new(tokio::sync::Barrier::new(16));
        let tasks = (0..16).map(|operator| {
            let (store, gate, job) = (stores[operator % 3].clone(), gate.clone(), job.clone());
            tokio::spawn(async move {
                gate.wait().await;
                retry(&*store, &job).await
            })
        });
        let tasks: Vec<_> = tasks.collect();
        let mut answers = Vec::new();
        for task in tasks {
            answers.push(task.await.expect("no panic"));
        }
        let won = answers.iter().filter(|answer| **answer == Retried::Retried).count();
        assert_eq!(won, 1, "{answers:?}");
        let told = Retried::NotRetryable(State::Ready);
        assert_eq!(answers.iter().filter(|answer| **answer == told).count(), 15, "{answers:?}");
        cancel(&*stores[0], &job).await;
    }
    invariants::hold(&*stores[0]).await;
}

/// Everything pushed, and the attempts on record; due now, attempts from 1, and nothing left of
/// an old request to end.
async fn a3_retry_keeps_the_job(kit: &Kit) {
    let store = kit.handle().await;
    let pushed = Job {
        priority: 3,
        timeout: Timeout::After(Duration::from_secs(7)),
        payload: Payload::from_json(r#"{"n": 9223372036854775807, "z":"\u0000"}"#).expect("JSON"),
        ..job("acme").max_attempts(2).key("kept").meta("traceparent", "00-a-b-01")
    };
    let pushed = push(&*store, pushed).await;
    let job = pushed.job_ref();
    let same = |record: &JobRecord| {
        let stored = Job { run_at: RunAt::Now, ..record.view.job.clone() };
        assert_eq!(stored, pushed);
    };
    let mut fences = Vec::new();
    for number in 1..=2 {
        let held = take_one(&*store).await;
        assert_eq!(held.attempt, number);
        fences.push(held.claim.fence);
        kit.age_secs(1).await;
        let outcome = if number == 1 {
            Outcome::Retry { after: Duration::ZERO, cause: "no".into() }
        } else {
            Outcome::Park { cause: "gave up".into() }
        };
        settle(&*store, &held.claim, outcome).await;
    }
    let parked = record(&*store, &job).await;
    assert_eq!((parked.view.attempt, parked.attempts.len()), (2, 2));
    assert_eq!(retry(&*store, &job).await, Retried::Retried);
    let ready = record(&*store, &job).await;
    same(&ready);
    assert_eq!((ready.view.state, ready.view.attempt), (State::Ready, 0), "attempts restart");
    assert_eq!(ready.attempts, parked.attempts, "history is kept");
    assert!(due(&ready.view) >= parked.now, "due now, not back then");
    assert_eq!(retry(&*store, &job).await, Retried::NotRetryable(State::Ready));

    let held = take_one(&*store).await;
    assert_eq!((held.claim.job.clone(), held.attempt), (job.clone(), 1));
    assert!(fences.iter().all(|fence| *fence < held.claim.fence), "and fences do not");
    assert_eq!(retry(&*store, &job).await, Retried::NotRetryable(State::Running));
    settle(&*store, &held.claim, Outcome::Retry { after: LATER, cause: "no".into() }).await;
    assert_eq!(retry(&*store, &job).await, Retried::NotRetryable(State::Scheduled));
    assert_eq!(cancel(&*store, &job).await, Cancelled::Cancelled);

    // Cancelled while its next run was far off: a retry is due now all the same.
    assert_eq!(retry(&*store, &job).await, Retried::Retried);
    let held = take_one(&*store).await;
    assert_eq!(held.attempt, 1);
    assert_eq!(cancel(&*store, &job).await, Cancelled::Requested);
    settle(&*store, &held.claim, Outcome::Cancelled { cause: "asked".into() }).await;
    let cancelled = record(&*store, &job).await;
    assert!(cancelled.view.finished_at.is_some());
    assert_eq!(retry(&*store, &job).await, Retried::Retried);
    let ready = record(&*store, &job).await;
    same(&ready);
    assert_eq!(ready.view.finished_at, None);
    assert_eq!(ready.last_verb.expect("on record").verb, "retry");
    let held = take_one(&*store).await;
    assert_eq!(renew(&*store, &held.claim).await, Renewed::Held, "an old request is over");
    settle(&*store, &held.claim, Outcome::Done).await;
    assert_eq!(retry(&*store, &job).await, Retried::NotRetryable(State::Done));
    let unknown = JobRef { tenant: "acme".into(), id: JobId::new() };
    assert_eq!(retry(&*store, &unknown).await, Retried::Unknown);

    let none = store.retry(&operator().await, &[]).await.expect("the store answers");
    assert!(none.is_empty());
    let both = [unknown, job];
    let answers = store.retry(&operator().await, &both).await.expect("the store answers");
    assert_eq!(answers, [Retried::Unknown, Retried::NotRetryable(State::Done)], "in order");
    let outcomes: Vec<_> = record(&*store, &both[1]).await.attempts;
    let outcomes: Vec<_> = outcomes.iter().map(|attempt| attempt.outcome).collect();
    use OutcomeKind::{Cancelled as C, Done as D, Park as P, Retry as R};
    assert_eq!(outcomes, [R, P, R, C, D], "all of it, in order");
    invariants::hold(&*store).await;
}

/// Scheduled, ready, parked, and running with its lease over; with its fence up, so that whoever
/// held it is stale. What has ended answers how.
async fn a3_cancel_at_once(kit: &Kit) {
    let store = kit.handle().await;
    let scheduled = push(&*store, job("acme").after(LATER)).await.job_ref();
    let parked = push(&*store, job("acme")).await.job_ref();
    let held = take_one(&*store).await;
    settle(&*store, &held.claim, Outcome::Park { cause: "no".into() }).await;
    let expired = push(&*store, job("acme")).await.job_ref();
    let silent = take_one(&*store).await;
    kit.age(LAPSE).await;
    let ready = push(&*store, job("acme").key("free again")).await.job_ref();
    let all = [scheduled, parked, expired, ready];
    let mut fences = Vec::new();
    for job in &all {
        fences.push(record(&*store, job).await.fence);
    }
    let answers = store.cancel(&operator().await, &all).await.expect("the store answers");
    assert_eq!(answers, [Cancelled::Cancelled; 4]);
    for (job, fence) in all.iter().zip(fences) {
        let record = record(&*store, job).await;
        assert_eq!(record.view.state, State::Cancelled);
        assert!(record.view.finished_at.is_some() && record.holder.is_none());
        assert!(record.fence > fence, "its ownership changed");
        assert_eq!(record.last_verb.expect("on record").verb, "cancel");
        assert_eq!(cancel(&*store, job).await, Cancelled::NotLive(State::Cancelled));
    }
    let attempts = record(&*store, &all[2]).await.attempts;
    assert_eq!(attempts.len(), 1, "the attempt that it ended is on record");
    for write in Write::all() {
        assert_eq!(write.by(&*store, &silent.claim).await, Wrote::Lost);
    }
    push(&*store, job("acme").key("free again").priority(1)).await;
    let held = take_one(&*store).await;
    settle(&*store, &held.claim, Outcome::Done).await;
    assert_eq!(cancel(&*store, &held.claim.job).await, Cancelled::NotLive(State::Done));
    kit.age(LATER).await;
    assert!(sweep_all(&*store).await.is_empty(), "none of them is anybody's any more");
    nothing(&*store, &wants(10)).await;
    let unknown = JobRef { tenant: "acme".into(), id: JobId::new() };
    assert_eq!(cancel(&*store, &unknown).await, Cancelled::Unknown);
    invariants::hold(&*store).await;
}

/// And goes on until it stops by itself.
async fn a3_cancel_asks_a_running_job(kit: &Kit) {
    let store = kit.handle().await;
    let job = push(&*store, job("acme")).await.job_ref();
    let held = take_one(&*store).await;
    for _ in 0..2 {
        assert_eq!(cancel(&*store, &job).await, Cancelled::Requested);
        let asked = record(&*store, &job).await;
        assert_eq!(asked.view.state, State::Running);
        assert!(asked.view.cancel_requested);
        assert_eq!(asked.fence, held.claim.fence, "it is still the holder's");
        assert_eq!(asked.holder.expect("held").worker, "suite");
    }
    assert_eq!(renew(&*store, &held.claim).await, Renewed::CancelRequested);
    nothing(&*store, &wants(10)).await;
    // Its holder is asked, and falls silent: then it ends at once.
    kit.age(LAPSE).await;
    assert_eq!(cancel(&*store, &job).await, Cancelled::Cancelled);
    assert_eq!(state(&*store, &job).await, State::Cancelled);
    assert_eq!(renew(&*store, &held.claim).await, Renewed::Lost);
    invariants::hold(&*store).await;
}

/// In every state but running under a valid lease: row, history, counts, lists, id and key.
async fn a3_delete_frees_everything(kit: &Kit) {
    let store = kit.handle().await;
    let states = [
        State::Scheduled,
        State::Ready,
        State::Running,
        State::Parked,
        State::Done,
        State::Cancelled,
    ];
    for state in states {
        let queue = state.as_str();
        let keyed = job("acme").on(queue).key("one at a time");
        let due = Job { run_at: RunAt::Now, ..keyed.clone() };
        let pushed = if state == State::Scheduled { keyed.after(LATER) } else { due };
        let pushed = push(&*store, pushed).await;
        let job = pushed.job_ref();
        let mut claim = None;
        if !matches!(state, State::Scheduled | State::Ready) {
            let held = hold(&*store, &from_queue(queue, "suite", 1), 1).await.remove(0);
            match state {
                State::Parked => {
                    settle(&*store, &held.claim, Outcome::Park { cause: "no".into() }).await;
                }
                State::Done => {
                    settle(&*store, &held.claim, Outcome::Done).await;
                }
                State::Cancelled => {
                    let cause = "no".into();
                    settle(&*store, &held.claim, Outcome::Cancelled { cause }).await;
                }
                _ => {
                    assert_eq!(delete(&*store, &job).await, Deleted::Running);
                    kit.age_secs(15).await;
                    renew(&*store, &held.claim).await;
                    kit.age_secs(15).await;
                    assert_eq!(delete(&*store, &job).await, Deleted::Running, "renewed");
                    assert!(look(&*store, &job).await.is_some());
                    kit.age(LAPSE).await;
                }
            }
            claim = Some(held.claim);
        }
        assert_eq!(delete(&*store, &job).await, Deleted::Deleted, "{state}");
        assert_eq!(delete(&*store, &job).await, Deleted::Unknown, "{state}");
        assert!(look(&*store, &job).await.is_none(), "{state}");
        let lane = lane(&*store, queue, "acme").await;
        let left = [lane.scheduled, lane.waiting, lane.running, lane.parked];
        assert!(left.iter().all(|count| count.number == 0), "{state}: {left:?}");
        assert!(lane.oldest.is_zero());
        assert!(sweep_all(&*store).await.is_empty(), "{state}");
        nothing(&*store, &from_queue(queue, "suite", 10)).await;

        // The id and the key are free, and of the old life nothing is left.
        let again = store.enqueue(&[checked(pushed.clone())]).await;
        assert_eq!(again[0].as_ref().expect("the store answers"), &Pushed::Stored, "{state}");
        let fresh = record(&*store, &job).await;
        assert!(fresh.attempts.is_empty() && fresh.last_verb.is_none(), "{state}: {fresh:?}");
        assert_eq!((fresh.view.attempt, fresh.releases, fresh.snoozes), (0, 0, 0));
        if let Some(claim) = claim {
            let late = settle(&*store, &claim, Outcome::Done).await;
            assert_eq!(late, jobs_core::Settled::Lost, "{state}: its old life's claim");
        }
        assert_eq!(delete(&*store, &job).await, Deleted::Deleted);
    }
    invariants::hold_with(&*store, &[]).await;
}

/// Who, since when, renewed when, until when; nobody before and after.
async fn a5_get_shows_the_holder(kit: &Kit) {
    let store = kit.handle().await;
    let job = push(&*store, job("acme")).await.job_ref();
    assert_eq!(record(&*store, &job).await.holder, None);
    let lease = Lease::new(Duration::from_secs(100)).expect("legal");
    let request = from_queue(QUEUE, "héllo worker 1 @host", 1).lease(lease);
    let held = hold(&*store, &request, 1).await.remove(0);
    let first = record(&*store, &job).await;
    let holder = first.holder.expect("held");
    assert_eq!(holder.worker, "héllo worker 1 @host");
    assert_eq!(first.fence, held.claim.fence);
    assert_eq!(holder.renewed_at, holder.started_at, "not renewed yet");
    assert_eq!(holder.lease_until.duration_since(holder.started_at).as_secs(), 100);
    assert!(holder.started_at <= first.now);

    kit.age_secs(30).await;
    let claims = std::slice::from_ref(&held.claim);
    store.renew(lease, claims).await.expect("the store answers");
    let second = record(&*store, &job).await;
    let holder = second.holder.expect("held");
    let ran = holder.renewed_at.duration_since(holder.started_at).as_secs();
    assert!((30..60).contains(&ran), "renewed after {ran} s");
    assert_eq!(holder.lease_until.duration_since(holder.renewed_at).as_secs(), 100);
    // An expired lease is shown as what it is until somebody takes the job.
    kit.age_secs(200).await;
    let silent = record(&*store, &job).await;
    assert_eq!(silent.view.state, State::Running);
    assert!(silent.holder.expect("nobody took it").lease_until < silent.now);
    settle(&*store, &held.claim, Outcome::Release).await;
    assert_eq!(record(&*store, &job).await.holder, None);
    let unknown = JobRef { tenant: "acme".into(), id: JobId::new() };
    assert!(look(&*store, &unknown).await.is_none());
}
