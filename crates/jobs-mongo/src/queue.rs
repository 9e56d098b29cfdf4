//! The contract, method by method; what each does is in its file of `op`.

use std::sync::Arc;

use async_trait::async_trait;
use jobs_core::{
    Admin, AuthorizedJob, Claim, Error, ErrorKind, JobRef, Permit, Queue, Result, Settled,
    Settlement,
    admin::{Cancelled, Deleted, LaneChange, LaneRef, Retried, Tuned},
    permit::{Cancel, Delete, Read, Retry, Tune},
    queue::{Lease, Pushed, Renewed, Reserve, Reserved, Swept, Worker},
    view::{Check, Counts, JobRecord, Lanes, List, Page, WorkerView},
    wake::Watch,
};

use crate::{Mongo, op, options::Source};

/// Jobs of one statement. After a failure the parts before it are done; each method answers its
/// repetition.
const PART: usize = 500;

#[async_trait]
impl Queue for Mongo {
    async fn enqueue(&self, jobs: &[AuthorizedJob]) -> Vec<Result<Pushed>> {
        op::enqueue::all(self, jobs).await
    }

    async fn reserve(&self, request: &Reserve) -> Result<Reserved> {
        Ok(op::reserve::all(self, &[], request).await?.1)
    }

    async fn renew(&self, lease: Lease, claims: &[Claim]) -> Result<Vec<Renewed>> {
        if claims.is_empty() {
            return Ok(Vec::new());
        }
        self.db.within("renew", op::renew::all(self, lease, claims)).await
    }

    async fn settle(&self, settlements: &[Settlement]) -> Result<Vec<Settled>> {
        if settlements.is_empty() {
            return Ok(Vec::new());
        }
        let settled = self.db.within("settle", op::settle::all(self, settlements)).await;
        self.minutes.pass(&self.db);
        settled
    }

    async fn settle_and_reserve(
        &self,
        settlements: &[Settlement],
        request: &Reserve,
    ) -> Result<(Vec<Settled>, Reserved)> {
        let both = op::reserve::all(self, settlements, request).await;
        self.minutes.pass(&self.db);
        both
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
        if matches!(self.db.options.source, Source::Borrowed(_)) {
            let what = "a borrowed database's client is bound to its runtime: open the worker's store \
                        by a URL or by ClientOptions";
            return Err(Error::new(ErrorKind::Refused, "open_own", what));
        }
        Ok(Arc::new(self.another()))
    }
}

#[async_trait]
impl Admin for Mongo {
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
        let retry = async {
            let mut answers = Vec::with_capacity(jobs.len());
            for part in jobs.chunks(PART) {
                answers.extend(op::retry::all(self, permit, part).await?);
            }
            Ok(answers)
        };
        self.db.within("retry", retry).await
    }

    async fn cancel(&self, permit: &Permit<Cancel>, jobs: &[JobRef]) -> Result<Vec<Cancelled>> {
        let cancel = async {
            let mut answers = Vec::with_capacity(jobs.len());
            for part in jobs.chunks(PART) {
                answers.extend(op::cancel::all(self, permit, part).await?);
            }
            Ok(answers)
        };
        self.db.within("cancel", cancel).await
    }

    async fn delete(&self, permit: &Permit<Delete>, jobs: &[JobRef]) -> Result<Vec<Deleted>> {
        let delete = async {
            let mut answers = Vec::with_capacity(jobs.len());
            for part in jobs.chunks(PART) {
                answers.extend(op::delete::all(self, permit, part).await?);
            }
            Ok(answers)
        };
        self.db.within("delete", delete).await
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
