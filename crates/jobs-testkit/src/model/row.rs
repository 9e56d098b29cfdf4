//! One stored job.

use jobs_core::{
    Cause, Claim, Job, JobRef, Nonce, OutcomeKind, State,
    state::Facts,
    view::{Attempt, VerbRecord},
};

/// A job and all that happened to it. Instants are the store's.
#[derive(Clone, Debug)]
pub(super) struct Row {
    pub job: Job,
    pub state: State,
    pub due: i64,
    pub pushed_at: i64,
    pub finished_at: Option<i64>,
    pub attempt: u32,
    pub max_attempts: u32,
    /// Its last attempt was lost (R7).
    pub suspect: bool,
    pub cancel_requested: bool,
    pub holds_key: bool,
    /// The newest claim, and how its holder settled it.
    pub fence: i64,
    pub nonce: Option<Nonce>,
    pub settled: Option<OutcomeKind>,
    pub lease: Option<Held>,
    pub attempts: Vec<Ended>,
    pub snoozes: u32,
    pub releases: u32,
    pub verb: Option<Did>,
    /// Past its retention: only its identity and its last claim still answer (S5).
    pub stub: bool,
}

/// A running job's lease.
#[derive(Clone, Debug)]
pub(super) struct Held {
    pub worker: String,
    pub started: i64,
    pub renewed: i64,
    pub until: i64,
}

/// An attempt that ended.
#[derive(Clone, Debug)]
pub(super) struct Ended {
    pub number: u32,
    pub fence: i64,
    pub worker: String,
    pub started: i64,
    pub at: i64,
    pub outcome: OutcomeKind,
    pub cause: Option<Cause>,
}

/// What an operator did last.
#[derive(Clone, Debug)]
pub(super) struct Did {
    pub verb: &'static str,
    pub by: String,
    pub at: i64,
}

impl Row {
    pub fn job_ref(&self) -> JobRef {
        self.job.job_ref()
    }

    /// Running, and silent past its lease.
    pub fn expired(&self, now: i64) -> bool {
        self.lease.as_ref().is_some_and(|lease| lease.until <= now)
    }

    /// What the transition table looks at.
    pub fn facts(&self, now: i64) -> Facts {
        Facts {
            due: self.due <= now,
            expired: self.expired(now),
            cancel_requested: self.cancel_requested,
            attempts_left: self.attempt < self.max_attempts,
        }
    }

    /// The claim of the newest delivery.
    pub fn claim(&self) -> Option<Claim> {
        self.nonce.map(|nonce| Claim { job: self.job_ref(), fence: self.fence, nonce })
    }

    /// From now on every earlier claim is stale.
    pub fn disown(&mut self) {
        (self.nonce, self.settled, self.lease) = (None, None, None);
    }
}

impl Ended {
    /// As operators see it.
    pub fn shown(&self, show: impl Fn(i64) -> jobs_core::Timestamp) -> Attempt {
        Attempt {
            number: self.number,
            fence: self.fence,
            worker: self.worker.clone(),
            started_at: show(self.started),
            ended_at: show(self.at),
            outcome: self.outcome,
            cause: self.cause.clone(),
        }
    }
}

impl Did {
    /// As operators see it.
    pub fn shown(&self, show: impl Fn(i64) -> jobs_core::Timestamp) -> VerbRecord {
        VerbRecord { verb: self.verb.to_owned(), by: self.by.clone(), at: show(self.at) }
    }
}
