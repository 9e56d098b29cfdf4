//! Cases: a worker and its leases, while the store or the application does not answer.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use jobs_core::{
    OutcomeKind, Settled, State,
    job::Timeout,
    queue::Lease,
    worker::{Context, Failure, FinishedRun, Handler, Recorder},
};
use tokio::time::sleep;

use super::worker_help::{
    Flaky, Tally, Work, elsewhere, look, push_all, short, state, until, work, worker,
};
use crate::kit::{Kit, push};

super::cases![
    k3_a_lost_lease_cancels_the_handler,
    k3_an_outage_ends_runs_before_their_leases,
    k3_one_failed_renewal_is_no_loss,
    k4_a_blocked_runtime_keeps_its_lease,
    k9_an_outage_is_survived,
    k9_a_late_answer_starts_nothing,
    k9_a_slow_answer_starts_nothing,
    k9_a_watch_that_hangs_slows_nobody,
    k9_a_settlement_without_an_answer_is_repeated,
    k9_lost_replies_lose_nothing,
    k9_a_store_that_hangs_is_survived,
];

fn lease(seconds: u64) -> Lease {
    Lease::new(Duration::from_secs(seconds)).expect("legal")
}

/// Says when it is dropped.
struct OnDrop(Arc<AtomicBool>);

impl Drop for OnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// A handler whose first run waits for the token and then for ever; its second succeeds.
#[derive(Clone, Default)]
struct DeafOnce {
    tally: Tally,
    told: Arc<AtomicBool>,
    dropped: Arc<AtomicBool>,
}

impl Handler<Work> for DeafOnce {
    type Error = Failure;

    async fn run(&self, context: Context, Work(number): Work) -> Result<(), Failure> {
        if self.tally.ran(number) == 1 {
            let _drops = OnDrop(self.dropped.clone());
            context.cancelled().await;
            self.told.store(true, Ordering::SeqCst);
            std::future::pending::<()>().await;
        }
        Ok(())
    }
}

/// The sweep takes a running job: token, then the future is dropped; the job runs again.
async fn k3_a_lost_lease_cancels_the_handler(kit: &Kit) {
    let store = kit.handle().await;
    let job = push(&*store, work("acme", 1)).await;
    let handler = DeafOnce::default();
    let DeafOnce { tally, told, dropped } = handler.clone();
    let told_of = Told::default();
    let runs = worker(store.clone()).lease(lease(4)).recorder(told_of.clone());
    let runs = runs.handle_with::<Work>(handler).run_until_idle();
    let takes = async {
        until("it runs", || async { tally.of(1) == 1 }).await;
        let lost = || async {
            kit.age_secs(5).await;
            !store.sweep().await.expect("the store answers").lost.is_empty()
        };
        until("the lease is lost", lost).await;
        until("the token", || async { told.load(Ordering::SeqCst) }).await;
        until("the drop", || async { dropped.load(Ordering::SeqCst) }).await;
        until("the second run", || async { state(&*store, &job).await == State::Done }).await;
    };
    let (ended, ()) = tokio::join!(runs, takes);
    assert_eq!(ended.expect("it starts").settled, 1, "the first result is discarded");
    let attempts = look(&*store, &job).await.attempts;
    let outcomes: Vec<_> = attempts.iter().map(|attempt| attempt.outcome).collect();
    assert_eq!(outcomes, [OutcomeKind::Lost, OutcomeKind::Done]);
    let told_of = told_of.0.lock().expect("whole").clone();
    // The second run may be done before the first one's future is dropped.
    let both = [Settled::Lost, Settled::Applied(State::Done)];
    assert_eq!(told_of.len(), 2, "{told_of:?}");
    assert!(both.iter().all(|one| told_of.contains(one)), "the Recorder hears both: {told_of:?}");
}

/// What the Recorder heard of each run.
#[derive(Clone, Default)]
struct Told(Arc<Mutex<Vec<Settled>>>);

impl Recorder for Told {
    fn finished(&self, run: &FinishedRun<'_>) {
        self.0.lock().expect("whole").push(run.settled);
    }
}

