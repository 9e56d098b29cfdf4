//! A handle on the model: both traits, each method one locked step.

use std::sync::{
    Arc, Mutex, MutexGuard, PoisonError,
    atomic::{AtomicUsize, Ordering},
};

use async_trait::async_trait;
use jobs_core::{
    Admin, AuthorizedJob, Claim, Error, ErrorKind, JobRef, Permit, Queue, Result, Settled,
    Settlement,
    admin::{Cancelled, Deleted, LaneChange, LaneRef, Retried, Tuned},
    permit::{Cancel, Delete, Read, Retry, Tune},
    queue::{Lease, Pushed, Renewed, Reserve, Reserved, Swept, Worker},
    retention::Retention,
    share::Sharing,
    view::{Check, Counts, JobRecord, Lanes, List, Page, WorkerView},
    wake::Watch,
};

use super::store::Store;
use crate::broken::{Fault, Gap};

/// A store in memory, as one process holds it.
#[derive(Clone, Debug)]
pub struct Handle {
    shared: Arc<Shared>,
    retention: Retention,
    /// Concurrent single pushes share a step, as they share a statement in a driver (P7).
    pushes: Arc<Pushes>,
    /// Round trips left until the connection breaks once.
    cut: Option<Arc<AtomicUsize>>,
}

type Pushes = Sharing<AuthorizedJob, Result<Pushed>>;

/// Most pushes of one step.
const SHARED: usize = 1000;

/// What all handles of one namespace share.
#[derive(Debug)]
pub(super) struct Shared {
    store: Mutex<Store>,
    fault: Option<Fault>,
    gap: Gap,
}

impl Shared {
    pub fn new(fault: Option<Fault>) -> Self {
        Self { store: Mutex::new(Store::new(fault)), fault, gap: Gap::default() }
    }

    /// The store, locked.
    pub fn store(&self) -> MutexGuard<'_, Store> {
        // A panic under this lock is a defect of the model that fails its case anyway.
        self.store.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Handle {
    pub(super) fn new(shared: Arc<Shared>, retention: Retention) -> Self {
        Self { shared, retention, pushes: Arc::new(Sharing::new(SHARED)), cut: None }
    }

    pub(super) fn cut_after(self, round_trips: usize) -> Self {
        Self { cut: Some(Arc::new(AtomicUsize::new(round_trips))), ..self }
    }

    async fn push_all(&self, jobs: Vec<AuthorizedJob>) -> Vec<Result<Pushed>> {
        let push = |store: &mut Store| jobs.iter().map(|job| store.push(job)).collect::<Vec<_>>();
        match self.step("enqueue", push).await {
            Ok(answers) => answers.into_iter().map(Ok).collect(),
            Err(error) => jobs.iter().map(|_| Err(error.clone())).collect(),
        }
    }

    /// One round trip: a step of the store, whose answer a cut connection loses.
    async fn step<T>(
        &self,
        operation: &'static str,
        step: impl FnOnce(&mut Store) -> T + Send,
    ) -> Result<T> {
        if self.shared.fault.and_then(Fault::race) == Some(operation) {
            // Reads, lets another writer do the same, and writes what it read.
            let stale = self.shared.store().clone();
            self.shared.gap.meet().await;
            *self.shared.store() = stale;
        }
        let answer = step(&mut self.shared.store());
        let left = self.cut.as_ref().map(|left| left.fetch_sub(1, Ordering::Relaxed));
        if left == Some(1) {
            return Err(Error::new(ErrorKind::Unavailable, operation, "the connection was cut"));
        }
        Ok(answer)
    }
}

#[async_trait]
impl Queue for Handle {
    async fn enqueue(&self, jobs: &[AuthorizedJob]) -> Vec<Result<Pushed>> {
        match jobs {
            // A store that is broken on purpose breaks between two pushes, so they stay two.
            [job] if self.shared.fault.is_none() => {
                let push = |jobs| self.push_all(jobs);
                vec![self.pushes.call(job.clone(), push).await]
            }
            _ => self.push_all(jobs.to_vec()).await,
        }
    }

