//! What an application may watch: each finished run with its timeline (K11).

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    time::Duration,
};

use tokio::time::Instant;

use crate::{
    Job, Outcome, OutcomeKind, Settled,
    worker::{shared::Shared, table::Held},
};

/// Gets each finished run. Called on the worker's control thread: hand over, do not block. A
/// panic in it is caught and logged.
pub trait Recorder: Send + Sync + 'static {
    /// A run was settled, or ended after its lease was lost.
    fn finished(&self, run: &FinishedRun<'_>);
}

/// One run, after the store answered its settlement or its lease was lost.
#[derive(Debug)]
#[non_exhaustive]
pub struct FinishedRun<'a> {
    /// The job.
    pub job: &'a Job,
    /// Which delivery.
    pub attempt: u32,
    /// How it ended here.
    pub outcome: &'a Outcome,
    /// What the store said to that; [`Settled::Lost`] too where the lease was lost before, and
    /// nobody asked.
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

/// Counts a run that ended and tells the Recorder. A job that was given back before its handler's
/// first step is no run.
pub(crate) fn report(shared: &Shared, held: &Held, outcome: &Outcome, settled: Settled) {
    if held.started.is_none() {
        return;
    }
    let since = |later: Option<Instant>, earlier: Option<Instant>| match (later, earlier) {
        (Some(later), Some(earlier)) => later.saturating_duration_since(earlier),
        _ => Duration::ZERO,
    };
    let (job, attempt) = (&*held.job, held.attempt);
    let ran = since(held.ended, held.started);
    if settled == Settled::Lost {
        shared.metrics.settled(job, OutcomeKind::Lost, ran);
    } else {
        shared.metrics.settled(job, outcome.kind(), ran);
        shared.settled.set(shared.settled.get() + 1);
    }
    let Some(recorder) = &shared.config.recorder else { return };
    let timeline = Timeline {
        held: since(held.dispatched, Some(held.delivered)),
        queued: since(held.started, held.dispatched),
        ran,
        settled: since(Some(Instant::now()), held.ended),
    };
    let run = FinishedRun { job, attempt, outcome, settled, timeline };
    if catch_unwind(AssertUnwindSafe(|| recorder.finished(&run))).is_err() {
        tracing::error!(name = job.name, "the worker's Recorder panicked");
    }
}
