//! Workload: a worker without work, on a store that is not empty: a third of its jobs are finished,
//! a third parked, a third scheduled for later. What the operating system says of this process.

use std::{
    fs,
    sync::Arc,
    time::{Duration, Instant},
};

use jobs_core::{
    Admin, Outcome, Settlement,
    authorized::authorized,
    job::DEFAULT_QUEUE,
    queue::{Pushed, Reserve},
};
use rustix::time::{ClockId, clock_gettime};
use serde_json::json;
use tokio::time::sleep;

use super::{
    Args, Found, Result,
    figures::rounded,
    work::{Jobs, Running, Runs, names, worker},
};

/// Jobs pushed at once.
const BATCH: usize = 1000;
/// Until the poll interval has grown, which takes seven seconds, and the start is forgotten.
const CALM: Duration = Duration::from_secs(10);

/// How long the scheduled ones wait: longer than anybody watches.
const LATER: Duration = Duration::from_secs(24 * 3600);

/// Fills, then watches.
pub(super) async fn run(store: Arc<dyn Admin>, args: &Args) -> Result<Found> {
    fill(&*store, args).await?;
    let running = Running::start(worker(store, args, &Runs::new(0)));
    sleep(CALM).await;
    let (start, before) = (Instant::now(), cpu_seconds());
    sleep(Duration::from_secs(args.seconds)).await;
    let (took, after) = (start.elapsed(), cpu_seconds());
    let resident = resident_kib(&read("status")?)?;
    let _ended = running.stop().await?;
    let percent = (after - before) / took.as_secs_f64() * 100.0;
    let more =
        json!({ "rss_mib": rounded(resident / 1024.0, 1), "cpu_percent": rounded(percent, 2) });
    Ok(Found { jobs: args.jobs, took, more })
}

/// The jobs that an idle worker has nothing to do with.
async fn fill(store: &dyn Admin, args: &Args) -> Result<()> {
    let jobs = Jobs::new(args)?;
    let parked = Outcome::Park { cause: "for the idle".into() };
    for (third, outcome) in [(0, Some(Outcome::Done)), (1, Some(parked)), (2, None)] {
        let numbers: Vec<usize> = (0..args.jobs).filter(|number| number % 3 == third).collect();
        for numbers in numbers.chunks(BATCH) {
            let batch = numbers.iter().map(|number| {
                let (grant, job) = jobs.job(*number, None)?;
                let job = if outcome.is_none() { job.after(LATER) } else { job };
                Ok(authorized(grant, job)?)
            });
            for pushed in store.enqueue(&batch.collect::<Result<Vec<_>>>()?).await {
                if pushed? != Pushed::Stored {
                    return Err("a fresh job was not stored".into());
                }
            }
            if let Some(outcome) = &outcome {
                settle(store, args, outcome, numbers.len()).await?;
            }
        }
    }
    Ok(())
}

/// Ends so many jobs, the only ones that are due.
async fn settle(store: &dyn Admin, args: &Args, outcome: &Outcome, jobs: usize) -> Result<()> {
    let mut left = jobs;
    while left > 0 {
        let wish = Reserve::new(DEFAULT_QUEUE, names(args), "bench")?.slots(left.min(100));
        let held = store.reserve(&wish).await?.deliveries;
        if held.is_empty() {
            return Err(format!("{left} jobs are not delivered").into());
        }
        left -= held.len();
        let outcome = || outcome.clone();
        let settle =
            held.into_iter().map(|held| Settlement { claim: held.claim, outcome: outcome() });
        store.settle(&settle.collect::<Vec<_>>()).await?;
    }
    Ok(())
}

fn read(file: &str) -> Result<String> {
    let path = format!("/proc/self/{file}");
    fs::read_to_string(&path).map_err(|error| format!("{path}: {error}; this needs Linux").into())
}

/// What all threads have run, those that ended meanwhile included. From the scheduler, in nanoseconds:
/// the clock ticks of `stat` see a thread that wakes with the clock's interrupt more often than it runs.
fn cpu_seconds() -> f64 {
    let ran = clock_gettime(ClockId::ProcessCPUTime);
    ran.tv_sec as f64 + ran.tv_nsec as f64 / 1e9
}

fn resident_kib(status: &str) -> Result<f64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let value = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
    value.ok_or_else(|| "no VmRSS in the process's status".into())
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use jobs_core::view::{Count, LaneCounts, Lanes};

    use super::*;
    use crate::{bench::work::history, kit::operator, model::Model};

    #[tokio::test]
    async fn the_store_is_not_empty_and_has_no_work() {
        let words = "bench --url none --mode idle --jobs 3005 --tenants 3 --names 2";
        let args = Args::parse_from(words.split(' '));
        let store = Model::alone();
        fill(&store, &args).await.unwrap();
        let counts = store.counts(&operator().await, &Lanes::default()).await.unwrap();
        let sum = |of: fn(&LaneCounts) -> Count| -> u64 {
            counts.lanes.iter().map(|lane| of(lane).number).sum()
        };
        let found =
            [sum(|l| l.scheduled), sum(|l| l.parked), sum(|l| l.waiting), sum(|l| l.running)];
        assert_eq!(found, [1001, 1002, 0, 0]);
        assert_eq!(history(&store).await.unwrap(), 1002);
    }

    #[test]
    fn what_proc_says_is_read() {
        assert_eq!(resident_kib("VmPeak:\t 9 kB\nVmRSS:\t    2048 kB\n").unwrap(), 2048.0);
        assert!(resident_kib("VmPeak:\t 9 kB\n").is_err());
    }
}
