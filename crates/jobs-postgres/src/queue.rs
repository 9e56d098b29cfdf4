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

use crate::{Postgres, op};

/// Jobs of one transaction, so that a long list holds no locks for long. After a failure the parts
/// before it are done; each method answers its repetition.
const PART: usize = 500;

#[async_trait]
impl Queue for Postgres {
    async fn enqueue(&self, jobs: &[AuthorizedJob]) -> Vec<Result<Pushed>> {
        let all = async { Ok(op::enqueue::all(self, jobs).await) };
        let answers = self.db.within("enqueue", all).await;
        answers.unwrap_or_else(|late| jobs.iter().map(|_| Err(late.clone())).collect())
    }

    async fn reserve(&self, request: &Reserve) -> Result<Reserved> {
        Ok(op::reserve::all(self, &[], request).await?.1)
    }

    async fn renew(&self, lease: Lease, claims: &[Claim]) -> Result<Vec<Renewed>> {
        self.db
            .within("renew", async {
                let mut answers = Vec::with_capacity(claims.len());
                for part in claims.chunks(PART) {
                    answers.extend(op::renew::all(self, lease, part).await?);
                }
                Ok(answers)
            })
            .await
    }

    async fn settle(&self, settlements: &[Settlement]) -> Result<Vec<Settled>> {
        self.db
            .within("settle", async {
                let mut answers = Vec::with_capacity(settlements.len());
                for part in settlements.chunks(PART) {
                    answers.extend(op::settle::all(self, part).await?);
                }
                Ok(answers)
            })
            .await
    }

    async fn settle_and_reserve(
        &self,
        settlements: &[Settlement],
        request: &Reserve,
    ) -> Result<(Vec<Settled>, Reserved)> {
        op::reserve::all(self, settlements, request).await
    }

    fn settles_apart(&self) -> bool {
        true
    }

    async fn sweep(&self) -> Result<Swept> {
        op::sweep::round(self).await
    }

    async fn watch(&self, queues: &[String]) -> Result<Watch> {
        Ok(self.wake.watch(&self.db, &self.frontier, queues).await)
    }

    async fn announce(&self, worker: &Worker) -> Result<()> {
        op::announce::one(self, worker).await
    }

    async fn open_own(&self) -> Result<Arc<dyn Queue>> {
        Ok(Arc::new(self.another()))
    }
}

#[async_trait]
impl Admin for Postgres {
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
        self.db
            .within("retry", async {
                let mut answers = Vec::with_capacity(jobs.len());
                for part in jobs.chunks(PART) {
                    answers.extend(op::retry::all(self, permit, part).await?);
                }
                Ok(answers)
            })
            .await
    }

    async fn cancel(&self, permit: &Permit<Cancel>, jobs: &[JobRef]) -> Result<Vec<Cancelled>> {
        self.db
            .within("cancel", async {
                let mut answers = Vec::with_capacity(jobs.len());
                for part in jobs.chunks(PART) {
                    answers.extend(op::cancel::all(self, permit, part).await?);
                }
                Ok(answers)
            })
            .await
    }

    async fn delete(&self, permit: &Permit<Delete>, jobs: &[JobRef]) -> Result<Vec<Deleted>> {
        self.db
            .within("delete", async {
                let mut answers = Vec::with_capacity(jobs.len());
                for part in jobs.chunks(PART) {
                    answers.extend(op::delete::all(self, permit, part).await?);
                }
                Ok(answers)
            })
            .await
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
