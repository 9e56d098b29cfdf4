//! Cases: the worker shuts down.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use jobs_core::{
    Admin, Job, State,
    worker::{Context, Failure},
};
use tokio::{sync::Notify, time::sleep};

use super::worker_help::{
    Gate, Tally, Work, elsewhere, kept, look, push_all, state, until, work, worker,
};
use crate::kit::{Kit, push};

super::cases![k8_shutdown_at_each_point, k8_a_drain_longer_than_a_lease, k8_what_ignores_the_grace,];

/// Every job ran and is done, or is back in line with nothing spent.
async fn nothing_lost_nothing_spent(store: &dyn Admin, jobs: &[Job], tally: &Tally) -> usize {
    let mut done = 0;
    for (number, job) in jobs.iter().enumerate() {
        let record = look(store, job).await;
        let found = (record.view.state, record.view.attempt, tally.of(number as u64));
        match found.0 {
            State::Done => {
                assert_eq!(found, (State::Done, 1, 1), "job {number}");
                done += 1;
            }
            _ => assert_eq!(found, (State::Ready, 0, 0), "job {number}"),
        }
    }
    done
}

/// Before the start, with jobs held ahead, running, returning and settling.
async fn k8_shutdown_at_each_point(kit: &Kit) {
    let store = kit.handle().await;
    let jobs: Vec<_> = (0..1000).map(|number| work("acme", number)).collect();
    push_all(&*store, &jobs).await;
    let tally = Tally::default();
    // The handler itself says when enough ran: nobody who looks now and then would be in time.
    let (enough, then_slow) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
    let reached = Arc::new(Notify::new());
    let new = || {
        let (tally, enough, reached) = (tally.clone(), enough.clone(), reached.clone());
        let then_slow = then_slow.clone();
        let handler = move |_: Context, Work(number): Work| {
            tally.ran(number);
            let slow = tally.runs() >= enough.load(Ordering::SeqCst);
            if slow {
                reached.notify_one();
            }
            let slow = slow && then_slow.load(Ordering::SeqCst);
            async move {
                if slow {
                    sleep(Duration::from_millis(200)).await;
                }
                Ok::<(), Failure>(())
            }
        };
        worker(store.clone()).handle(handler)
    };
    let ended = new().run_until(async {}).await.expect("it starts");
    assert_eq!(ended.exit_code(), 0);
    nothing_lost_nothing_spent(&*store, &jobs, &tally).await;
    // The larger ones have measured quick by then, so jobs are held; the last is slow when it is
    // stopped, so held jobs have no slot.
    for (more, slow) in [(1, false), (10, false), (100, false), (130, true)] {
        enough.store(tally.runs() + more, Ordering::SeqCst);
        then_slow.store(slow, Ordering::SeqCst);
        let ended = new().run_until(reached.notified()).await.expect("it starts");
        assert_eq!((ended.exit_code(), ended.left, ended.stuck), (0, 0, 0));
        let done = nothing_lost_nothing_spent(&*store, &jobs, &tally).await;
        assert_eq!(done, tally.runs(), "what ran is done");
        // One that ran after the stop said it again: the next round must not hear it.
        let _ = tokio::time::timeout(Duration::ZERO, reached.notified()).await;
    }
    then_slow.store(false, Ordering::SeqCst);
    let ended = new().run_until_idle().await.expect("it starts");
    assert_eq!(ended.exit_code(), 0);
    assert_eq!(nothing_lost_nothing_spent(&*store, &jobs, &tally).await, 1000);
}

/// The handler finishes within the grace period, three leases after the stop.
async fn k8_a_drain_longer_than_a_lease(kit: &Kit) {
    let store = kit.handle().await;
    let job = push(&*store, work("acme", 1)).await;
    let (tally, seen) = (Tally::default(), Arc::new(AtomicBool::new(false)));
    let handler = {
        let (tally, seen) = (tally.clone(), seen.clone());
        move |context: Context, Work(number): Work| {
            let (tally, seen) = (tally.clone(), seen.clone());
            async move {
                tally.ran(number);
                context.shutting_down().await;
                seen.store(!context.is_cancelled(), Ordering::SeqCst);
                sleep(Duration::from_millis(4500)).await;
                Ok::<(), Failure>(())
            }
        }
    };
    let stop = async { until("it runs", || async { tally.runs() == 1 }).await };
    let runs = worker(store.clone()).lease(kept()).handle(handler).run_until(stop);
    let sweeps = async {
        until("it is done", || async {
            store.sweep().await.expect("the store answers");
            state(&*store, &job).await == State::Done
        })
        .await;
    };
    let (ended, ()) = tokio::join!(runs, sweeps);
    assert_eq!(ended.expect("it starts").exit_code(), 0);
    assert!(seen.load(Ordering::SeqCst), "the handler sees the shutdown, not a cancel");
    assert_eq!((look(&*store, &job).await.view.attempt, tally.runs()), (1, 1));
}

/// What can be dropped is given back unspent, what blocks is left to its lease.
async fn k8_what_ignores_the_grace(kit: &Kit) {
    let store = kit.handle().await;
    let jobs: Vec<_> = (0..2).map(|number| work("acme", number)).collect();
    push_all(&*store, &jobs).await;
    let (gate, tally) = (Gate::default(), Tally::default());
    let application = {
        let (fixture, namespace) = (kit.fixture.clone(), kit.namespace.clone());
        let (gate, tally) = (gate.clone(), tally.clone());
        elsewhere(2, move || async move {
            let store = fixture.make(&namespace, Default::default()).await;
            let runs = tally.clone();
            let handler = move |_: Context, Work(number): Work| {
                let (gate, tally) = (gate.clone(), runs.clone());
                async move {
                    tally.ran(number);
                    match number {
                        0 => gate.block(),
                        _ => std::future::pending().await,
                    }
                    Ok::<(), Failure>(())
                }
            };
            let stop = async { until("both run", || async { tally.runs() == 2 }).await };
            let worker = worker(store).grace(Duration::from_millis(200)).handle(handler);
            worker.run_until(stop).await.expect("it starts")
        })
    };
    until("both run", || async { tally.runs() == 2 }).await;
    until("the dropped one is back", || async { state(&*store, &jobs[1]).await == State::Ready })
        .await;
    assert_eq!(look(&*store, &jobs[1]).await.view.attempt, 0, "nothing spent");
    assert_eq!(state(&*store, &jobs[0]).await, State::Running, "left to its lease");
    // The worker returns while the handler still blocks.
    sleep(Duration::from_secs(3)).await;
    gate.open();
    let ended = tokio::task::spawn_blocking(|| application.join()).await.expect("joined");
    let ended = ended.expect("no panic");
    assert_eq!((ended.exit_code(), ended.left, ended.stuck), (3, 1, 1));
    assert_eq!(state(&*store, &jobs[0]).await, State::Running, "its late result is not settled");
}
