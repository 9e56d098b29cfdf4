//! Cases: the worker runs jobs, fairly among its slots and queues.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use jobs_core::{
    State,
    job::Timeout,
    queue::Pushed,
    worker::{Context, Failure, FinishedRun, Recorder},
};
use tokio::time::sleep;

use super::worker_help::{Flaky, Tally, Work, kept, push_all, short, state, until, work, worker};
use crate::kit::{Kit, operator, permit, push};

super::cases![
    k1_500_jobs_without_a_barrier,
    k1_long_jobs_are_never_held_ahead,
    k1_quick_jobs_come_in_batches,
    k1_the_drain_rate_is_not_the_polls,
    k1_a_slow_job_among_quick_ones_starts,
    k1_a_reserve_that_cannot_say_is_not_empty,
    k2_more_jobs_than_slots_complete,
    k2_more_failing_jobs_than_slots_complete,
    k10_two_workers_of_one_label,
    k10_queues_have_weights,
    k10_a_types_own_queue_is_worked,
    k11_the_recorder_gets_each_run,
    n1_a_push_wakes_an_idle_worker,
    n2_an_idle_worker_is_quiet,
];

/// One slow job among 500 quick ones keeps one slot, and nobody else waits for it.
async fn k1_500_jobs_without_a_barrier(kit: &Kit) {
    let store = kit.handle().await;
    let jobs: Vec<_> = (0..500).map(|number| work("acme", number)).collect();
    push_all(&*store, &jobs).await;
    let tally = Tally::default();
    let handler = {
        let tally = tally.clone();
        move |_: Context, Work(number): Work| {
            let tally = tally.clone();
            async move {
                tally.ran(number);
                // The slow one ends when all others have started.
                if number == 3 {
                    until("the other 499", || async { tally.jobs() == 500 }).await;
                }
                Ok::<(), Failure>(())
            }
        }
    };
    let ended = worker(store.clone()).handle(handler).run_until_idle().await.expect("it starts");
    assert_eq!((ended.exit_code(), ended.settled), (0, 500));
    assert_eq!((tally.jobs(), tally.runs()), (500, 500));
}

/// Ten jobs that take their time and two slots: eight stay with the store, for other workers.
async fn k1_long_jobs_are_never_held_ahead(kit: &Kit) {
    let store = kit.handle().await;
    let jobs: Vec<_> = (0..10).map(|number| work("acme", number)).collect();
    push_all(&*store, &jobs).await;
    let flaky = Flaky::new(store.clone());
    let handler = async |_: Context, _: Work| {
        sleep(Duration::from_millis(300)).await;
        Ok::<(), Failure>(())
    };
    let runs = worker(flaky.clone()).concurrency(2).handle(handler).run_until_idle();
    let look = async {
        for _ in 0..10 {
            let mut held = 0;
            for job in &jobs {
                held += usize::from(state(&*store, job).await == State::Running);
            }
            // One may be reserved between two looks at the jobs.
            assert!(held <= 3, "{held} of two are running");
            sleep(Duration::from_millis(50)).await;
        }
    };
    let (ended, ()) = tokio::join!(runs, look);
    assert_eq!(ended.expect("it starts").settled, 10);
    let asked = *flaky.switch.asked.lock().expect("whole");
    assert_eq!(asked, (2, 0), "most slots and most held ahead ever asked for");
}

/// Names that measured quick are taken in batches, by default.
async fn k1_quick_jobs_come_in_batches(kit: &Kit) {
    let store = kit.handle().await;
    let jobs: Vec<_> = (0..2000).map(|number| work("acme", number)).collect();
    push_all(&*store, &jobs).await;
    let flaky = Flaky::new(store);
    let handler = async |_: Context, _: Work| Ok::<(), Failure>(());
    let worker = worker(flaky.clone()).handle(handler);
    assert_eq!(worker.run_until_idle().await.expect("it starts").settled, 2000);
    let ahead = flaky.switch.asked.lock().expect("whole").1;
    assert!((1..=128).contains(&ahead), "{ahead} held ahead");
}