/// Cut off from the store, the worker ends its run while the store still counts it as held.
async fn k3_an_outage_ends_runs_before_their_leases(kit: &Kit) {
    let store = kit.handle().await;
    let job = push(&*store, work("acme", 1)).await;
    let handler = DeafOnce::default();
    let DeafOnce { tally, told, dropped } = handler.clone();
    let flaky = Flaky::new(store.clone());
    let switch = flaky.switch.clone();
    let runs = worker(flaky).lease(lease(6)).handle_with::<Work>(handler).run_until_idle();
    let cuts = async {
        until("it runs", || async { tally.of(1) == 1 }).await;
        switch.off.store(true, Ordering::SeqCst);
        until("the drop", || async { dropped.load(Ordering::SeqCst) }).await;
        let record = look(&*store, &job).await;
        let holder = record.holder.expect("it is still held");
        assert!(record.now <= holder.lease_until, "the run ended after its lease");
        assert!(told.load(Ordering::SeqCst), "the token first");
        switch.off.store(false, Ordering::SeqCst);
        kit.age_secs(7).await;
        until("the second run", || async { state(&*store, &job).await == State::Done }).await;
    };
    let (ended, ()) = tokio::join!(runs, cuts);
    assert_eq!((ended.expect("it starts").exit_code(), tally.runs()), (0, 2));
}

/// Failing renewals between those that work: the job keeps its lease, and runs once.
async fn k3_one_failed_renewal_is_no_loss(kit: &Kit) {
    let store = kit.handle().await;
    let job = push(&*store, work("acme", 1)).await;
    let flaky = Flaky::new(store.clone());
    let switch = flaky.switch.clone();
    let handler = async |_: Context, _: Work| {
        sleep(Duration::from_secs(6)).await;
        Ok::<(), Failure>(())
    };
    let runs = worker(flaky).lease(lease(3)).handle(handler).run_until_idle();
    let fails = async {
        for _ in 0..4 {
            switch.renewals.store(1, Ordering::SeqCst);
            sleep(Duration::from_millis(1400)).await;
            store.sweep().await.expect("the store answers");
        }
        switch.renewals.store(0, Ordering::SeqCst);
    };
    let (ended, ()) = tokio::join!(runs, fails);
    assert_eq!(ended.expect("it starts").settled, 1);
    let record = look(&*store, &job).await;
    assert_eq!((record.view.state, record.view.attempt), (State::Done, 1));
    assert!(switch.count(&["renew"]) >= 6);
}

/// The application has one thread, and its handler blocks it for more than three leases. Another
/// job, which cannot take a step meanwhile, is not charged for its timeout.
async fn k4_a_blocked_runtime_keeps_its_lease(kit: &Kit) {
    let store = kit.handle().await;
    let job = push(&*store, work("acme", 1)).await;
    let other = work("acme", 2).timeout(Timeout::After(Duration::from_millis(100)));
    let other = push(&*store, other.max_attempts(1)).await;
    let (fixture, namespace) = (kit.fixture.clone(), kit.namespace.clone());
    let application = elsewhere(0, move || async move {
        let store = fixture.make(&namespace, Default::default()).await;
        let handler = async |_: Context, Work(number): Work| {
            if number == 1 {
                std::thread::sleep(Duration::from_millis(6500));
            }
            Ok::<(), Failure>(())
        };
        let worker = worker(store).concurrency(2).lease(short()).handle(handler);
        worker.run_until_idle().await.expect("it starts")
    });
    let ended = async {
        until("it ended", || async {
            store.sweep().await.expect("the store answers");
            application.is_finished()
        })
        .await;
    };
    ended.await;
    let ended = application.join().expect("no panic");
    assert_eq!((ended.exit_code(), ended.settled), (0, 2));
    for job in [job, other] {
        let record = look(&*store, &job).await;
        assert_eq!((record.view.state, record.view.attempt), (State::Done, 1));
    }
}

