//! Of the verbs for the store.

use crate::Timestamp;
use serde::Serialize;

use super::Number;

/// Of `migrate`.
#[derive(Debug, Serialize)]
pub struct Migrated {
    /// True: an error has no object.
    pub migrated: bool,
}

/// Of `doctor`.
#[derive(Debug, Serialize)]
pub struct Doctor {
    /// Is there no finding of level `problem`? Then the exit status is 0, else 1.
    pub healthy: bool,
    /// Worst first.
    pub findings: Vec<Finding>,
    /// The store and its version.
    pub store: String,
    /// The schema's version.
    pub schema: u32,
    /// The store's now.
    pub now: Timestamp,
    /// How far its clock is ahead of this machine's, as far as can be told; behind is negative.
    pub clock_ahead_seconds: f64,
    /// Workers alive.
    pub workers: u64,
    /// Due and not running.
    pub waiting: Number,
    /// Running under a lease.
    pub running: Number,
    /// Not due yet.
    pub scheduled: Number,
    /// Waiting for a person.
    pub parked: Number,
}

/// Why jobs are not running, or may soon not be.
#[derive(Debug, Serialize)]
pub struct Finding {
    /// `problem`: something is wrong. `note`: somebody wants it so, or it is in order.
    pub level: &'static str,
    /// `store`, `clock`, `no_worker`, `queue_not_worked`, `name_not_known`, `stuck`, `expired`,
    /// `not_taken`; `paused`, `busy`, `scheduled`, `parked`.
    pub kind: &'static str,
    /// What is, in words.
    pub what: String,
    /// What to do about it, in words.
    pub remedy: String,
}