/// One slot and 100 jobs: at one job per poll this would take minutes.
async fn k1_the_drain_rate_is_not_the_polls(kit: &Kit) {
    let store = kit.handle().await;
    let jobs: Vec<_> = (0..100).map(|number| work("acme", number)).collect();
    push_all(&*store, &jobs).await;
    let start = Instant::now();
    let handler = async |_: Context, _: Work| {
        sleep(Duration::from_millis(15)).await;
        Ok::<(), Failure>(())
    };
    let worker = worker(store).concurrency(1).handle(handler);
    assert_eq!(worker.run_until_idle().await.expect("it starts").settled, 100);
    assert!(start.elapsed() < Duration::from_secs(40), "{:?}", start.elapsed());
}

/// Others have the turn for longer than a drain waits for what is not visible yet: it does not take that
/// for an empty queue. Each asks again a millisecond later or more.
async fn k1_a_reserve_that_cannot_say_is_not_empty(kit: &Kit) {
    let store = kit.handle().await;
    push_all(&*store, &[work("acme", 1)]).await;
    let flaky = Flaky::new(store);
    flaky.switch.unsaid.store(600, Ordering::SeqCst);
    let handler = async |_: Context, _: Work| Ok::<(), Failure>(());
    let ended = worker(flaky).handle(handler).run_until_idle().await.expect("it starts");
    assert_eq!((ended.exit_code(), ended.settled), (0, 1));
}

/// A backlog of quick jobs that never ends: another tenant's slow job starts all the same.
async fn k1_a_slow_job_among_quick_ones_starts(kit: &Kit) {
    let store = kit.handle().await;
    let jobs: Vec<_> = (0..300).map(|number| work("acme", number)).collect();
    push_all(&*store, &jobs).await;
    let started = Arc::new(AtomicBool::new(false));
    let quick = {
        let started = started.clone();
        move |context: Context, Work(number): Work| {
            let started = started.clone();
            async move {
                if !started.load(Ordering::SeqCst) {
                    assert_eq!(context.push(Work(number + 1000)).await?, Pushed::Stored);
                }
                Ok::<(), Failure>(())
            }
        }
    };
    let slow = {
        let started = started.clone();
        move |_: Context, _| {
            started.store(true, Ordering::SeqCst);
            async { Ok::<(), Failure>(()) }
        }
    };
    let runs = worker(store.clone()).handle(quick).handle_named("slow", slow).run_until_idle();
    let pushes = async {
        // By now the quick ones are held ahead.
        sleep(Duration::from_millis(500)).await;
        let mut job = work("other", 0);
        job.name = "slow".to_owned();
        push(&*store, job.clone()).await;
        until("the slow job", || async { state(&*store, &job).await == State::Done }).await;
    };
    let (ended, ()) = tokio::join!(runs, pushes);
    assert_eq!(ended.expect("it starts").exit_code(), 0);
}

/// Relata's deadlock: many jobs, two slots, heartbeats on, each job longer than the lease.
async fn k2_more_jobs_than_slots_complete(kit: &Kit) {
    let store = kit.handle().await;
    let jobs: Vec<_> = (0..16).map(|number| work("acme", number)).collect();
    push_all(&*store, &jobs).await;
    let tally = Tally::default();
    let counts = tally.clone();
    let handler = move |_: Context, Work(number): Work| {
        let tally = counts.clone();
        async move {
            tally.ran(number);
            sleep(Duration::from_millis(3300)).await;
            Ok::<(), Failure>(())
        }
    };
    let worker = worker(store.clone()).concurrency(2).lease(kept()).handle(handler);
    let ended = worker.run_until_idle().await.expect("it starts");
    assert_eq!((ended.exit_code(), tally.jobs(), tally.runs()), (0, 16, 16));
}