    async fn reserve(&self, request: &Reserve) -> Result<Reserved> {
        if request.most() == 0 {
            return Ok(Reserved::default());
        }
        self.step("reserve", |store| store.reserve(request)).await
    }

    async fn renew(&self, lease: Lease, claims: &[Claim]) -> Result<Vec<Renewed>> {
        let renew =
            |store: &mut Store| claims.iter().map(|claim| store.renew(claim, lease)).collect();
        self.step("renew", renew).await
    }

    async fn settle(&self, settlements: &[Settlement]) -> Result<Vec<Settled>> {
        self.step("settle", |store| store.settle_all(settlements)).await
    }

    async fn settle_and_reserve(
        &self,
        settlements: &[Settlement],
        request: &Reserve,
    ) -> Result<(Vec<Settled>, Reserved)> {
        let both = |store: &mut Store| {
            let settled = store.settle_all(settlements);
            let none = request.most() == 0;
            (settled, if none { Reserved::default() } else { store.reserve(request) })
        };
        self.step("settle_and_reserve", both).await
    }

    async fn sweep(&self) -> Result<Swept> {
        self.step("sweep", |store| store.sweep(self.retention)).await
    }

    async fn watch(&self, queues: &[String]) -> Result<Watch> {
        let receivers = self.step("watch", |store| store.bell.watch(queues)).await?;
        Ok(Watch::new(receivers, None))
    }

    async fn announce(&self, worker: &Worker) -> Result<()> {
        let announce = |store: &mut Store| store.workers.announce(worker, store.clock.now());
        self.step("announce", announce).await
    }

    async fn open_own(&self) -> Result<Arc<dyn Queue>> {
        Ok(Arc::new(self.clone()))
    }
}

#[async_trait]
impl Admin for Handle {
    async fn get(&self, permit: &Permit<Read>, job: &JobRef) -> Result<Option<JobRecord>> {
        self.step("get", |store| store.get(permit, job)).await
    }

    async fn list(&self, permit: &Permit<Read>, list: &List) -> Result<Page> {
        self.step("list", |store| store.list(permit, list)).await
    }

    async fn counts(&self, permit: &Permit<Read>, lanes: &Lanes) -> Result<Counts> {
        self.step("counts", |store| store.counts(permit, lanes)).await
    }

    async fn retry(&self, permit: &Permit<Retry>, jobs: &[JobRef]) -> Result<Vec<Retried>> {
        let retry = |store: &mut Store| jobs.iter().map(|job| store.retry(permit, job)).collect();
        self.step("retry", retry).await
    }

    async fn cancel(&self, permit: &Permit<Cancel>, jobs: &[JobRef]) -> Result<Vec<Cancelled>> {
        let cancel = |store: &mut Store| jobs.iter().map(|job| store.cancel(permit, job)).collect();
        self.step("cancel", cancel).await
    }

    async fn delete(&self, permit: &Permit<Delete>, jobs: &[JobRef]) -> Result<Vec<Deleted>> {
        let delete = |store: &mut Store| jobs.iter().map(|job| store.delete(permit, job)).collect();
        self.step("delete", delete).await
    }

    async fn set_lane(
        &self,
        permit: &Permit<Tune>,
        lane: &LaneRef,
        change: LaneChange,
    ) -> Result<Tuned> {
        self.step("set_lane", |store| store.set_lane(permit, lane, change)).await
    }

    async fn workers(&self, permit: &Permit<Read>) -> Result<Vec<WorkerView>> {
        self.step("workers", |store| store.alive(permit)).await
    }

    async fn check(&self, _: &Permit<Read>) -> Result<Check> {
        let check = |store: &mut Store| {
            let (name, now) = ("memory".to_owned(), store.clock.show(store.clock.now()));
            Check { store: name, schema: 1, now, findings: Vec::new() }
        };
        self.step("check", check).await
    }
}
