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
/// Clock ticks per second in `/proc`, the same on every Linux.
const TICKS: f64 = 100.0;

/// Watches.
pub(super) async fn run(store: Arc<dyn Admin>, args: &Args) -> Result<Found> {
    let running = Running::start(worker(store, args, &Runs::new(0)));
    sleep(CALM).await;
    let (start, before) = (Instant::now(), cpu_seconds(&read("stat")?)?);
    sleep(Duration::from_secs(args.seconds)).await;
    let (took, after) = (start.elapsed(), cpu_seconds(&read("stat")?)?);
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

/// User and system time, the 14th and 15th field; the second is a name that may hold anything.
fn cpu_seconds(stat: &str) -> Result<f64> {
    let fields = stat.rsplit_once(')').map(|(_, rest)| rest.split_whitespace().skip(11).take(2));
    let fields: Vec<f64> = fields.into_iter().flatten().flat_map(str::parse).collect();
    match fields[..] {
        [user, system] => Ok((user + system) / TICKS),
        _ => Err(format!("no times in {stat}").into()),
    }
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
        let stat = "7 (a) b) S 1 2 3 4 5 6 7 8 9 10 150 50 0 0 20 0 1";
        assert_eq!(cpu_seconds(stat).unwrap(), 2.0);
        assert!(cpu_seconds("7 (a) S 1").is_err());
        assert_eq!(resident_kib("VmPeak:\t 9 kB\nVmRSS:\t    2048 kB\n").unwrap(), 2048.0);
        assert!(resident_kib("VmPeak:\t 9 kB\n").is_err());
    }
}
