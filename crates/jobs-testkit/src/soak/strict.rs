//! A handle that writes down every call that failed for good, whoever made it: no fault of a run makes
//! one that repeating does not mend. A refused push is its producer's to write down.

use std::sync::Arc;

use jobs_core::{
    Admin, AuthorizedJob, Claim, JobRef, Permit, Queue, Result, Settled, Settlement,
    admin::{Cancelled, Deleted, LaneChange, LaneRef, Retried, Tuned},
    async_trait,
    permit::{Cancel, Delete, Read, Retry, Tune},
    queue::{Lease, Pushed, Renewed, Reserve, Reserved, Swept, Worker},
    view::{Check, Counts, JobRecord, Lanes, List, Page, WorkerView},
    wake::Watch,
};

use super::ledger::{Event, Pen};

/// The handle; `S` is the store's, an operator's or a worker's own.
#[derive(Clone, Debug)]
pub struct Strict<S> {
    store: S,
    pen: Arc<Pen>,
}

impl<S> Strict<S> {
    /// On this one.
    pub fn new(store: S, pen: Arc<Pen>) -> Self {
        Self { store, pen }
    }

    fn told<T>(&self, call: &str, answer: Result<T>) -> Result<T> {
        if let Err(error) = &answer
            && !error.is_transient()
        {
            let (call, error) = (call.to_owned(), format!("{:?}: {error}", error.kind()));
            self.pen.write(Event::Refused { call, error });
        }
        answer
    }
}

#[async_trait]
impl<S: Queue> Queue for Strict<S> {
    async fn enqueue(&self, jobs: &[AuthorizedJob]) -> Vec<Result<Pushed>> {
        self.store.enqueue(jobs).await
    }
    async fn reserve(&self, request: &Reserve) -> Result<Reserved> {
        self.told("reserve", self.store.reserve(request).await)
    }
    async fn renew(&self, lease: Lease, claims: &[Claim]) -> Result<Vec<Renewed>> {
        self.told("renew", self.store.renew(lease, claims).await)
    }
    async fn settle(&self, settlements: &[Settlement]) -> Result<Vec<Settled>> {
        self.told("settle", self.store.settle(settlements).await)
    }
    async fn settle_and_reserve(
        &self,
        settlements: &[Settlement],
        request: &Reserve,
    ) -> Result<(Vec<Settled>, Reserved)> {
        let answer = self.store.settle_and_reserve(settlements, request).await;
        self.told("settle_and_reserve", answer)
    }
    fn settles_apart(&self) -> bool {
        self.store.settles_apart()
    }
    async fn sweep(&self) -> Result<Swept> {
        self.told("sweep", self.store.sweep().await)
    }
    async fn watch(&self, queues: &[String]) -> Result<Watch> {
        self.told("watch", self.store.watch(queues).await)
    }
    async fn announce(&self, worker: &Worker) -> Result<()> {
        self.told("announce", self.store.announce(worker).await)
    }
    async fn open_own(&self) -> Result<Arc<dyn Queue>> {
        let store = self.told("open_own", self.store.open_own().await)?;
        Ok(Arc::new(Strict::new(store, self.pen.clone())))
    }
}

#[async_trait]
impl<S: Admin> Admin for Strict<S> {
    async fn get(&self, permit: &Permit<Read>, job: &JobRef) -> Result<Option<JobRecord>> {
        self.told("get", self.store.get(permit, job).await)
    }
    async fn list(&self, permit: &Permit<Read>, list: &List) -> Result<Page> {
        self.told("list", self.store.list(permit, list).await)
    }
    async fn counts(&self, permit: &Permit<Read>, lanes: &Lanes) -> Result<Counts> {
        self.told("counts", self.store.counts(permit, lanes).await)
    }
    async fn retry(&self, permit: &Permit<Retry>, jobs: &[JobRef]) -> Result<Vec<Retried>> {
        self.told("retry", self.store.retry(permit, jobs).await)
    }
    async fn cancel(&self, permit: &Permit<Cancel>, jobs: &[JobRef]) -> Result<Vec<Cancelled>> {
        self.told("cancel", self.store.cancel(permit, jobs).await)
    }
    async fn delete(&self, permit: &Permit<Delete>, jobs: &[JobRef]) -> Result<Vec<Deleted>> {
        self.told("delete", self.store.delete(permit, jobs).await)
    }
    async fn set_lane(
        &self,
        permit: &Permit<Tune>,
        lane: &LaneRef,
        change: LaneChange,
    ) -> Result<Tuned> {
        self.told("set_lane", self.store.set_lane(permit, lane, change).await)
    }
    async fn workers(&self, permit: &Permit<Read>) -> Result<Vec<WorkerView>> {
        self.told("workers", self.store.workers(permit).await)
    }
    async fn check(&self, permit: &Permit<Read>) -> Result<Check> {
        self.told("check", self.store.check(permit).await)
    }
}
