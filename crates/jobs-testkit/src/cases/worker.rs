//! Cases: the worker runs jobs, fairly among its slots.

use std::time::Duration;

use jobs_core::{
    QueueExt,
    worker::{Context, Failure},
};
use tokio::time::sleep;

use super::worker_help::{Tally, Work, short, until, work, worker};
use crate::kit::{Kit, grant};

super::cases![k1_500_jobs_without_a_barrier, k2_more_jobs_than_slots_complete,];

/// One slow job among 500 quick ones keeps one slot, and nobody else waits for it.
async fn k1_500_jobs_without_a_barrier(kit: &Kit) {
    let store = kit.handle().await;
    let jobs = (0..500).map(|number| work("acme", number));
    for pushed in store.push_many(&grant("acme"), jobs).await {
        pushed.expect("stored");
    }
    let tally = Tally::default();
    let handler = {
        let tally = tally.clone();
        move |_: Context, Work(number): Work| {
            let tally = tally.clone();
            async move {
                tally.ran(number);
                // The slow one ends when all others have.
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

/// Relata's deadlock: 50 jobs, two slots, heartbeats on, each job longer than the lease.
async fn k2_more_jobs_than_slots_complete(kit: &Kit) {
    let store = kit.handle().await;
    let jobs: Vec<_> = (0..50).map(|number| work("acme", number)).collect();
    store
        .push_many(&grant("acme"), jobs.clone())
        .await
        .into_iter()
        .for_each(|p| assert!(p.is_ok()));
    let tally = Tally::default();
    let counts = tally.clone();
    let handler = move |_: Context, Work(number): Work| {
        let tally = counts.clone();
        async move {
            tally.ran(number);
            sleep(Duration::from_millis(1100)).await;
            Ok::<(), Failure>(())
        }
    };
    let worker = worker(store.clone()).concurrency(2).lease(short()).handle(handler);
    let ended = worker.run_until_idle().await.expect("it starts");
    assert_eq!((ended.exit_code(), tally.jobs(), tally.runs()), (0, 50, 50));
}
