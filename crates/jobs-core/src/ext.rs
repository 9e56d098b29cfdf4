//! What callers write: single calls in the contract's words, over any [`Queue`] and [`Admin`].
//! Blanket, so no driver can override them.

use std::time::Duration;

use async_trait::async_trait;

use crate::{
    Admin, Cause, Claim, Error, ErrorKind, Grant, Outcome, Queue, Refusal, Result, Settled,
    Settlement, State,
    admin::{LaneChange, LaneRef, Pause, Tuned},
    authorized::authorized,
    grant::Forbidden,
    job::IntoJob,
    payload::NotJson,
    queue::Pushed,
    view::{Count, Counts, JobView, Lanes, List},
};

/// Why a push did not happen.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PushError {
    /// The Grant does not cover it, or a field is out of bounds; no I/O was done.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The payload has no JSON form; no I/O was done.
    #[error(transparent)]
    NotJson(std::sync::Arc<NotJson>),
    /// The store failed; whether the job is stored is unknown, so push the same id again. That
    /// needs the id: make the job first, with [`Job::of`](crate::Job::of).
    #[error(transparent)]
    Store(#[from] Error),
}

impl From<NotJson> for PushError {
    fn from(error: NotJson) -> Self {
        Self::NotJson(std::sync::Arc::new(error))
    }
}

/// Why an operator's question was not answered.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AdminError {
    /// The Grant is for another action.
    #[error(transparent)]
    Forbidden(#[from] Forbidden),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] Error),
}

/// Producers' and workers' words.
#[async_trait]
pub trait QueueExt: Queue {
    /// Pushes one job under `grant`.
    ///
    /// # Errors
    /// [`PushError`]; a duplicate or held key is an answer, not an error.
    ///
    /// # Cancel safety
    /// A dropped push may still be stored: push the same id again to find out. A value of a job
    /// type gets a new id in each push, so where a push can be repeated, make the job first, with
    /// [`Job::of`](crate::Job::of), and push clones of it.
    async fn push<J: IntoJob + Send>(&self, grant: &Grant, job: J) -> Result<Pushed, PushError> {
        let job = authorized(grant, job.into_job(grant)?)?;
        let answer = self.enqueue(std::slice::from_ref(&job)).await.pop();
        Ok(answer.unwrap_or_else(|| Err(unanswered("enqueue")))?)
    }

    /// Pushes many jobs under `grant`, answering one by one in order. A refused one does not stop
    /// the others.
    async fn push_many<J, I>(&self, grant: &Grant, jobs: I) -> Vec<Result<Pushed, PushError>>
    where
        J: IntoJob + Send,
        I: IntoIterator<Item = J> + Send,
        I::IntoIter: Send,
    {
        let mut accepted = Vec::new();
        let mut answers: Vec<_> = jobs
            .into_iter()
            .map(|job| {
                let job = authorized(grant, job.into_job(grant)?)?;
                accepted.push(job);
                Ok::<_, PushError>(())
            })
            .map(|checked| checked.err().map(Err))
            .collect();
        // A refused push does no I/O (G3), and neither do many.
        let stored = if accepted.is_empty() { Vec::new() } else { self.enqueue(&accepted).await };
        let mut stored = stored.into_iter();
        answers
            .iter_mut()
            .map(|slot| {
                slot.take().unwrap_or_else(|| {
                    let answer = stored.next().unwrap_or_else(|| Err(unanswered("enqueue")));
                    Ok(answer?)
                })
            })
            .collect()
    }

    /// Ends one run with `outcome`.
    ///
    /// # Errors
    /// The store's.
    async fn settle_one(&self, claim: &Claim, outcome: Outcome) -> Result<Settled> {
        let settlement = Settlement { claim: claim.clone(), outcome };
        let answers = self.settle(std::slice::from_ref(&settlement)).await?;
        answers.into_iter().next().ok_or_else(|| unanswered("settle"))
    }

    /// The work happened.
    ///
    /// # Errors
    /// The store's.
    async fn ack(&self, claim: &Claim) -> Result<Settled> {
        self.settle_one(claim, Outcome::Done).await
    }

    /// It failed: again after `delay`.
    ///
    /// # Errors
    /// The store's.
    async fn fail(&self, claim: &Claim, delay: Duration, cause: Cause) -> Result<Settled> {
        self.settle_one(claim, Outcome::Retry { after: delay, cause }).await
    }

