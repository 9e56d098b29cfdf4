//! Workload: how soon an idle worker starts a job, from before the push to the handler's first line.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use jobs_core::{Admin, QueueExt};
use serde_json::json;
use tokio::time::sleep;

use super::{
    Args, Found, Result,
    figures::{percentile, rounded},
    work::{Jobs, Running, Runs, left, now, worker},
};

/// Until a worker that starts is idle.
pub(super) const SETTLES: Duration = Duration::from_millis(500);
/// Between two looks at what is left.
const LOOK: Duration = Duration::from_millis(20);

/// Between two pushes: long enough for the worker to be idle again, and by chance, so that the pushes
/// meet every phase of a poll that has a period of its own.
fn apart() -> Duration {
    Duration::from_micros(fastrand::u64(20_000..40_000))
}

/// Pusher and worker in one process.
pub(super) async fn run(store: Arc<dyn Admin>, args: &Args) -> Result<Found> {
    let runs = Runs::new(args.jobs);
    let running = Running::start(worker(store.clone(), args, &runs));
    sleep(SETTLES).await;
    let start = Instant::now();
    push(&*store, args).await?;
    let took = start.elapsed();
    let ended = running.stop().await?;
    if ended.exit_code() != 0 {
        return Err(format!("the worker ended badly: {ended:?}").into());
    }
    found(args, took, runs.total(), runs.latencies())
}

/// Pushes one by one, and waits until all are finished.
pub(super) async fn push(store: &dyn Admin, args: &Args) -> Result<()> {
    let jobs = Jobs::new(args)?;
    for i in 0..args.jobs {
        let (grant, job) = jobs.job(i, Some(now()))?;
        let _stored = store.push(grant, job).await?;
        sleep(apart()).await;
    }
    let start = Instant::now();
    loop {
        match left(store).await? {
            0 => return Ok(()),
            left if start.elapsed() > args.patience() => {
                return Err(format!("{left} jobs are left").into());
            }
            _ => sleep(LOOK).await,
        }
    }
}

/// The figures of so many runs; that nothing was left says that each job is among them.
pub(super) fn found(args: &Args, took: Duration, runs: usize, sorted: Vec<f64>) -> Result<Found> {
    if runs != args.jobs {
        return Err(format!("{} jobs ran {runs} times", args.jobs).into());
    }
    let of = |share| rounded(percentile(&sorted, share), 2);
    let more = json!({
        "p50_ms": of(0.5), "p95_ms": of(0.95), "p99_ms": of(0.99), "max_ms": of(1.0),
        "seen": runs, "dups": 0,
    });
    Ok(Found { jobs: args.jobs, took, more })
}
