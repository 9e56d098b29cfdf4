//! The numbers a worker exports through the `metrics` facade (K11). Stable names, no id labels.
//!
//! | metric | kind | labels | counts |
//! |---|---|---|---|
//! | `jobs_runs_total` | counter | `queue`, `name`, `outcome` | runs that ended; `outcome` as in [`OutcomeKind`], `lost` when the lease was |
//! | `jobs_run_seconds` | histogram | `queue`, `name` | how long handlers ran |
//! | `jobs_leases_lost_total` | counter | `queue`, `name` | runs that lost their lease here |
//! | `jobs_reserved_total` | counter | `queue` | deliveries |
//! | `jobs_swept_total` | counter | | expired leases this worker took back |
//! | `jobs_store_errors_total` | counter | `operation` | store calls that failed |
//! | `jobs_slots_busy` | gauge | | handlers that run |
//! | `jobs_slots_stuck` | gauge | | handlers that ignored their end |
//!
//! Install the recorder before the worker starts. Without one, nothing is built per job.

use std::{
    cell::{Cell, RefCell},
    collections::HashMap,
    time::Duration,
};

use metrics::{Counter, Gauge, Histogram, counter, gauge, histogram};

use crate::{Error, Job, OutcomeKind, worker::config::Config};

/// The handles, made once per worker and name.
pub(crate) struct Metrics {
    runs: RefCell<HashMap<String, HashMap<String, PerName>>>,
    busy: Gauge,
    stuck: Gauge,
    busy_now: Cell<i32>,
    stuck_now: Cell<usize>,
    swept: Counter,
}

struct PerName {
    outcomes: Vec<Counter>,
    seconds: Histogram,
    lost: Counter,
}

impl Metrics {
    pub fn new(config: &Config) -> Self {
        let runs = config.queues.iter().map(|(queue, _)| {
            let per_name = |name: &String| (name.clone(), PerName::new(queue, name));
            (queue.clone(), config.handlers.keys().map(per_name).collect())
        });
        Self {
            runs: RefCell::new(runs.collect()),
            busy: gauge!("jobs_slots_busy"),
            stuck: gauge!("jobs_slots_stuck"),
            busy_now: Cell::new(0),
            stuck_now: Cell::new(0),
            swept: counter!("jobs_swept_total"),
        }
    }

    fn with(&self, job: &Job, tell: impl FnOnce(&PerName)) {
        let runs = self.runs.borrow();
        if let Some(known) = runs.get(&job.queue).and_then(|names| names.get(&job.name)) {
            tell(known);
        }
    }

    /// A run was settled, or its settlement refused as lost.
    pub fn settled(&self, job: &Job, outcome: OutcomeKind, ran: Duration) {
        self.with(job, |known| {
            let index = OutcomeKind::ALL.iter().position(|kind| *kind == outcome);
            if let Some(counter) = index.and_then(|index| known.outcomes.get(index)) {
                counter.increment(1);
            }
            known.seconds.record(ran);
        });
    }

    pub fn lease_lost(&self, job: &Job) {
        self.with(job, |known| known.lost.increment(1));
    }

    pub fn busy(&self, by: i32) {
        self.busy_now.set(self.busy_now.get() + by);
        self.busy.increment(f64::from(by));
    }

    /// So many are stuck now. Workers of one process add up.
    pub fn stuck(&self, now: usize) {
        let before = self.stuck_now.replace(now);
        if now != before {
            self.stuck.increment(now as f64 - before as f64);
        }
    }

    pub fn reserved(&self, queue: &str, count: usize) {
        if count > 0 {
            counter!("jobs_reserved_total", "queue" => queue.to_owned()).increment(count as u64);
        }
    }

    pub fn swept(&self, count: usize) {
        self.swept.increment(count as u64);
    }

    pub fn store_error(&self, error: &Error) {
        counter!("jobs_store_errors_total", "operation" => error.operation()).increment(1);
    }
}

/// A worker that ended has no slots, whatever its handlers still do.
impl Drop for Metrics {
    fn drop(&mut self) {
        self.stuck(0);
        self.busy(-self.busy_now.get());
    }
}

impl PerName {
    fn new(queue: &str, name: &str) -> Self {
        let (queue, name) = (queue.to_owned(), name.to_owned());
        let outcome = |kind: &OutcomeKind| {
            let (queue, name) = (queue.clone(), name.clone());
            counter!("jobs_runs_total", "queue" => queue, "name" => name, "outcome" => kind.as_str())
        };
        Self {
            outcomes: OutcomeKind::ALL.iter().map(outcome).collect(),
            seconds: histogram!("jobs_run_seconds", "queue" => queue.clone(), "name" => name.clone()),
            lost: counter!("jobs_leases_lost_total", "queue" => queue, "name" => name),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    /// The table at the head of this file and the code below it, which name the same.
    #[test]
    fn k11_the_table_names_every_metric() {
        let text = include_str!("metrics.rs");
        let (_, text) = text.split_once("//! | metric |").expect("the table");
        let (table, code) = text.split_once("use std").expect("the code");
        let listed = table.lines().filter_map(|row| row.strip_prefix("//! | `"));
        let listed = listed.filter_map(|row| {
            let (name, rest) = row.split_once('`')?;
            Some((name.to_owned(), rest.split('|').nth(1)?.trim().to_owned()))
        });
        let listed: BTreeSet<_> = listed.collect();
        let of_kind = |kind: &'static str| {
            let calls = code.split(&format!("{kind}!(\"")[..]).skip(1).collect::<Vec<_>>();
            calls
                .into_iter()
                .filter_map(move |call| Some((call.split_once('"')?.0.to_owned(), kind.to_owned())))
        };
        let used = ["counter", "gauge", "histogram"].into_iter().flat_map(of_kind);
        let used: BTreeSet<_> = used.filter(|(name, _)| name.starts_with("jobs_")).collect();
        assert_eq!(listed, used);
        assert!(used.len() >= 8, "{used:?}");
    }
}
