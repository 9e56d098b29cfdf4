//! Cases: sweep.

use std::collections::BTreeSet;

use jobs_core::{
    Admin, Cause, JobRef, Outcome, OutcomeKind, State,
    admin::{Cancelled, LaneChange, LaneRef, Pause},
    queue::{Lease, Lost},
};

use crate::{
    invariants,
    kit::{Kit, NAME, checked, job, operator, push, take, take_one, wants},
    ops::{LAPSE, cancel, from_queue, hold, nothing, record, renew, settle, state, sweep_all},
};

super::cases![
    x1_sweep_answers_the_jobs,
    x1_a_renewed_job_is_left_alone,
    x1_bounded_per_call,
    x1_any_handle_sweeps_all_tenants,
    x1_the_last_attempt_parks,
    x1_a_requested_cancel_ends_as_cancelled,
    x1_two_sweeps_at_once,
];

/// Exactly those whose lease is over, each once, with where it is now; and they are due at once.
async fn x1_sweep_answers_the_jobs(kit: &Kit) {
    let store = kit.handle().await;
    assert_eq!(store.sweep().await.expect("the store answers"), Default::default());
    let lost = push(&*store, job("acme").on("one")).await;
    let last = push(&*store, job("other").on("two").max_attempts(1)).await;
    hold(&*store, &from_queue("one", "silent", 1), 1).await;
    hold(&*store, &from_queue("two", "silent", 1), 1).await;
    let waiting = push(&*store, job("acme").on("one")).await;
    let future = push(&*store, job("acme").on("one").after(crate::ops::LATER)).await;
    assert!(sweep_all(&*store).await.is_empty(), "nobody is silent past its lease yet");
    kit.age(LAPSE).await;
    let fresh = push(&*store, job("acme").on("three")).await;
    hold(&*store, &from_queue("three", "alive", 1), 1).await;

    let mut answered = sweep_all(&*store).await;
    answered.sort_unstable_by(|a, b| a.queue.cmp(&b.queue));
    let answer = |job: &jobs_core::Job, state| Lost {
        job: job.job_ref(),
        queue: job.queue.clone(),
        name: NAME.to_owned(),
        attempt: 1,
        state,
    };
    assert_eq!(answered, [answer(&lost, State::Ready), answer(&last, State::Parked)]);
    assert!(sweep_all(&*store).await.is_empty(), "each once");
    assert_eq!(state(&*store, &lost.job_ref()).await, State::Ready);
    assert_eq!(state(&*store, &last.job_ref()).await, State::Parked);
    assert_eq!(state(&*store, &fresh.job_ref()).await, State::Running);
    assert_eq!(state(&*store, &future.job_ref()).await, State::Scheduled);

    let held = hold(&*store, &from_queue("one", "suite", 2), 2).await;
    let again = held.iter().find(|held| held.job.id == lost.id).expect("due at once");
    assert_eq!((again.attempt, again.suspect), (2, true), "a lost attempt is spent");
    let other = held.iter().find(|held| held.job.id == waiting.id).expect("due");
    assert_eq!((other.attempt, other.suspect), (1, false));
    let record = record(&*store, &lost.job_ref()).await;
    let attempt = record.attempts.last().expect("on record");
    assert_eq!((attempt.outcome, attempt.worker.as_str()), (OutcomeKind::Lost, "silent"));
    invariants::hold(&*store).await;
}

/// Ten leases long, renewed in time, among others that fall silent.
async fn x1_a_renewed_job_is_left_alone(kit: &Kit) {
    let store = kit.handle().await;
    push(&*store, job("acme")).await;
    let long = take_one(&*store).await;
    for round in 0..12 {
        let silent = push(&*store, job("acme")).await;
        take_one(&*store).await;
        for _ in 0..2 {
            kit.age_secs(15).await;
            renew(&*store, &long.claim).await;
        }
        let lost: Vec<_> = sweep_all(&*store).await.into_iter().map(|lost| lost.job).collect();
        assert_eq!(lost, [silent.job_ref()], "round {round}");
        cancel(&*store, &silent.job_ref()).await;
    }
    let after = record(&*store, &long.claim.job).await;
    assert_eq!((after.view.attempt, after.fence), (1, long.claim.fence));
    let done = settle(&*store, &long.claim, Outcome::Done).await;
    assert_eq!(done, jobs_core::Settled::Applied(State::Done));
}

/// 3,000 lost jobs are not taken back in one call; it says that there is more, and each is
/// answered once.
async fn x1_bounded_per_call(kit: &Kit) {
    let store = kit.handle().await;
    const JOBS: usize = 3000;
    let jobs: Vec<_> = (0..JOBS).map(|_| checked(job("acme"))).collect();
    let answers = store.enqueue(&jobs).await;
    assert!(answers.iter().all(|answer| answer.is_ok()), "the store answers");
    let long = Lease::new(std::time::Duration::from_secs(600)).expect("legal");
    hold(&*store, &wants(1).lease(long), JOBS).await;
    kit.age_secs(700).await;
    let mut lost = BTreeSet::new();
    for call in 0.. {
        let swept = store.sweep().await.expect("the store answers");
        assert!(swept.lost.len() < JOBS, "all at once");
        for gone in swept.lost {
            assert!(lost.insert(gone.job.clone()), "{} is answered twice", gone.job);
        }
        if !swept.more {
            break;
        }
        assert!(call < 1000, "there is always more");
    }
    assert_eq!(lost.len(), JOBS, "what was not swept was said to be there");
}

