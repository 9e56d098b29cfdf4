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

use crate::{Redis, op};

#[async_trait]
impl Queue for Redis {
    async fn enqueue(&self, jobs: &[AuthorizedJob]) -> Vec<Result<Pushed>> {
        op::enqueue::all(self, jobs).await
    }

    async fn reserve(&self, request: &Reserve) -> Result<Reserved> {
        op::reserve::one(self, request).await
    }

    async fn renew(&self, lease: Lease, claims: &[Claim]) -> Result<Vec<Renewed>> {
        op::renew::all(self, lease, claims).await
    }

    async fn settle(&self, settlements: &[Settlement]) -> Result<Vec<Settled>> {
        op::settle::all(self, settlements).await
    }

    async fn settle_and_reserve(
        &self,
        settlements: &[Settlement],
        request: &Reserve,
    ) -> Result<(Vec<Settled>, Reserved)> {
        // Two scripts, sent one behind the other without waiting for the first's answer.
        let settled = op::settle::all(self, settlements);
        let (settled, reserved) = tokio::join!(settled, op::reserve::one(self, request));
        Ok((settled?, reserved?))
    }

    async fn sweep(&self) -> Result<Swept> {
        op::sweep::round(self).await
    }

    async fn watch(&self, queues: &[String]) -> Result<Watch> {
        Ok(self.wake.watch(&self.db, queues).await)
    }

    async fn announce(&self, worker: &Worker) -> Result<()> {
        op::announce::one(self, worker).await
    }

    async fn open_own(&self) -> Result<Arc<dyn Queue>> {
        Ok(Arc::new(self.another()))
    }
}

#[async_trait]
impl Admin for Redis {
    async fn get(&self, permit: &Permit<Read>, job: &JobRef) -> Result<Option<JobRecord>> {
        op::get::one(self, permit, job).await
    }

    async fn list(&self, permit: &Permit<Read>, list: &List) -> Result<Page> {
        op::list::page(self, permit, list).await
    }

    async fn counts(&self, permit: &Permit<Read>, lanes: &Lanes) -> Result<Counts> {
        op::counts::all(self, permit, lanes).await
    }

    async fn retry(&self, permit: &Permit<Retry>, jobs: &[JobRef]) -> Result<Vec<Retried>> {
        op::retry::all(self, permit, jobs).await
    }

    async fn cancel(&self, permit: &Permit<Cancel>, jobs: &[JobRef]) -> Result<Vec<Cancelled>> {
        op::cancel::all(self, permit, jobs).await
    }

    async fn delete(&self, permit: &Permit<Delete>, jobs: &[JobRef]) -> Result<Vec<Deleted>> {
        op::delete::all(self, permit, jobs).await
    }

    async fn set_lane(
        &self,
        permit: &Permit<Tune>,
        lane: &LaneRef,
        change: LaneChange,
    ) -> Result<Tuned> {
        op::set_lane::tune(self, permit, lane, change).await
    }

    async fn workers(&self, permit: &Permit<Read>) -> Result<Vec<WorkerView>> {
        op::workers::alive(self, permit).await
    }

    async fn check(&self, _: &Permit<Read>) -> Result<Check> {
        op::check::health(self).await
    }
}
