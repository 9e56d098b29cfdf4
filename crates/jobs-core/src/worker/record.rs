//! What an application may watch: each finished run with its timeline (K11).

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    time::Duration,
};

use crate::{Job, Outcome, Settled};

/// Gets each finished run. Called on the worker's control thread: hand over, do not block. A
/// panic in it is caught and logged.
pub trait Recorder: Send + Sync + 'static {
    /// A run was settled.
    fn finished(&self, run: &FinishedRun<'_>);
}

/// One run, after the store answered its settlement.
#[derive(Debug)]
#[non_exhaustive]
pub struct FinishedRun<'a> {
    /// The job.
    pub job: &'a Job,
    /// Which delivery.
    pub attempt: u32,
    /// How it ended.
    pub outcome: &'a Outcome,
    /// What the store said to that.
    pub settled: Settled,
    /// Where the time went.
    pub timeline: Timeline,
}

/// Where the time of one run went.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Timeline {
    /// From delivery to a free slot.
    pub held: Duration,
    /// From the slot to the handler's first step: how busy the application's runtime was.
    pub queued: Duration,
    /// The handler.
    pub ran: Duration,
    /// From the handler's end to the store's answer.
    pub settled: Duration,
}

pub(crate) fn tell(recorder: &dyn Recorder, run: &FinishedRun<'_>) {
    if catch_unwind(AssertUnwindSafe(|| recorder.finished(run))).is_err() {
        tracing::error!(name = run.job.name, "the worker's Recorder panicked");
    }
}
