//! Of the verbs for jobs.

use std::collections::BTreeMap;

use crate::{
    JobRef, Payload, RunAt, Timeout, Timestamp,
    view::{Attempt, Holder, JobRecord, JobView, Page, VerbRecord},
};
use serde::Serialize;

/// Of `list`.
#[derive(Debug, Serialize)]
pub struct List {
    /// Newest first.
    pub jobs: Vec<Job>,
    /// For `--after`, where the list ends before all jobs were looked at; `null` at the end.
    pub next: Option<String>,
    /// Were all jobs up to there looked at, and is there nothing after?
    pub complete: bool,
    /// The store's now.
    pub now: Timestamp,
}

/// A job, without its payload.
#[derive(Debug, Serialize)]
pub struct Job {
    /// Whose.
    pub tenant: String,
    /// A tenant's own.
    pub id: String,
    /// `scheduled`, `ready`, `running`, `parked`, `done` or `cancelled`.
    pub state: &'static str,
    /// Where it waits or ran.
    pub queue: String,
    /// What runs it.
    pub name: String,
    /// Deliveries that were not given back.
    pub attempt: u32,
    /// Deliveries before it is parked.
    pub max_attempts: Option<u32>,
    /// −100 to 100, higher first.
    pub priority: i16,
    /// The action it was pushed under.
    pub action: String,
    /// Who pushed it.
    pub authorized_by: String,
    /// When it is or was due.
    pub run_at: Option<Timestamp>,
    /// When the store took it.
    pub pushed_at: Timestamp,
    /// When it ended.
    pub finished_at: Option<Timestamp>,
    /// The newest cause on record.
    pub last_cause: Option<String>,
    /// An operator asked the running job to end.
    pub cancel_requested: bool,
    /// Its unique key.
    pub key: Option<String>,
    /// Small facts.
    pub metadata: BTreeMap<String, String>,
}

/// Of `show`.
#[derive(Debug, Serialize)]
pub struct Show {
    /// The job.
    pub job: Job,
    /// As it was pushed, as a JSON value.
    pub payload: Payload,
    /// How long one run may take; `null` where the job leaves that to its type.
    pub timeout_seconds: Option<f64>,
    /// How often its ownership changed.
    pub fence: i64,
    /// Who runs it.
    pub holder: Option<Held>,
    /// Those that ended, oldest first, at most 100.
    pub attempts: Vec<Ended>,
    /// Deliveries given back by a snooze.
    pub snoozes: u32,
    /// Deliveries given back by a release.
    pub releases: u32,
    /// The last `retry` or `cancel` by hand.
    pub last_verb: Option<By>,
    /// The store's now.
    pub now: Timestamp,
}

/// Who runs a job.
#[derive(Debug, Serialize)]
pub struct Held {
    /// Its label and identity.
    pub worker: String,
    /// Since when.
    pub started_at: Timestamp,
    /// The last sign of life.
    pub renewed_at: Timestamp,
    /// When it is taken back without another.
    pub lease_until: Timestamp,
    /// Is that over? Then a sweep takes it back.
    pub expired: bool,
}

/// An attempt that ended.
#[derive(Debug, Serialize)]
pub struct Ended {
    /// As the handler saw it; restarts when an operator retries.
    pub number: u32,
    /// `done`, `retry`, `park`, `cancelled` or `lost`.
    pub outcome: &'static str,
    /// Which worker.
    pub worker: String,
    /// When it was delivered.
    pub started_at: Timestamp,
    /// When it ended.
    pub ended_at: Timestamp,
    /// Why, where it did not succeed.
    pub cause: Option<String>,
}

/// Who did something by hand.
#[derive(Debug, Serialize)]
pub struct By {
    /// What.
    pub verb: String,
    /// Who.
    pub by: String,
    /// When.
    pub at: Timestamp,
}

