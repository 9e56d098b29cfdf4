//! What the store says in the end, through its operators' side alone.

use std::{collections::BTreeMap, time::Duration};

use jobs_core::{
    Admin, JobRef, Key, Payload, State, Timestamp,
    retry::DEFAULT_MAX_ATTEMPTS,
    view::{Attempt, Count, JobRecord, Lanes, List},
};
use tokio::time::{Instant, sleep};

use super::{
    Done,
    ledger::Event,
    lists,
    probe::{get, walk},
    read::Ledger,
};
use crate::kit::operator;

/// The store at rest.
#[derive(Debug, Default)]
pub struct Store {
    /// Every job that is there.
    pub jobs: BTreeMap<JobRef, Kept>,
    /// What its lists and counts say otherwise than `get`, and of which job, if of one.
    pub differs: Vec<(Option<JobRef>, String)>,
    /// Lanes in which something is scheduled, waits or runs.
    pub unfinished: Vec<String>,
    /// What the store finds wrong with itself.
    pub findings: Vec<String>,
    /// Its clock against the machine's.
    pub clock: Offsets,
}

/// What the checks need of a job's record.
#[derive(Clone, Debug)]
pub struct Kept {
    /// Where it is.
    pub state: State,
    /// Its queue.
    pub queue: String,
    /// Its name.
    pub name: String,
    /// Its payload.
    pub payload: String,
    /// Its key.
    pub key: Option<Key>,
    /// When the store took it.
    pub pushed_at: Timestamp,
    /// When it left for history.
    pub finished_at: Option<Timestamp>,
    /// How many attempts it may have.
    pub max_attempts: u32,
    /// Its attempts on record.
    pub attempts: Vec<Attempt>,
    /// Deliveries given back.
    pub given_back: usize,
    /// Does it say why it ended?
    pub has_cause: bool,
}

impl From<JobRecord> for Kept {
    fn from(record: JobRecord) -> Self {
        let view = record.view;
        Self {
            state: view.state,
            queue: view.job.queue,
            name: view.job.name,
            payload: own_id(&view.job.payload),
            key: view.job.key,
            max_attempts: view.job.max_attempts.unwrap_or(DEFAULT_MAX_ATTEMPTS),
            pushed_at: view.pushed_at,
            finished_at: view.finished_at,
            attempts: record.attempts,
            given_back: (record.snoozes + record.releases) as usize,
            has_cause: view.last_cause.is_some_and(|cause| !cause.as_str().is_empty()),
        }
    }
}

/// The id that a job of the run has for its payload, or whatever it has instead.
pub fn own_id(payload: &Payload) -> String {
    payload.decode().unwrap_or_else(|_| payload.as_str().to_owned())
}

/// The worker of an attempt as the ledger calls it.
pub fn label(attempt: &Attempt) -> &str {
    attempt.worker.rsplit_once(':').map_or(attempt.worker.as_str(), |(label, _)| label)
}

/// How far the store's clock was ahead of the machine's, over time. It never goes back, so a time
/// of the store is one of the machine.
#[derive(Clone, Debug, Default)]
pub struct Offsets(Vec<(i64, i64)>);

impl Offsets {
    /// As the ledger has them.
    pub fn new(ledger: &Ledger) -> Self {
        let sample = |line: &super::ledger::Line| match line.event {
            Event::Ahead { millis, .. } => Some((line.at, millis * 1000)),
            _ => None,
        };
        Self(ledger.lines.iter().filter_map(sample).collect())
    }

    /// When it was that, by the machine's clock; at most a sample late where the store's jumped.
    pub fn machine(&self, time: Timestamp) -> i64 {
        let time = time.as_microsecond();
        let next = self.0.partition_point(|(at, ahead)| at + ahead <= time);
        let ahead = self.0[..next].last().or(self.0.first()).map_or(0, |(_, ahead)| *ahead);
        let at = time - ahead;
        self.0.get(next).map_or(at, |(next, _)| at.min(*next))
    }
}

/// Waits until nothing is scheduled, waits or runs, no longer than `limit`; answers what is left.
pub async fn drained(store: &dyn Admin, limit: Duration) -> Vec<String> {
    let until = Instant::now() + limit;
    loop {
        let left = unfinished(store).await;
        if left.is_empty() || Instant::now() > until {
            return left;
        }
        sleep(Duration::from_millis(300)).await;
    }
}

async fn unfinished(store: &dyn Admin) -> Vec<String> {
    let permit = operator().await;
    let counts = match store.counts(&permit, &Lanes::default()).await {
        Ok(counts) => counts,
        Err(error) => return vec![format!("the counts: {error}")],
    };
    let busy = |count: Count| count.number > 0;
    let lanes = counts.lanes.iter();
    let lanes = lanes.filter(|lane| {
        let live = busy(lane.scheduled) || busy(lane.waiting) || busy(lane.running);
        live || !lane.oldest.is_zero()
    });
    let text = |lane: &jobs_core::view::LaneCounts| {
        let (queue, tenant) = (&lane.queue, &lane.tenant);
        let [scheduled, waiting, running] = [lane.scheduled, lane.waiting, lane.running];
        let oldest = lane.oldest;
        format!(
            "{queue}/{tenant}: {scheduled} scheduled, {waiting} waiting for {oldest:?}, {running} \
             running"
        )
    };
    let mut left: Vec<_> = lanes.map(text).collect();
    if !counts.complete {
        left.push("more lanes than are counted".to_owned());
    }
    left
}

/// Reads all of it: every job of the ledger by itself, and the whole list beside.
///
/// # Errors
/// The store does not say how it is.
pub async fn read(store: &dyn Admin, ledger: &Ledger) -> Done<Store> {
    let mut all = Store { clock: Offsets::new(ledger), ..Store::default() };
    for job in ledger.stories.keys() {
        if let Some(record) = get(store, job).await {
            all.jobs.insert(job.clone(), record.into());
        }
    }
    for view in walk(store, List { page: 1000, ..List::default() }).await {
        let job = view.job.job_ref();
        if all.jobs.contains_key(&job) || ledger.stories.contains_key(&job) {
            continue;
        }
        match get(store, &job).await {
            Some(record) => _ = all.jobs.insert(job, record.into()),
            None => all.differs.push((Some(job), "in the list, and not by its id".to_owned())),
        }
    }
    all.differs.extend(lists::differ(store, &all.jobs).await);
    all.unfinished = unfinished(store).await;
    let permit = operator().await;
    let check = store.check(&permit).await.map_err(|error| error.to_string())?;
    all.findings = check.findings;
    Ok(all)
}
