//! The contract, method by method; what each does is in its file of `op`.

use std::sync::Arc;

use async_trait::async_trait;
use jobs_core::{
    Admin, AuthorizedJob, Claim, JobRef, Permit, Queue, Result, Settled, Settlement,
    admin::{Cancelled, Deleted, LaneChange, LaneRef, Retried, Tuned},
    permit::{Cancel, Delete, Read, Retry, Tune},
    queue::{Lease, Pushed, Renewed, Reserve, Reserved, Swept, Worker},
    view::{Check, Counts, JobRecord, Lanes, List, Page, WorkerView},
    wake::Watch,
};

use crate::{Sqlite, op, reader::Reader};

/// Jobs of one transaction, so that a long list lets others in between. After a failure the parts
/// before it are done; each verb answers its repetition.
const PART: usize = 500;

#[async_trait]
impl Queue for Sqlite {
    async fn enqueue(&self, jobs: &[AuthorizedJob]) -> Vec<Result<Pushed>> {
        op::enqueue::all(&self.writer, jobs).await
    }

    async fn reserve(&self, request: &Reserve) -> Result<Reserved> {
        Ok(self.settle_and_reserve(&[], request).await?.1)
    }

    async fn renew(&self, lease: Lease, claims: &[Claim]) -> Result<Vec<Renewed>> {
        let mut answers = Vec::with_capacity(claims.len());
        for part in claims.chunks(PART) {
            answers.extend(op::renew::all(&self.writer, lease, part).await?);
        }
        Ok(answers)
    }

    async fn settle(&self, settlements: &[Settlement]) -> Result<Vec<Settled>> {
        let mut answers = Vec::with_capacity(settlements.len());
        for part in settlements.chunks(PART) {
            answers.extend(op::settle::all(&self.writer, part).await?);
        }
        Ok(answers)
    }

    async fn settle_and_reserve(
        &self,
        settlements: &[Settlement],
        request: &Reserve,
    ) -> Result<(Vec<Settled>, Reserved)> {
        op::reserve::all(&self.writer, settlements, request).await
    }

    async fn sweep(&self) -> Result<Swept> {
        self.writer.call(op::sweep::Sweep).await
    }

    async fn watch(&self, queues: &[String]) -> Result<Watch> {
        self.reader.catch_up().await?;
        Ok(self.wake.watch(queues))
    }

    async fn announce(&self, worker: &Worker) -> Result<()> {
        self.writer.call(op::announce::Announce(worker.clone())).await
    }

    async fn open_own(&self) -> Result<Arc<dyn Queue>> {
        // The writer is bound to no runtime and takes a worker's calls before pushes, so both share
        // it: pushes and settlements of a process share commits instead of waiting for each other's
        // lock, and the pushes wake at once. The reader is its own, because a page's long counts
        // would keep it from seeing what other processes push.
        let mut own = self.clone();
        own.wake = self.wake.another();
        own.reader = Reader::start(own.options.clone(), own.wake.clone(), own.clock.clone())?;
        Ok(Arc::new(own))
    }
}

#[async_trait]
impl Admin for Sqlite {
    async fn get(&self, permit: &Permit<Read>, job: &JobRef) -> Result<Option<JobRecord>> {
        self.reader.ask(op::get::Get::new(permit, job)).await
    }

    async fn list(&self, permit: &Permit<Read>, list: &List) -> Result<Page> {
        self.reader.ask(op::list::Lister::new(permit, list)).await
    }

    async fn counts(&self, permit: &Permit<Read>, lanes: &Lanes) -> Result<Counts> {
        self.reader.ask(op::counts::Counter::new(permit, lanes)).await
    }

    async fn retry(&self, permit: &Permit<Retry>, jobs: &[JobRef]) -> Result<Vec<Retried>> {
        let mut answers = Vec::with_capacity(jobs.len());
        for part in jobs.chunks(PART) {
            answers.extend(self.writer.call(op::retry::RetryJobs::new(permit, part)).await?);
        }
        Ok(answers)
    }

    async fn cancel(&self, permit: &Permit<Cancel>, jobs: &[JobRef]) -> Result<Vec<Cancelled>> {
        let mut answers = Vec::with_capacity(jobs.len());
        for part in jobs.chunks(PART) {
            answers.extend(self.writer.call(op::cancel::CancelJobs::new(permit, part)).await?);
        }
        Ok(answers)
    }

    async fn delete(&self, permit: &Permit<Delete>, jobs: &[JobRef]) -> Result<Vec<Deleted>> {
        let mut answers = Vec::with_capacity(jobs.len());
        for part in jobs.chunks(PART) {
            let deleted = self.writer.call(op::delete::DeleteJobs::new(permit, part)).await?;
            for (job, _) in part.iter().zip(&deleted).filter(|(_, was)| **was == Deleted::Deleted) {
                // With the job went its record, so this is the only one of who did it (G6).
                tracing::info!(by = permit.by(), tenant = job.tenant, id = %job.id, "a job is deleted");
            }
            answers.extend(deleted);
        }
        Ok(answers)
    }

    async fn set_lane(
        &self,
        permit: &Permit<Tune>,
        lane: &LaneRef,
        change: LaneChange,
    ) -> Result<Tuned> {
        op::set_lane::tune(&self.writer, permit, lane, change).await
    }

    async fn workers(&self, permit: &Permit<Read>) -> Result<Vec<WorkerView>> {
        self.reader.ask(op::workers::Alive::new(permit)).await
    }

    async fn check(&self, _: &Permit<Read>) -> Result<Check> {
        self.reader.ask(op::check::Health::new(&self.options)).await
    }
}