    /// Not started: back in line, unspent.
    ///
    /// # Errors
    /// The store's.
    async fn release(&self, claim: &Claim) -> Result<Settled> {
        self.settle_one(claim, Outcome::Release).await
    }

    /// Not now: again after `delay`, unspent.
    ///
    /// # Errors
    /// The store's.
    async fn snooze(&self, claim: &Claim, delay: Duration) -> Result<Settled> {
        self.settle_one(claim, Outcome::Snooze { after: delay }).await
    }

    /// It failed for good.
    ///
    /// # Errors
    /// The store's.
    async fn park(&self, claim: &Claim, cause: Cause) -> Result<Settled> {
        self.settle_one(claim, Outcome::Park { cause }).await
    }
}

impl<Q: Queue + ?Sized> QueueExt for Q {}

/// Operators' words.
#[async_trait]
pub trait AdminExt: Admin {
    /// The parked jobs of `queue`, newest first, at most `most`.
    ///
    /// # Errors
    /// [`AdminError`].
    async fn parked(
        &self,
        grant: &Grant,
        queue: &str,
        most: usize,
    ) -> Result<Vec<JobView>, AdminError> {
        let permit = grant.permit()?;
        let (queue, state) = (Some(queue.to_owned()), Some(State::Parked));
        let mut list = List { queue, state, page: most.clamp(1, 1000), ..List::default() };
        let mut jobs = Vec::new();
        loop {
            let page = self.list(&permit, &list).await?;
            jobs.extend(page.jobs);
            jobs.truncate(most);
            list.after = page.next;
            if list.after.is_none() || jobs.len() == most {
                return Ok(jobs);
            }
        }
    }

    /// How many jobs of `queue` wait, over the tenants in scope; "or more" beyond
    /// [`COUNTED_LANES`](crate::view::COUNTED_LANES) lanes.
    ///
    /// # Errors
    /// [`AdminError`].
    async fn pending(&self, grant: &Grant, queue: &str) -> Result<Count, AdminError> {
        let counts = self.counts_of(grant, queue).await?;
        let number = counts.lanes.iter().map(|lane| lane.waiting.number).sum();
        let or_more = !counts.complete || counts.lanes.iter().any(|lane| lane.waiting.or_more);
        Ok(Count { number, or_more })
    }

    /// How long the longest-waiting job of `queue` has been due; zero when none waits. Where jobs
    /// wait in more than [`COUNTED_LANES`](crate::view::COUNTED_LANES) lanes it is a lower bound, of
    /// that many of them: never more than the truth, and never zero while one waits.
    ///
    /// # Errors
    /// [`AdminError`].
    async fn oldest(&self, grant: &Grant, queue: &str) -> Result<Duration, AdminError> {
        let counts = self.counts_of(grant, queue).await?;
        Ok(counts.lanes.iter().map(|lane| lane.oldest).max().unwrap_or_default())
    }

    /// The counts of `queue`, over the tenants in scope.
    ///
    /// # Errors
    /// [`AdminError`].
    async fn counts_of(&self, grant: &Grant, queue: &str) -> Result<Counts, AdminError> {
        let lanes = Lanes { queue: Some(queue.to_owned()), tenant: None };
        Ok(self.counts(&grant.permit()?, &lanes).await?)
    }

    /// Stops deliveries from a lane, for a time or until resumed.
    ///
    /// # Errors
    /// [`AdminError`].
    async fn pause(
        &self,
        grant: &Grant,
        lane: &LaneRef,
        length: Option<Duration>,
    ) -> Result<Tuned, AdminError> {
        let pause = Some(length.map_or(Pause::On, Pause::For));
        let change = LaneChange { pause, ..LaneChange::default() };
        Ok(self.set_lane(&grant.permit()?, lane, change).await?)
    }

    /// Lets a lane go on.
    ///
    /// # Errors
    /// [`AdminError`].
    async fn resume(&self, grant: &Grant, lane: &LaneRef) -> Result<Tuned, AdminError> {
        let change = LaneChange { pause: Some(Pause::Off), ..LaneChange::default() };
        Ok(self.set_lane(&grant.permit()?, lane, change).await?)
    }
}

impl<A: Admin + ?Sized> AdminExt for A {}

/// A driver that breaks the contract: one answer per element.
pub(crate) fn unanswered(operation: &'static str) -> Error {
    Error::new(ErrorKind::Internal, operation, "the driver answered fewer elements than it got")
}
