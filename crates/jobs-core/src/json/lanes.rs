//! Of the verbs for lanes and workers.

use crate::{
    Timestamp,
    view::{Count, Counts, LaneCounts, WorkerView},
};
use serde::Serialize;

use super::By;
use crate::words::is_endless;

/// Of `pause` and `resume`.
#[derive(Debug, Serialize)]
pub struct Tuned {
    /// The verb.
    pub verb: &'static str,
    /// Which queue.
    pub queue: String,
    /// Whose lane of it; `null` is the queue of every tenant.
    pub tenant: Option<String>,
    /// For how long it is paused; `null` is until it is resumed, and where it was resumed.
    pub for_seconds: Option<f64>,
    /// After `resume`: what another pause still holds, where the Grant allows to look.
    pub still_paused: Vec<StillPaused>,
}

/// A lane that is paused.
#[derive(Debug, Serialize)]
pub struct StillPaused {
    /// Whose lane.
    pub tenant: String,
    /// Until when; `null` is until it is resumed.
    pub until: Option<Timestamp>,
}

/// Of `stats`.
#[derive(Debug, Serialize)]
pub struct Stats {
    /// Those with live jobs or settings of their own.
    pub lanes: Vec<Lane>,
    /// Are these all of them?
    pub complete: bool,
    /// The last hour, oldest first, without minutes in which nothing ended.
    pub minutes: Vec<Minute>,
}

/// One queue of one tenant.
#[derive(Debug, Serialize)]
pub struct Lane {
    /// The queue.
    pub queue: String,
    /// Whose.
    pub tenant: String,
    /// Due and not running, or running past its lease.
    pub waiting: Number,
    /// Running under a lease.
    pub running: Number,
    /// Not due yet.
    pub scheduled: Number,
    /// Waits for a person.
    pub parked: Number,
    /// How long the longest-waiting has been due; 0 where none waits.
    pub oldest_seconds: f64,
    /// Its share against other lanes.
    pub weight: u32,
    /// Is nothing taken from it?
    pub paused: bool,
    /// Until when; `null` also is until it is resumed.
    pub paused_until: Option<Timestamp>,
    /// Who set that last.
    pub changed: Option<By>,
}

/// A count: exact, or at least that.
#[derive(Debug, Serialize)]
pub struct Number {
    /// At most 10,000 for a lane.
    pub number: u64,
    /// Are there more?
    pub or_more: bool,
}

/// What ended in one minute of one lane.
#[derive(Debug, Serialize)]
pub struct Minute {
    /// The queue.
    pub queue: String,
    /// Whose.
    pub tenant: String,
    /// Its start.
    pub at: Timestamp,
    /// Jobs done.
    pub finished: u64,
    /// Attempts that failed, were lost or parked.
    pub failed: u64,
}

/// Of `workers`.
#[derive(Debug, Serialize)]
pub struct Workers {
    /// Those alive.
    pub workers: Vec<Worker>,
    /// The store's now.
    pub now: Timestamp,
}

/// A worker that is alive.
#[derive(Debug, Serialize)]
pub struct Worker {
    /// Random per start.
    pub id: String,
    /// For people; empty in a tenant's scope.
    pub label: String,
    /// What it takes from.
    pub queues: Vec<String>,
    /// The job names it has handlers for.
    pub names: Vec<String>,
    /// How many jobs it runs at once.
    pub slots: u32,
    /// How many of them run.
    pub busy: u32,
    /// How many of them a handler holds that ignored its timeout.
    pub stuck: u32,
    /// Its start.
    pub since: Timestamp,
    /// Its last sign of life.
    pub seen: Timestamp,
}

impl From<&LaneCounts> for StillPaused {
    fn from(lane: &LaneCounts) -> Self {
        let until = lane.settings.paused_until.filter(|at| !is_endless(*at));
        Self { tenant: lane.tenant.clone(), until }
    }
}

impl From<&Counts> for Stats {
    fn from(counts: &Counts) -> Self {
        let minutes = counts.minutes.iter().map(|minute| Minute {
            queue: minute.queue.clone(),
            tenant: minute.tenant.clone(),
            at: minute.at,
            finished: minute.finished,
            failed: minute.failed,
        });
        Self {
            lanes: counts.lanes.iter().map(Lane::from).collect(),
            complete: counts.complete,
            minutes: minutes.collect(),
        }
    }
}

impl From<&LaneCounts> for Lane {
    fn from(lane: &LaneCounts) -> Self {
        Self {
            queue: lane.queue.clone(),
            tenant: lane.tenant.clone(),
            waiting: lane.waiting.into(),
            running: lane.running.into(),
            scheduled: lane.scheduled.into(),
            parked: lane.parked.into(),
            oldest_seconds: lane.oldest.as_secs_f64(),
            weight: lane.settings.weight,
            paused: lane.settings.paused_until.is_some(),
            paused_until: lane.settings.paused_until.filter(|at| !is_endless(*at)),
            changed: lane.settings.changed.as_ref().map(By::from),
        }
    }
}

impl From<Count> for Number {
    fn from(count: Count) -> Self {
        Self { number: count.number, or_more: count.or_more }
    }
}

impl Workers {
    /// Those alive at the store's `now`.
    pub fn of(workers: &[WorkerView], now: Timestamp) -> Self {
        let workers = workers.iter().map(|WorkerView { worker, since, seen }| Worker {
            id: worker.id.to_string(),
            label: worker.label.clone(),
            queues: worker.queues.clone(),
            names: worker.names.clone(),
            slots: worker.slots,
            busy: worker.busy,
            stuck: worker.stuck,
            since: *since,
            seen: *seen,
        });
        Self { workers: workers.collect(), now }
    }
}
