//! Workload: a full queue, worked until every handler ran and the store shows nothing unfinished.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use jobs_core::{Admin, retention::Retention};
use serde_json::json;
use tokio::time::sleep;

use super::{
    Args, Found, Result,
    push::fill,
    work::{Jobs, Running, Runs, history, left, worker},
};

/// Between two looks at the handlers, and at the store.
const LOOK: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(5));

/// Fills, then drains.
pub(super) async fn run(store: Arc<dyn Admin>, args: &Args) -> Result<Found> {
    fill(&store, &Jobs::new(args)?, args.jobs).await?;
    drain(store, args).await
}

/// Drains the jobs numbered up to `args.jobs`, each of which must run once, stay in history, and
/// leave nothing.
pub(super) async fn drain(store: Arc<dyn Admin>, args: &Args) -> Result<Found> {
    let runs = Runs::new(args.jobs);
    let start = Instant::now();
    let running = Running::start(worker(store.clone(), args, &runs));
    let done = until_empty(&*store, args, &runs).await;
    let took = start.elapsed();
    let ended = running.stop().await?;
    done?;
    let (total, distinct) = (runs.total(), runs.distinct());
    let found = Drained {
        runs: total,
        distinct,
        dups: total - distinct,
        left: left(&*store).await?,
        history: history(&*store).await?,
    };
    if ended.exit_code() != 0 {
        return Err(format!("the worker ended badly: {ended:?}").into());
    }
    found.check(args.jobs)?;
    let more = json!({
        "runs": found.runs, "distinct": found.distinct, "dups": found.dups,
        "left_in_store": found.left, "history": found.history,
    });
    Ok(Found { jobs: args.jobs, took, more })
}

/// Looks at the handlers first: to ask the store all the time would slow it.
async fn until_empty(store: &dyn Admin, args: &Args, runs: &Runs) -> Result<()> {
    let (mut seen, mut since) = (0, Instant::now());
    while runs.total() < args.jobs {
        if runs.total() > seen {
            (seen, since) = (runs.total(), Instant::now());
        }
        if since.elapsed() > args.patience() {
            return Err(format!("of {} jobs only {} ran", args.jobs, runs.distinct()).into());
        }
        sleep(LOOK.0).await;
    }
    since = Instant::now();
    loop {
        match left(store).await? {
            0 => return Ok(()),
            left if since.elapsed() > args.patience() => {
                return Err(format!("every handler ran, and {left} jobs are left").into());
            }
            _ => sleep(LOOK.1).await,
        }
    }
}

/// What became of the jobs.
#[derive(Debug)]
struct Drained {
    runs: usize,
    distinct: usize,
    dups: usize,
    left: u64,
    history: u64,
}

impl Drained {
    fn check(&self, jobs: usize) -> Result<()> {
        let kept = Retention::default().done_per_queue.min(jobs as u64);
        let once = self.runs == jobs && self.distinct == jobs && self.dups == 0;
        if once && self.left == 0 && self.history >= kept {
            return Ok(());
        }
        Err(format!("{jobs} jobs did not run once each and stay in history: {self:?}").into())
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use jobs_core::QueueExt;

    use super::*;
    use crate::model::Model;

    fn args() -> Args {
        let words = "bench --url none --mode drain --jobs 40 --tenants 3 --names 2 --patience 1";
        Args::parse_from(words.split(' '))
    }

    async fn drained(numbers: usize, name: &str, number: usize) -> Result<Found> {
        let store: Arc<dyn Admin> = Arc::new(Model::alone());
        let jobs = Jobs::new(&args())?;
        fill(&store, &jobs, numbers).await?;
        let (grant, job) = jobs.job(number, None)?;
        let name = name.to_owned();
        let job = jobs_core::Job { name, ..job };
        assert_eq!(store.push(grant, job).await?, jobs_core::queue::Pushed::Stored);
        drain(store, &args()).await
    }

    fn words(found: Result<Found>) -> String {
        found.err().expect("an error").to_string()
    }

    #[tokio::test]
    async fn each_runs_once() {
        let found = drained(39, "n1", 39).await.unwrap();
        let counts = ["runs", "distinct", "dups", "left_in_store", "history"];
        let counts = counts.map(|field| found.more[field].as_u64().unwrap());
        assert_eq!(counts, [40, 40, 0, 0, 40]);
    }

    #[tokio::test]
    async fn one_that_runs_twice_is_an_error() {
        let said = words(drained(40, "n0", 0).await);
        assert!(said.contains("runs: 41") && said.contains("dups: 1"), "{said}");
    }

    #[tokio::test]
    async fn one_that_is_left_is_an_error() {
        assert_eq!(
            words(drained(40, "unknown", 0).await),
            "every handler ran, and 1 jobs are left"
        );
    }

    #[tokio::test]
    async fn one_that_never_runs_is_an_error() {
        assert_eq!(words(drained(39, "unknown", 39).await), "of 40 jobs only 39 ran");
    }
}
