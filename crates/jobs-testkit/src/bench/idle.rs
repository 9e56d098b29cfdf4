//! Workload: a worker without work. What the operating system says of this process.

use std::{
    fs,
    sync::Arc,
    time::{Duration, Instant},
};

use jobs_core::Admin;
use serde_json::json;
use tokio::time::sleep;

use super::{
    Args, Found, Result,
    figures::rounded,
    work::{Running, Runs, worker},
};

/// Until the poll interval has grown and the start is forgotten.
const CALM: Duration = Duration::from_secs(2);

/// Watches.
pub(super) async fn run(store: Arc<dyn Admin>, args: &Args) -> Result<Found> {
    let running = Running::start(worker(store, args, &Runs::new(0)));
    sleep(CALM).await;
    let (start, before) = (Instant::now(), cpu_seconds()?);
    sleep(Duration::from_secs(args.seconds)).await;
    let (took, after) = (start.elapsed(), cpu_seconds()?);
    let resident = resident_kib(&read("status")?)?;
    let _ended = running.stop().await?;
    let percent = (after - before) / took.as_secs_f64() * 100.0;
    let more =
        json!({ "rss_mib": rounded(resident / 1024.0, 1), "cpu_percent": rounded(percent, 2) });
    Ok(Found { jobs: 0, took, more })
}

fn read(file: &str) -> Result<String> {
    let path = format!("/proc/self/{file}");
    fs::read_to_string(&path).map_err(|error| format!("{path}: {error}; this needs Linux").into())
}

/// What all threads have run. From the scheduler, in nanoseconds: the clock ticks of `stat` see a
/// thread that wakes with the clock's interrupt more often than it runs.
fn cpu_seconds() -> Result<f64> {
    let mut nanos = 0.0;
    for thread in fs::read_dir("/proc/self/task")? {
        nanos += ran(&fs::read_to_string(thread?.path().join("schedstat"))?)?;
    }
    Ok(nanos / 1e9)
}

/// Nanoseconds run, the first field.
fn ran(schedstat: &str) -> Result<f64> {
    let first = schedstat.split_whitespace().next().and_then(|field| field.parse().ok());
    first.ok_or_else(|| format!("no time in {schedstat}").into())
}

fn resident_kib(status: &str) -> Result<f64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let value = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
    value.ok_or_else(|| "no VmRSS in the process's status".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_proc_says_is_read() {
        assert_eq!(ran("2206912 1177254 9\n").unwrap(), 2_206_912.0);
        assert!(ran("").is_err());
        assert_eq!(resident_kib("VmPeak:\t 9 kB\nVmRSS:\t    2048 kB\n").unwrap(), 2048.0);
        assert!(resident_kib("VmPeak:\t 9 kB\n").is_err());
    }
}
