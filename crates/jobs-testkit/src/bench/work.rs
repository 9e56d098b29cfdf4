//! The jobs of all workloads, the worker that runs them, and what the store says of them.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering::SeqCst},
    },
    time::{Duration, SystemTime},
};

use jobs_core::{
    Admin, AuthorizedJob, Failure, Grant, Job, Payload, State, Worker, authorized,
    grant_without_user,
    job::DEFAULT_QUEUE,
    view::{Lanes, List},
    worker::{Context, Ended, StartError},
};
use serde::{Deserialize, Serialize};
use tokio::{sync::oneshot, task::JoinHandle};

use super::{Args, Result};
use crate::kit::{ACTION, operator};

/// A payload: a number, and what makes it long enough.
#[derive(Serialize, Deserialize)]
pub(super) struct Work {
    /// Which job.
    pub i: usize,
    /// When it was pushed, in nanoseconds of the machine's clock, where that is measured: two
    /// processes have no other clock in common.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<u64>,
    /// The rest.
    pub pad: String,
}

/// Makes the jobs.
pub(super) struct Jobs {
    grants: Vec<Grant>,
    names: Vec<String>,
    pad: String,
}

impl Jobs {
    pub fn new(args: &Args) -> Result<Self> {
        let grant = |tenant| grant_without_user("bench", ACTION, &format!("t{tenant}"));
        let grants = (0..args.tenants.max(1)).map(grant).collect::<Result<_, _>>()?;
        // What is around the padding in `{"i":123456,"pad":""}`.
        let pad = "x".repeat(args.payload.saturating_sub(22));
        Ok(Self { grants, names: names(args), pad })
    }

    /// Job number `i` and the Grant to push it under: tenants take turns, then names.
    pub fn job(&self, i: usize, at: Option<u64>) -> Result<(&Grant, Job)> {
        let grant = &self.grants[i % self.grants.len()];
        let name = &self.names[i / self.grants.len() % self.names.len()];
        let work = Work { i, at, pad: self.pad.clone() };
        Ok((grant, Job::new(grant, name, &work)?))
    }

    /// The same, checked.
    pub fn checked(&self, i: usize) -> Result<AuthorizedJob> {
        let (grant, job) = self.job(i, None)?;
        Ok(authorized(grant, job)?)
    }
}

/// The names that the jobs have and the worker knows.
pub(super) fn names(args: &Args) -> Vec<String> {
    (0..args.names.max(1)).map(|name| format!("n{name}")).collect()
}

/// Nanoseconds of the machine's clock.
pub(super) fn now() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

/// What ran, how often, and how long after its push.
pub(super) struct Runs {
    of: Vec<AtomicU32>,
    total: AtomicUsize,
    latencies: Vec<AtomicU64>,
}

impl Runs {
    pub fn new(jobs: usize) -> Arc<Self> {
        let of = (0..jobs).map(|_| AtomicU32::new(0)).collect();
        let latencies = (0..jobs).map(|_| AtomicU64::new(0)).collect();
        Arc::new(Self { of, total: AtomicUsize::new(0), latencies })
    }

    /// A handler's first act.
    fn ran(&self, payload: &Payload) -> Result<(), serde_json::Error> {
        let started = now();
        let work: Work = payload.decode()?;
        if let (Some(latency), Some(at)) = (self.latencies.get(work.i), work.at) {
            latency.store(started.saturating_sub(at), SeqCst);
        }
        if let Some(runs) = self.of.get(work.i) {
            runs.fetch_add(1, SeqCst);
        }
        self.total.fetch_add(1, SeqCst);
        Ok(())
    }

    /// Runs of all jobs.
    pub fn total(&self) -> usize {
        self.total.load(SeqCst)
    }

    /// Jobs that ran.
    pub fn distinct(&self) -> usize {
        self.of.iter().filter(|runs| runs.load(SeqCst) > 0).count()
    }

    /// From push to start, in milliseconds, sorted.
    pub fn latencies(&self) -> Vec<f64> {
        let latencies = self.latencies.iter().map(|latency| latency.load(SeqCst) as f64 / 1e6);
        let mut latencies: Vec<_> = latencies.collect();
        latencies.sort_by(f64::total_cmp);
        latencies
    }
}

/// A worker with default settings but for its slots.
pub(super) fn worker(store: Arc<dyn Admin>, args: &Args, runs: &Arc<Runs>) -> Worker {
    let pause = Duration::from_millis(args.handler_ms);
    let worker = Worker::new(store).label("bench").concurrency(args.concurrency);
    names(args).iter().fold(worker.queue(DEFAULT_QUEUE, 1), |worker, name| {
        let runs = runs.clone();
        worker.handle_named(name, move |_: Context, payload: Payload| {
            let runs = runs.clone();
            async move {
                runs.ran(&payload)?;
                if !pause.is_zero() {
                    tokio::time::sleep(pause).await;
                }
                Ok::<(), Failure>(())
            }
        })
    })
}

/// A worker at work.
pub(super) struct Running {
    stop: oneshot::Sender<()>,
    ended: JoinHandle<Result<Ended, StartError>>,
}

impl Running {
    pub fn start(worker: Worker) -> Self {
        let (stop, stopped) = oneshot::channel();
        let until = async { stopped.await.unwrap_or_default() };
        Self { stop, ended: tokio::spawn(worker.run_until(until)) }
    }

    pub async fn stop(self) -> Result<Ended> {
        // It has ended already where it could not start, and says why below.
        let _ = self.stop.send(());
        Ok(self.ended.await??)
    }
}

/// Jobs that are not finished: capped as counts are, and never 0 while there is one.
pub(super) async fn left(store: &dyn Admin) -> Result<u64> {
    let counts = store.counts(&operator().await, &Lanes::default()).await?;
    let numbers = counts.lanes.iter().flat_map(|lane| {
        [lane.scheduled, lane.waiting, lane.running, lane.parked].map(|count| count.number)
    });
    Ok(numbers.sum())
}

/// Finished jobs that the store can still show.
pub(super) async fn history(store: &dyn Admin) -> Result<u64> {
    listed(store, Some(State::Done)).await
}

/// Jobs that the store lists, in this state or in any.
pub(super) async fn listed(store: &dyn Admin, state: Option<State>) -> Result<u64> {
    let mut list = List { state, page: 1000, ..List::default() };
    let mut found = 0;
    loop {
        let page = store.list(&operator().await, &list).await?;
        found += page.jobs.len() as u64;
        list.after = page.next;
        if list.after.is_none() {
            return Ok(found);
        }
    }
}