/// Of `retry`, `cancel` and `delete`.
#[derive(Debug, Default, Serialize)]
pub struct Changed {
    /// The verb.
    pub verb: &'static str,
    /// How many jobs were named, or matched the filter.
    pub asked: u64,
    /// How many of them it changed.
    pub changed: u64,
    /// How many by answer: `retried`, `cancelled`, `requested`, `deleted`; `not_retryable`,
    /// `key_held`, `not_live`, `running`, `unknown`; `moved_on`, which did not match the filter any
    /// more when their turn came.
    pub answers: BTreeMap<&'static str, u64>,
    /// Those that it did not change, at most 1,000 of them.
    pub unchanged: Vec<Unchanged>,
}

/// A job that a verb did not change.
#[derive(Debug, Serialize)]
pub struct Unchanged {
    /// Whose.
    pub tenant: String,
    /// Which.
    pub id: String,
    /// As in [`Changed::answers`].
    pub answer: &'static str,
    /// Where it is, where that is why.
    pub state: Option<&'static str>,
    /// The job that holds its key, where that is why.
    pub held_by: Option<String>,
}

impl From<&JobView> for Job {
    fn from(view: &JobView) -> Self {
        let job = view.job.clone();
        Self {
            tenant: job.tenant,
            id: job.id.to_string(),
            state: view.state.as_str(),
            queue: job.queue,
            name: job.name,
            attempt: view.attempt,
            max_attempts: job.max_attempts,
            priority: job.priority,
            action: job.action,
            authorized_by: job.authorized_by,
            run_at: due(job.run_at),
            pushed_at: view.pushed_at,
            finished_at: view.finished_at,
            last_cause: view.last_cause.as_ref().map(|cause| cause.as_str().to_owned()),
            cancel_requested: view.cancel_requested,
            key: job.key.map(|key| key.text),
            metadata: job.metadata,
        }
    }
}

/// When a stored job is due: a store always knows.
pub fn due(run_at: RunAt) -> Option<Timestamp> {
    match run_at {
        RunAt::At(at) => Some(at),
        RunAt::Now | RunAt::After(_) => None,
    }
}

impl List {
    /// These jobs of a walk, and the page that it ended with.
    pub fn of(jobs: &[JobView], end: &Page) -> Self {
        let next = end.next.as_ref().map(ToString::to_string);
        let complete = end.complete && next.is_none();
        Self { jobs: jobs.iter().map(Job::from).collect(), next, complete, now: end.now }
    }
}

impl From<&JobRecord> for Show {
    fn from(record: &JobRecord) -> Self {
        let job = &record.view.job;
        let timeout_seconds = match job.timeout {
            Timeout::After(limit) => Some(limit.as_secs_f64()),
            Timeout::Default | Timeout::Never => None,
        };
        Self {
            job: Job::from(&record.view),
            payload: job.payload.clone(),
            timeout_seconds,
            fence: record.fence,
            holder: record.holder.as_ref().map(|holder| Held::of(holder, record.now)),
            attempts: record.attempts.iter().map(Ended::from).collect(),
            snoozes: record.snoozes,
            releases: record.releases,
            last_verb: record.last_verb.as_ref().map(By::from),
            now: record.now,
        }
    }
}

impl Held {
    fn of(holder: &Holder, now: Timestamp) -> Self {
        Self {
            worker: holder.worker.clone(),
            started_at: holder.started_at,
            renewed_at: holder.renewed_at,
            lease_until: holder.lease_until,
            expired: holder.lease_until <= now,
        }
    }
}

impl From<&Attempt> for Ended {
    fn from(attempt: &Attempt) -> Self {
        Self {
            number: attempt.number,
            outcome: attempt.outcome.as_str(),
            worker: attempt.worker.clone(),
            started_at: attempt.started_at,
            ended_at: attempt.ended_at,
            cause: attempt.cause.as_ref().map(|cause| cause.as_str().to_owned()),
        }
    }
}

impl From<&VerbRecord> for By {
    fn from(record: &VerbRecord) -> Self {
        Self { verb: record.verb.clone(), by: record.by.clone(), at: record.at }
    }
}

impl Unchanged {
    /// With nothing more to say.
    pub fn new(job: &JobRef, answer: &'static str) -> Self {
        let (tenant, id) = (job.tenant.clone(), job.id.to_string());
        Self { tenant, id, answer, state: None, held_by: None }
    }
}
