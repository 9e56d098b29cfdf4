//! What a handler gets beside its job: the authority, the attempt, and when to stop.

use std::{fmt, sync::Arc};

use tokio_util::sync::CancellationToken;

use crate::{Claim, Grant, Job, JobId, PushError, Queue, QueueExt, job::IntoJob, queue::Pushed};

/// One run's surroundings. Cheap to clone. A clone that outlives the run still holds its Grant and
/// can push; whether the run was told to end is all that its token says.
#[derive(Clone)]
pub struct Context(Arc<Inner>);

pub(crate) struct Inner {
    pub grant: Grant,
    pub job: Arc<Job>,
    pub claim: Claim,
    pub attempt: u32,
    /// Fires when this run should end.
    pub stop: CancellationToken,
    /// Fires when the worker should end.
    pub shutdown: CancellationToken,
    /// The application's handle.
    pub queue: Arc<dyn Queue>,
}

impl Context {
    pub(crate) fn new(inner: Inner) -> Self {
        Self(Arc::new(inner))
    }

    /// The authority the job was pushed under: same tenant, same action, subject `system` on
    /// behalf of who pushed it (G4). The only one a handler gets.
    pub fn grant(&self) -> &Grant {
        &self.0.grant
    }

    /// The job as it was pushed.
    pub fn job(&self) -> &Job {
        &self.0.job
    }

    /// The job's id: stable across retries, so the key to make work idempotent by.
    pub fn job_id(&self) -> JobId {
        self.0.job.id
    }

    /// Whose job it is.
    pub fn tenant(&self) -> &str {
        &self.0.job.tenant
    }

    /// Which delivery this is, from 1, not counting those that were given back.
    pub fn attempt(&self) -> u32 {
        self.0.attempt
    }

    /// Grows with every holder of this job: a fencing token for an outside resource, which must
    /// refuse smaller ones.
    pub fn fence(&self) -> i64 {
        self.0.claim.fence
    }

    /// Waits until this run should end: its lease is lost, its timeout is over, an operator
    /// cancelled it, or a shutdown's grace is over. A second later the handler's future is dropped;
    /// after a lost lease and at the end of the grace, a tenth of a second later. A worker that is
    /// dropped or killed drops it without a word.
    ///
    /// # Cancel safety
    /// A dropped wait misses nothing.
    pub async fn cancelled(&self) {
        self.0.stop.cancelled().await;
    }

    /// Should this run end? For loops that do not await.
    pub fn is_cancelled(&self) -> bool {
        self.0.stop.is_cancelled()
    }

    /// Waits until the worker shuts down: a long handler may end early, for example by
    /// [`Failure::snooze`](crate::Failure::snooze), or finish within the grace period.
    ///
    /// # Cancel safety
    /// A dropped wait misses nothing.
    pub async fn shutting_down(&self) {
        self.0.shutdown.cancelled().await;
    }

    /// Is the worker shutting down?
    pub fn is_shutting_down(&self) -> bool {
        self.0.shutdown.is_cancelled()
    }

    /// Pushes a job under this run's Grant. It records the person at the start of the chain.
    ///
    /// # Errors
    /// [`PushError`]; a duplicate or held key is an answer, not an error.
    ///
    /// # Cancel safety
    /// A dropped push may still be stored. Where it can be repeated, make the job first, with
    /// [`Job::of`], and push that again: a value of a job type gets a new id in each push.
    pub async fn push<J: IntoJob + Send>(&self, job: J) -> Result<Pushed, PushError> {
        self.0.queue.push(&self.0.grant, job).await
    }

    /// Pushes many jobs under this run's Grant, answering one by one in order. A refused one does not
    /// stop the others.
    ///
    /// # Cancel safety
    /// As [`push`](Self::push), for each. A run that may be repeated gives its jobs the same ids each
    /// time, or a key: what is there already answers that it is.
    pub async fn push_many<J, I>(&self, jobs: I) -> Vec<Result<Pushed, PushError>>
    where
        J: IntoJob + Send,
        I: IntoIterator<Item = J> + Send,
        I::IntoIter: Send,
    {
        self.0.queue.push_many(&self.0.grant, jobs).await
    }
}

/// Shows which job, never its payload.
impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let job = &self.0.job;
        write!(f, "Context({} {}/{}, attempt {})", job.name, job.tenant, job.id, self.0.attempt)
    }
}