/// The store goes away for longer than a lease, twice: everything is done in the end.
async fn k9_an_outage_is_survived(kit: &Kit) {
    let store = kit.handle().await;
    let jobs: Vec<_> = (0..40).map(|number| work("acme", number)).collect();
    push_all(&*store, &jobs).await;
    let (tally, flaky) = (Tally::default(), Flaky::new(store.clone()));
    let (counts, switch) = (tally.clone(), flaky.switch.clone());
    let handler = move |_: Context, Work(number): Work| {
        counts.ran(number);
        async {
            sleep(Duration::from_millis(150)).await;
            Ok::<(), Failure>(())
        }
    };
    let runs = worker(flaky).lease(short()).handle(handler).run_until_idle();
    let outages = async {
        for reached in [5, 20] {
            until("some ran", || async { tally.jobs() >= reached }).await;
            switch.off.store(true, Ordering::SeqCst);
            sleep(Duration::from_millis(2500)).await;
            switch.off.store(false, Ordering::SeqCst);
        }
    };
    let (ended, ()) = tokio::join!(runs, outages);
    assert_eq!(ended.expect("it starts").exit_code(), 0);
    for job in &jobs {
        assert_eq!(state(&*store, job).await, State::Done);
    }
}

/// Every tenth reply is lost: repeated calls find what the first ones did.
async fn k9_lost_replies_lose_nothing(kit: &Kit) {
    let store = kit.handle().await;
    let jobs: Vec<_> = (0..60).map(|number| work("acme", number)).collect();
    push_all(&*store, &jobs).await;
    let (tally, flaky) = (Tally::default(), Flaky::new(store.clone()));
    let (counts, switch) = (tally.clone(), flaky.switch.clone());
    let handler = move |_: Context, Work(number): Work| {
        counts.ran(number);
        if number.is_multiple_of(10) {
            switch.cuts.store(1, Ordering::SeqCst);
        }
        async {
            sleep(Duration::from_millis(15)).await;
            Ok::<(), Failure>(())
        }
    };
    let ended = worker(flaky).handle(handler).run_until_idle().await.expect("it starts");
    assert_eq!((ended.exit_code(), ended.settled), (0, 60));
    assert_eq!((tally.jobs(), tally.runs()), (60, 60));
    for job in &jobs {
        let record = look(&*store, job).await;
        assert_eq!((record.view.state, record.view.attempt), (State::Done, 1));
    }
}

/// Calls that are never answered are given up after their deadline, and the worker goes on.
async fn k9_a_store_that_hangs_is_survived(kit: &Kit) {
    let store = kit.handle().await;
    let flaky = Flaky::new(store.clone());
    let switch = flaky.switch.clone();
    let handler = async |_: Context, _: Work| Ok::<(), Failure>(());
    let stop = Arc::new(tokio::sync::Notify::new());
    let stopped = stop.clone();
    let worker = worker(flaky).handle(handler);
    let runs = worker.run_until(async move { stopped.notified().await });
    let hangs = async {
        until("it started", || async { switch.count(&["reserve"]) > 0 }).await;
        switch.hangs.store(true, Ordering::SeqCst);
        let before = switch.count(&["reserve"]);
        let job = push(&*store, work("acme", 1)).await;
        until("a reserve hangs", || async { switch.count(&["reserve"]) > before }).await;
        switch.hangs.store(false, Ordering::SeqCst);
        until("it runs", || async { state(&*store, &job).await == State::Done }).await;
        stop.notify_one();
    };
    let (ended, ()) = tokio::join!(runs, hangs);
    assert_eq!(ended.expect("it starts").exit_code(), 0);
}