/// The same with jobs that fail, panic, run past their timeout and are cancelled.
async fn k2_more_failing_jobs_than_slots_complete(kit: &Kit) {
    let store = kit.handle().await;
    let job = |number| {
        let timeout = if number % 5 == 3 {
            Timeout::After(Duration::from_millis(100))
        } else {
            Timeout::Never
        };
        work("acme", number).max_attempts(1).timeout(timeout)
    };
    let jobs: Vec<_> = (0..25).map(job).collect();
    push_all(&*store, &jobs).await;
    let (started, mut cancels) = tokio::sync::mpsc::unbounded_channel();
    let handler = move |context: Context, Work(number): Work| {
        let started = started.clone();
        async move {
            match number % 5 {
                0 => sleep(Duration::from_millis(1100)).await,
                1 => return Err(Failure::retry("it failed")),
                2 => panic!("it panicked"),
                3 => std::future::pending().await,
                _ => {
                    let _ = started.send(context.job().job_ref());
                    context.cancelled().await;
                    return Err(Failure::retry("it was told to"));
                }
            }
            Ok(())
        }
    };
    let runs = worker(store.clone()).concurrency(2).lease(short()).handle(handler).run_until_idle();
    let cancel = async {
        while let Some(job) = cancels.recv().await {
            store.cancel(&permit("acme"), &[job]).await.expect("the store answers");
        }
    };
    let (ended, ()) = tokio::join!(runs, cancel);
    assert_eq!(ended.expect("it starts").exit_code(), 0);
    for (number, job) in jobs.iter().enumerate() {
        let expected = match number % 5 {
            0 => State::Done,
            4 => State::Cancelled,
            _ => State::Parked,
        };
        assert_eq!(state(&*store, job).await, expected, "job {number}");
    }
}

/// Two workers with one label are two: they share the work and each is listed.
async fn k10_two_workers_of_one_label(kit: &Kit) {
    let (store, other) = (kit.handle().await, kit.handle().await);
    let jobs: Vec<_> = (0..100).map(|number| work("acme", number)).collect();
    push_all(&*store, &jobs).await;
    let tally = Tally::default();
    let run = |store| {
        let tally = tally.clone();
        let handler = move |_: Context, Work(number): Work| {
            let tally = tally.clone();
            async move {
                tally.ran(number);
                sleep(Duration::from_millis(20)).await;
                Ok::<(), Failure>(())
            }
        };
        worker(store).handle(handler)
    };
    let done = || async { tally.jobs() == 100 };
    let list = || async {
        let workers = store.workers(&operator().await).await.expect("the store answers");
        let mut ids: Vec<_> = workers.iter().map(|view| view.worker.id).collect();
        ids.sort_unstable();
        ids.dedup();
        workers.iter().filter(|view| view.worker.label == "suite").count() == 2 && ids.len() == 2
    };
    let both_seen = async {
        until("two workers listed", list).await;
        until("all jobs", done).await;
    };
    let stop = tokio_stop();
    let (first, second) = (stop.clone(), stop.clone());
    let (a, b, ()) = tokio::join!(
        run(store.clone()).run_until(async move { first.notified().await }),
        run(other).run_until(async move { second.notified().await }),
        async {
            both_seen.await;
            stop.notify_one();
            stop.notify_one();
            sleep(Duration::from_millis(100)).await;
            stop.notify_waiters();
        }
    );
    let (a, b) = (a.expect("it starts"), b.expect("it starts"));
    assert_eq!((a.exit_code(), b.exit_code(), a.settled + b.settled), (0, 0, 100));
    assert_eq!(tally.runs(), 100);
}

fn tokio_stop() -> Arc<tokio::sync::Notify> {
    Arc::new(tokio::sync::Notify::new())
}

/// One slot and a backlog in every queue: each has its share of the deliveries, however the
/// weights relate to the number of times that the worker looks for work.
async fn k10_queues_have_weights(kit: &Kit) {
    let store = kit.handle().await;
    for weights in [&[3, 1][..], &[1, 1, 1], &[2, 1], &[1, 1]] {
        let all: u32 = weights.iter().sum();
        let named: Vec<_> =
            weights.iter().enumerate().map(|(n, w)| (format!("q{n}"), *w)).collect();
        let jobs: Vec<_> =
            named.iter().flat_map(|(q, _)| (0..30).map(move |n| work("acme", n).on(q))).collect();
        push_all(&*store, &jobs).await;
        let order = Arc::new(Mutex::new(Vec::new()));
        let seen = order.clone();
        let handler = move |context: Context, _: Work| {
            seen.lock().expect("whole").push(context.job().queue.clone());
            async {
                // Too slow to be held ahead.
                sleep(Duration::from_millis(15)).await;
                Ok::<(), Failure>(())
            }
        };
        let worker = jobs_core::Worker::new(store.clone()).concurrency(1).handle(handler);
        let worker = named.iter().fold(worker, |worker, (queue, w)| worker.queue(queue, *w));
        assert_eq!(worker.run_until_idle().await.expect("it starts").settled, jobs.len() as u64);
        let order = order.lock().expect("whole");
        for (queue, weight) in &named {
            let share = order[..36].iter().filter(|seen| *seen == queue).count() as u32;
            let fair = 36 * weight / all;
            assert!(share.abs_diff(fair) <= 2, "{queue} of {weights:?}: {share}, not {fair}");
        }
    }
}