/// A handle that never reserved and knows no name, over all tenants and queues, paused ones too.
async fn x1_any_handle_sweeps_all_tenants(kit: &Kit) {
    let worker = kit.handle().await;
    let mut jobs = BTreeSet::new();
    for (tenant, queue) in [("acme", "one"), ("other", "one"), ("third", "two"), ("acme", "two")] {
        jobs.insert(push(&*worker, job(tenant).on(queue)).await.job_ref());
    }
    hold(&*worker, &from_queue("one", "suite", 2), 2).await;
    hold(&*worker, &from_queue("two", "suite", 2), 2).await;
    let lane = LaneRef { queue: "two".into(), tenant: Some("third".into()) };
    let pause = LaneChange { pause: Some(Pause::On), ..LaneChange::default() };
    worker.set_lane(&operator().await, &lane, pause).await.expect("the store answers");
    kit.age(LAPSE).await;
    let other = kit.handle().await.open_own().await.expect("the store answers");
    let mut lost = BTreeSet::new();
    loop {
        let swept = other.sweep().await.expect("the store answers");
        lost.extend(swept.lost.into_iter().map(|lost| lost.job));
        if !swept.more {
            break;
        }
    }
    assert_eq!(lost, jobs);
}

/// With cause *lost* and its attempts on record, and is delivered no more.
async fn x1_the_last_attempt_parks(kit: &Kit) {
    let store = kit.handle().await;
    let poison = push(&*store, job("acme").max_attempts(3).key("poison")).await.job_ref();
    for attempt in 1..=3 {
        let held = take_one(&*store).await;
        assert_eq!((held.attempt, held.suspect), (attempt, attempt > 1));
        kit.age(LAPSE).await;
        let lost = sweep_all(&*store).await;
        let to = if attempt < 3 { State::Ready } else { State::Parked };
        assert_eq!(lost.len(), 1);
        assert_eq!((lost[0].attempt, lost[0].state), (attempt, to));
        assert_eq!(state(&*store, &poison).await, to);
    }
    nothing(&*store, &wants(10)).await;
    let record = record(&*store, &poison).await;
    assert_eq!(record.view.attempt, 3);
    let outcomes: Vec<_> = record.attempts.iter().map(|attempt| attempt.outcome).collect();
    assert_eq!(outcomes, [OutcomeKind::Lost; 3]);
    let cause = record.view.last_cause.as_ref().map_or("", Cause::as_str);
    assert!(!cause.is_empty(), "a person who finds it parked reads why");
    assert_eq!(record.attempts[2].cause, record.view.last_cause);
    invariants::hold(&*store).await;

    // Given back is not lost: the last attempt of a job whose worker shut down is there again.
    push(&*store, job("acme").max_attempts(1)).await;
    let held = take_one(&*store).await;
    settle(&*store, &held.claim, Outcome::Release).await;
    take_one(&*store).await;
}

/// With attempts left or not, and its key is free.
async fn x1_a_requested_cancel_ends_as_cancelled(kit: &Kit) {
    let store = kit.handle().await;
    for max_attempts in [1, 5] {
        let unwanted = job("acme").max_attempts(max_attempts).key("one at a time");
        let unwanted = push(&*store, unwanted).await.job_ref();
        let held = take_one(&*store).await;
        assert_eq!(cancel(&*store, &unwanted).await, Cancelled::Requested);
        kit.age(LAPSE).await;
        let lost = sweep_all(&*store).await;
        assert_eq!(lost.len(), 1);
        assert_eq!((&lost[0].job, lost[0].state), (&unwanted, State::Cancelled));
        let record = record(&*store, &unwanted).await;
        assert_eq!(record.view.state, State::Cancelled);
        assert!(record.view.finished_at.is_some() && !record.view.cancel_requested);
        let attempt = record.attempts.last().expect("on record");
        assert_eq!((attempt.fence, attempt.outcome), (held.claim.fence, OutcomeKind::Lost));
        nothing(&*store, &wants(10)).await;
    }
    invariants::hold(&*store).await;
}

/// Each job is answered by one of them, spends one attempt and has it on record once.
async fn x1_two_sweeps_at_once(kit: &Kit) {
    let [one, two] = [kit.handle().await, kit.handle().await];
    for round in 1..=5 {
        const JOBS: usize = 60;
        let jobs: Vec<_> = (0..JOBS).map(|_| push_for(&*one)).collect();
        let jobs: BTreeSet<JobRef> = futures::future::join_all(jobs).await.into_iter().collect();
        hold(&*one, &wants(1), JOBS).await;
        kit.age(LAPSE).await;
        let gate = std::sync::Arc::new(tokio::sync::Barrier::new(2));
        let sweeper = |store: &std::sync::Arc<dyn Admin>| {
            let (store, gate) = (store.clone(), gate.clone());
            tokio::spawn(async move {
                gate.wait().await;
                sweep_all(&*store).await
            })
        };
        let (one_lost, two_lost) = (sweeper(&one), sweeper(&two));
        let mut lost = one_lost.await.expect("no panic");
        lost.extend(two_lost.await.expect("no panic"));
        assert_eq!(lost.len(), JOBS, "round {round}: each once, by one of them");
        let found: BTreeSet<JobRef> = lost.into_iter().map(|lost| lost.job).collect();
        assert_eq!(found, jobs);
        for job in &jobs {
            let record = record(&*one, job).await;
            assert_eq!((record.view.state, record.view.attempt), (State::Ready, 1), "{job}");
            assert_eq!(record.attempts.len(), 1, "{job}");
        }
        for held in take(&*one, JOBS).await {
            assert_eq!(held.attempt, 2);
            settle(&*one, &held.claim, Outcome::Done).await;
        }
    }
    invariants::hold(&*one).await;
}

async fn push_for(store: &dyn Admin) -> JobRef {
    push(store, job("acme")).await.job_ref()
}