/// An idle worker's reserve fails until its lease, counted from the first try, is nearly over.
/// What the repeated call then brings is given back, not started and ended at once.
async fn k9_a_late_answer_starts_nothing(kit: &Kit) {
    let store = kit.handle().await;
    let flaky = Flaky::new(store.clone());
    let switch = flaky.switch.clone();
    let (tally, stop) = (Tally::default(), Arc::new(tokio::sync::Notify::new()));
    let (counts, stopped) = (tally.clone(), stop.clone());
    let handler = move |_: Context, Work(number): Work| {
        counts.ran(number);
        async {
            sleep(Duration::from_millis(700)).await;
            Ok::<(), Failure>(())
        }
    };
    // Trusted for 2.6 s: the sixth try comes 2.8 to 3.1 s after the first.
    let lease = Lease::new(Duration::from_millis(3500)).expect("legal");
    let runs = worker(flaky).lease(lease).handle(handler);
    let runs = runs.run_until(async move { stopped.notified().await });
    let outage = async {
        until("it started", || async { switch.count(&["reserve"]) > 0 }).await;
        sleep(Duration::from_millis(300)).await;
        switch.off.store(true, Ordering::SeqCst);
        let before = switch.count(&["reserve"]);
        until("five tries", || async { switch.count(&["reserve"]) >= before + 5 }).await;
        let job = push(&*store, work("acme", 1)).await;
        switch.off.store(false, Ordering::SeqCst);
        until("it is done", || async { state(&*store, &job).await == State::Done }).await;
        stop.notify_one();
        look(&*store, &job).await.view.attempt
    };
    let (ended, attempt) = tokio::join!(runs, outage);
    assert_eq!((ended.expect("it starts").exit_code(), attempt, tally.runs()), (0, 1, 1));
}

/// One reserve is answered when its leases, counted from when it was sent, are not trusted any
/// more: the store may have taken the jobs at any time since. They are given back unspent.
async fn k9_a_slow_answer_starts_nothing(kit: &Kit) {
    let store = kit.handle().await;
    let job = push(&*store, work("acme", 1)).await;
    let flaky = Flaky::new(store.clone());
    // Trusted for 3 s.
    *flaky.switch.late.lock().expect("whole") = Duration::from_millis(3200);
    let tally = Tally::default();
    let counts = tally.clone();
    let handler = move |_: Context, Work(number): Work| {
        counts.ran(number);
        async {
            sleep(Duration::from_millis(700)).await;
            Ok::<(), Failure>(())
        }
    };
    let ended = worker(flaky).lease(lease(4)).handle(handler).run_until_idle().await;
    let record = look(&*store, &job).await;
    assert_eq!((ended.expect("it starts").exit_code(), tally.runs()), (0, 1));
    assert_eq!((record.view.state, record.view.attempt, record.releases), (State::Done, 1, 1));
}

/// Only `watch` never answers: jobs are found by the polls, and run as fast as ever.
async fn k9_a_watch_that_hangs_slows_nobody(kit: &Kit) {
    let store = kit.handle().await;
    let jobs: Vec<_> = (0..20).map(|number| work("acme", number)).collect();
    push_all(&*store, &jobs).await;
    let flaky = Flaky::new(store);
    *flaky.switch.hung.lock().expect("whole") = "watch";
    let handler = async |_: Context, _: Work| {
        sleep(Duration::from_millis(15)).await;
        Ok::<(), Failure>(())
    };
    let start = std::time::Instant::now();
    let worker = worker(flaky).concurrency(1).handle(handler);
    assert_eq!(worker.run_until_idle().await.expect("it starts").settled, 20);
    assert!(start.elapsed() < Duration::from_secs(9), "{:?}", start.elapsed());
}

/// A driver that answers fewer settlements than it got: the others are sent again, and what the
/// store has is not given up.
async fn k9_a_settlement_without_an_answer_is_repeated(kit: &Kit) {
    let store = kit.handle().await;
    let jobs: Vec<_> = (0..4).map(|number| work("acme", number)).collect();
    push_all(&*store, &jobs).await;
    let flaky = Flaky::new(store.clone());
    flaky.switch.short.store(3, Ordering::SeqCst);
    let handler = async |_: Context, _: Work| Ok::<(), Failure>(());
    let ended = worker(flaky).handle(handler).run_until_idle().await.expect("it starts");
    assert_eq!((ended.exit_code(), ended.settled, ended.left), (0, 4, 0));
    for job in &jobs {
        assert_eq!(state(&*store, job).await, State::Done);
    }
}