/// Where no queue is named, those of the job types are worked, and `default` for names alone.
async fn k10_a_types_own_queue_is_worked(kit: &Kit) {
    let store = kit.handle().await;
    let typed = push(&*store, work("acme", 1)).await;
    let mut named = work("acme", 2).on("default");
    named.name = "named".to_owned();
    let named = push(&*store, named).await;
    let worker = jobs_core::Worker::new(store.clone())
        .handle(async |_: Context, _: Work| Ok::<(), Failure>(()))
        .handle_named("named", async |_: Context, _| Ok::<(), Failure>(()));
    assert_eq!(worker.run_until_idle().await.expect("it starts").settled, 2);
    for job in [typed, named] {
        assert_eq!(state(&*store, &job).await, State::Done);
    }
}

/// Keeps what it was told.
#[derive(Clone, Default)]
struct Kept(Arc<Mutex<Vec<(u64, Duration)>>>);

impl Recorder for Kept {
    fn finished(&self, run: &FinishedRun<'_>) {
        let number = run.job.payload.decode().unwrap_or_default();
        self.0.lock().expect("whole").push((number, run.timeline.ran));
        assert!(number != 1, "a recorder that panics");
    }
}

/// The recorder hears of every run; its panic is its own.
async fn k11_the_recorder_gets_each_run(kit: &Kit) {
    let store = kit.handle().await;
    let jobs: Vec<_> = (0..5).map(|number| work("acme", number)).collect();
    push_all(&*store, &jobs).await;
    let kept = Kept::default();
    let handler = async |_: Context, _: Work| {
        sleep(Duration::from_millis(20)).await;
        Ok::<(), Failure>(())
    };
    let worker = worker(store).recorder(kept.clone()).handle(handler);
    assert_eq!(worker.run_until_idle().await.expect("it starts").exit_code(), 0);
    let mut kept = kept.0.lock().expect("whole").clone();
    kept.sort_unstable();
    assert_eq!(kept.iter().map(|(number, _)| *number).collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
    assert!(kept.iter().all(|(_, ran)| *ran >= Duration::from_millis(20)), "{kept:?}");
}

/// A worker that polls every few seconds by now starts a pushed job at once.
async fn n1_a_push_wakes_an_idle_worker(kit: &Kit) {
    let store = kit.handle().await;
    let (heard, mut starts) = tokio::sync::mpsc::unbounded_channel();
    let handler = move |_: Context, _: Work| {
        let _ = heard.send(Instant::now());
        async { Ok::<(), Failure>(()) }
    };
    let stop = tokio_stop();
    let stopped = stop.clone();
    let runs =
        worker(store.clone()).handle(handler).run_until(async move { stopped.notified().await });
    let pushes = async {
        // Polls at about 1, 3 and 7 s.
        sleep(Duration::from_millis(3700)).await;
        let pushed = Instant::now();
        push(&*store, work("acme", 1)).await;
        let started = starts.recv().await.expect("it runs");
        stop.notify_one();
        started - pushed
    };
    let (ended, latency) = tokio::join!(runs, pushes);
    assert_eq!(ended.expect("it starts").exit_code(), 0);
    assert!(latency < Duration::from_secs(2), "{latency:?}");
}

/// Three queues, nothing to do: less than one touch of job data a second, all together.
async fn n2_an_idle_worker_is_quiet(kit: &Kit) {
    let flaky = Flaky::new(kit.handle().await);
    let switch = flaky.switch.clone();
    let handler = async |_: Context, _: Work| Ok::<(), Failure>(());
    let worker = worker(flaky).queue("second", 1).queue("third", 1).handle(handler);
    let touches = || switch.count(&["reserve", "settle", "settle_and_reserve", "renew", "sweep"]);
    let window = async {
        sleep(Duration::from_secs(4)).await;
        let before = touches();
        sleep(Duration::from_secs(12)).await;
        assert!(touches() - before < 12, "{} touches in 12 s", touches() - before);
        // One announcement at the start and one every 10 s.
        assert!(switch.count(&["announce"]) <= 3);
    };
    assert_eq!(worker.run_until(window).await.expect("it starts").exit_code(), 0);
}
