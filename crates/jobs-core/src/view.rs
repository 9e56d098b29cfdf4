//! What operators see. Times are the store's.

use std::{fmt, str::FromStr, time::Duration};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{Cause, Job, JobId, JobRef, OutcomeKind, State, queue::Worker};

/// One job in a list.
#[derive(Clone, Debug, PartialEq)]
pub struct JobView {
    /// The job as it was pushed; `run_at` is when it is or was due.
    pub job: Job,
    /// Where it is. A running job whose lease is over is still `Running` here, and waiting in the
    /// counts.
    pub state: State,
    /// Deliveries so far that were not given back.
    pub attempt: u32,
    /// When the store took it.
    pub pushed_at: Timestamp,
    /// When it left for history.
    pub finished_at: Option<Timestamp>,
    /// The newest cause on record.
    pub last_cause: Option<Cause>,
    /// An operator asked the running job to end.
    pub cancel_requested: bool,
}

/// One job with everything that is known of it.
#[derive(Clone, Debug, PartialEq)]
pub struct JobRecord {
    /// The job.
    pub view: JobView,
    /// Its fence: how often its ownership changed.
    pub fence: i64,
    /// Who holds it.
    pub holder: Option<Holder>,
    /// The attempts that ended, oldest first, at most [`KEPT_ATTEMPTS`](crate::queue::KEPT_ATTEMPTS).
    pub attempts: Vec<Attempt>,
    /// Deliveries given back by a snooze.
    pub snoozes: u32,
    /// Deliveries given back by a release.
    pub releases: u32,
    /// The last operator's verb on it.
    pub last_verb: Option<VerbRecord>,
    /// The store's now, to tell ages by.
    pub now: Timestamp,
}

/// Who holds a running job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// The worker, as it named itself in its reserve.
    pub worker: String,
    /// Since when.
    pub started_at: Timestamp,
    /// The last renewal, or the start.
    pub renewed_at: Timestamp,
    /// When the lease ends without another.
    pub lease_until: Timestamp,
}

/// One attempt that ended (S4).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attempt {
    /// Its number, as the handler saw it. Restarts when an operator retries.
    pub number: u32,
    /// Its fence.
    pub fence: i64,
    /// The worker, as it named itself.
    pub worker: String,
    /// When it was delivered.
    pub started_at: Timestamp,
    /// When it ended.
    pub ended_at: Timestamp,
    /// How.
    pub outcome: OutcomeKind,
    /// Why, where it did not succeed.
    pub cause: Option<Cause>,
}

/// Who changed a job or a lane's settings by hand.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VerbRecord {
    /// Of a job `retry` or `cancel`; of a lane `pause`, `resume` or `weigh`.
    pub verb: String,
    /// Who.
    pub by: String,
    /// When.
    pub at: Timestamp,
}

/// Which jobs to list. The default is all in scope.
#[derive(Clone, Debug, Default)]
pub struct List {
    /// Only this queue.
    pub queue: Option<String>,
    /// Only this tenant; outside the permit's scope nothing matches.
    pub tenant: Option<String>,
    /// Only this state.
    pub state: Option<State>,
    /// Only this name, among the rows looked at.
    pub name: Option<String>,
    /// Only this id, among the rows looked at.
    pub id: Option<JobId>,
    /// Only with this text in the last cause, among the rows looked at.
    pub cause: Option<String>,
    /// Jobs of a page, 1 to 1,000; 0 means 100.
    pub page: usize,
    /// Where the last page ended.
    pub after: Option<Cursor>,
}

/// One page of a list, newest id first.
#[derive(Clone, Debug, PartialEq)]
pub struct Page {
    /// The jobs.
    pub jobs: Vec<JobView>,
    /// Where to go on; `None` at the end.
    pub next: Option<Cursor>,
    /// Were all rows of this page's stretch looked at? `false`: the budget ended it early, go on
    /// from `next`.
    pub complete: bool,
    /// The store's now, to tell ages by.
    pub now: Timestamp,
}

/// A place in a list: after this job. As text for a URL: `tenant/id`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cursor(pub JobRef);

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The text is no cursor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("this is no cursor of a list: start again without one")]
pub struct NoSuchCursor;

