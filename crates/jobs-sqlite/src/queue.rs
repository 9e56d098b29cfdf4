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

use crate::{Sqlite, op};

#[async_trait]
impl Queue for Sqlite {
    async fn enqueue(&self, jobs: &[AuthorizedJob]) -> Vec<Result<Pushed>> {
        op::enqueue::all(&self.writer, jobs).await
    }

    async fn reserve(&self, request: &Reserve) -> Result<Reserved> {
        Ok(self.settle_and_reserve(&[], request).await?.1)
    }

    async fn renew(&self, lease: Lease, claims: &[Claim]) -> Result<Vec<Renewed>> {
        op::renew::all(&self.writer, lease, claims).await
    }

    async fn settle(&self, settlements: &[Settlement]) -> Result<Vec<Settled>> {
        op::settle::all(&self.writer, settlements).await
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
        Ok(Arc::new(Self::open((*self.options).clone()).await?))
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
        self.writer.call(op::retry::RetryJobs::new(permit, jobs)).await
    }

    async fn cancel(&self, permit: &Permit<Cancel>, jobs: &[JobRef]) -> Result<Vec<Cancelled>> {
        self.writer.call(op::cancel::CancelJobs::new(permit, jobs)).await
    }

    async fn delete(&self, permit: &Permit<Delete>, jobs: &[JobRef]) -> Result<Vec<Deleted>> {
        self.writer.call(op::delete::DeleteJobs::new(permit, jobs)).await
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