impl FromStr for Cursor {
    type Err = NoSuchCursor;

    fn from_str(text: &str) -> Result<Self, NoSuchCursor> {
        let (tenant, id) = text.split_once('/').ok_or(NoSuchCursor)?;
        if !crate::names::is_tenant(tenant) {
            return Err(NoSuchCursor);
        }
        let id = id.parse().map_err(|_| NoSuchCursor)?;
        Ok(Self(JobRef { tenant: tenant.to_owned(), id }))
    }
}

/// Most that is counted of anything (A2).
pub const COUNTED: u64 = 10_000;

/// A count that is exact to [`COUNTED`] and then says so.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// The number, at most [`COUNTED`].
    pub number: u64,
    /// There are more.
    pub or_more: bool,
}

impl Count {
    /// From a count that stopped after `COUNTED + 1`.
    pub fn capped(counted: u64) -> Self {
        Self { number: counted.min(COUNTED), or_more: counted > COUNTED }
    }
}

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.number, if self.or_more { "+" } else { "" })
    }
}

/// Which lanes to count. The default is all in scope.
#[derive(Clone, Debug, Default)]
pub struct Lanes {
    /// Only this queue.
    pub queue: Option<String>,
    /// Only this tenant.
    pub tenant: Option<String>,
}

/// Most lanes that are counted one by one.
pub const COUNTED_LANES: usize = 1000;

/// Most rows of counts by minute: an hour of that many lanes.
pub const COUNTED_MINUTES: usize = 60 * COUNTED_LANES;

/// The counts of some lanes, in one reading.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Counts {
    /// The lanes that have live jobs or settings of their own, ordered by queue and tenant, at most
    /// [`COUNTED_LANES`]; those where a job waits come before others when there are more.
    pub lanes: Vec<LaneCounts>,
    /// Are these all of them?
    pub complete: bool,
    /// What finished and failed, minute by minute, the last hour, oldest first; minutes in which
    /// nothing ended are left out, and so are the oldest beyond [`COUNTED_MINUTES`] rows.
    pub minutes: Vec<Minute>,
}

/// The counts of one lane.
#[derive(Clone, Debug, PartialEq)]
pub struct LaneCounts {
    /// Its queue.
    pub queue: String,
    /// Its tenant.
    pub tenant: String,
    /// Not due yet.
    pub scheduled: Count,
    /// Due and not running, or running with an expired lease (A1).
    pub waiting: Count,
    /// Running under a valid lease.
    pub running: Count,
    /// Gave up.
    pub parked: Count,
    /// How long the longest-waiting has been due; zero when none waits.
    pub oldest: Duration,
    /// Its settings.
    pub settings: LaneSettings,
}

/// A lane's settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaneSettings {
    /// Its share against other lanes of the queue, 1 to 100.
    pub weight: u32,
    /// Paused until then; far in the future when without a deadline.
    pub paused_until: Option<Timestamp>,
    /// The last change of them, the lane's own or its queue's, whichever is newer.
    pub changed: Option<VerbRecord>,
}

impl Default for LaneSettings {
    fn default() -> Self {
        Self { weight: 1, paused_until: None, changed: None }
    }
}

/// What ended in one minute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Minute {
    /// The queue.
    pub queue: String,
    /// The tenant.
    pub tenant: String,
    /// The start of the minute.
    pub at: Timestamp,
    /// Jobs done.
    pub finished: u64,
    /// Attempts that failed, were lost or parked.
    pub failed: u64,
}

/// A worker in the list of those alive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerView {
    /// As it announced itself; a tenant's permit sees no label.
    pub worker: Worker,
    /// Its first announcement.
    pub since: Timestamp,
    /// Its last.
    pub seen: Timestamp,
}

/// The store's own health.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// The store and its version, for people.
    pub store: String,
    /// The schema's version.
    pub schema: u32,
    /// The store's now, to compare clocks by.
    pub now: Timestamp,
    /// What is wrong or risky, in words that say what to do; empty when nothing is.
    pub findings: Vec<String>,
}
