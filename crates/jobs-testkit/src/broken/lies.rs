//! Faults on the way in or out: the store is sound, its handle does not ask or tell the truth.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use jobs_core::{
    Admin, AuthorizedJob, Cause, Claim, JobRef, Outcome, Permit, Queue, Result, Settled,
    Settlement,
    admin::{Cancelled, Deleted, LaneChange, LaneRef, Pause, Retried, Tuned},
    permit::{Cancel, Delete, Read, Retry, Tune},
    queue::{Delivery, Lease, Pushed, Renewed, Reserve, Reserved, Swept, Worker},
    view::{Check, Counts, JobRecord, Lanes, List, Page, WorkerView},
    wake::Watch,
};
use tokio::sync::watch;

use super::Fault;
use crate::model::{Handle, Model};

/// A handle that tells one lie, or none when the fault is in its store.
#[derive(Debug)]
pub(crate) struct Liar {
    pub handle: Handle,
    pub fault: Fault,
}

impl Liar {
    fn is(&self, fault: Fault) -> bool {
        self.fault == fault
    }

    fn delivered(&self, mut reserved: Reserved) -> Reserved {
        for Delivery { job, .. } in &mut reserved.deliveries {
            match self.fault {
                Fault::MetadataDropped => job.metadata.clear(),
                Fault::FieldsAreCut => job.authorized_by.truncate(128),
                _ => {}
            }
        }
        if self.is(Fault::NextDueUntold) {
            reserved.next_due = None;
        }
        reserved
    }

    fn said(&self, settlements: &[Settlement]) -> Vec<Settlement> {
        let lie = |mut settlement: Settlement| {
            match (&mut settlement.outcome, self.fault) {
                (
                    Outcome::Retry { after, .. } | Outcome::Snooze { after },
                    Fault::DelaysIgnored,
                ) => *after = Duration::ZERO,
                (
                    Outcome::Retry { cause, .. }
                    | Outcome::Park { cause }
                    | Outcome::Cancelled { cause },
                    Fault::CausesDropped,
                ) => *cause = Cause::default(),
                (Outcome::Park { cause }, Fault::ParkRetries) => {
                    let (after, cause) = (Duration::ZERO, cause.clone());
                    settlement.outcome = Outcome::Retry { after, cause };
                }
                _ => {}
            }
            settlement
        };
        settlements.iter().cloned().map(lie).collect()
    }
}

#[async_trait]
impl Queue for Liar {
    async fn enqueue(&self, jobs: &[AuthorizedJob]) -> Vec<Result<Pushed>> {
        match self.fault {
            Fault::LastOfBatchStored => {
                let backwards: Vec<_> = jobs.iter().rev().cloned().collect();
                let mut answers = self.handle.enqueue(&backwards).await;
                answers.reverse();
                answers
            }
            Fault::BulkAnswersReversed => {
                let mut answers = self.handle.enqueue(jobs).await;
                answers.reverse();
                answers
            }
            _ => self.handle.enqueue(jobs).await,
        }
    }

    async fn reserve(&self, request: &Reserve) -> Result<Reserved> {
        let greedy = self.is(Fault::NoneAskedOneGiven) && request.most() == 0;
        let request = if greedy { &request.clone().slots(1) } else { request };
        Ok(self.delivered(self.handle.reserve(request).await?))
    }

    async fn renew(&self, lease: Lease, claims: &[Claim]) -> Result<Vec<Renewed>> {
        self.handle.renew(lease, claims).await
    }

    async fn settle(&self, settlements: &[Settlement]) -> Result<Vec<Settled>> {
        self.handle.settle(&self.said(settlements)).await
    }

    async fn settle_and_reserve(
        &self,
        settlements: &[Settlement],
        request: &Reserve,
    ) -> Result<(Vec<Settled>, Reserved)> {
        if self.is(Fault::ReserveBeforeSettle) {
            let reserved = self.reserve(request).await?;
            return Ok((self.settle(settlements).await?, reserved));
        }
        let both = self.handle.settle_and_reserve(&self.said(settlements), request).await?;
        Ok((both.0, self.delivered(both.1)))
    }

    fn settles_apart(&self) -> bool {
        self.handle.settles_apart()
    }

    async fn sweep(&self) -> Result<Swept> {
        let mut swept = self.handle.sweep().await?;
        if self.is(Fault::SweepAnswersNothing) {
            swept.lost.clear();
        }
        Ok(swept)
    }

    async fn watch(&self, queues: &[String]) -> Result<Watch> {
        match self.fault {
            Fault::WatchIsDeaf => Ok(Watch::new(Vec::new(), None)),
            Fault::WatchCriesWolf => {
                let (sender, receiver) = watch::channel(0);
                sender.send_modify(|count| *count += 1);
                Ok(Watch::new(vec![receiver], Some(Arc::new(sender))))
            }
            _ => self.handle.watch(queues).await,
        }
    }

    async fn announce(&self, worker: &Worker) -> Result<()> {
        if self.is(Fault::GoodbyesIgnored) && worker.leaving {
            return Ok(());
        }
        self.handle.announce(worker).await
    }

    async fn open_own(&self) -> Result<Arc<dyn Queue>> {
        let own = self.is(Fault::OwnStoreOpened);
        if own { Ok(Arc::new(Model::alone())) } else { self.handle.open_own().await }
    }
}

#[async_trait]
impl Admin for Liar {
    async fn get(&self, permit: &Permit<Read>, job: &JobRef) -> Result<Option<JobRecord>> {
        let mut record = self.handle.get(permit, job).await?;
        let holder = record.as_mut().and_then(|record| record.holder.as_mut());
        if let (Some(holder), true) = (holder, self.is(Fault::RenewalHidden)) {
            holder.renewed_at = holder.started_at;
        }
        let blind = self.is(Fault::OperatorSeesNothing) && permit.tenant().is_none();
        Ok(record.filter(|_| !blind))
    }

    async fn list(&self, permit: &Permit<Read>, list: &List) -> Result<Page> {
        let mut list = list.clone();
        if self.is(Fault::FiltersDoNotCombine) && list.name.is_some() {
            list.state = None;
        }
        let mut page = self.handle.list(permit, &list).await?;
        if self.is(Fault::WalkSkipsOne) && page.next.is_some() {
            page.jobs.pop();
        }
        page.complete |= self.is(Fault::PageSaysComplete);
        Ok(page)
    }

    async fn counts(&self, permit: &Permit<Read>, lanes: &Lanes) -> Result<Counts> {
        let mut counts = self.handle.counts(permit, lanes).await?;
        for lane in &mut counts.lanes {
            match self.fault {
                Fault::CountsSayExact => lane.waiting.or_more = false,
                Fault::OldestIsZero => lane.oldest = Duration::ZERO,
                _ => {}
            }
        }
        if self.is(Fault::MinutesLost) {
            counts.minutes.clear();
        }
        Ok(counts)
    }

    async fn retry(&self, permit: &Permit<Retry>, jobs: &[JobRef]) -> Result<Vec<Retried>> {
        self.handle.retry(permit, jobs).await
    }

    async fn cancel(&self, permit: &Permit<Cancel>, jobs: &[JobRef]) -> Result<Vec<Cancelled>> {
        let mut answers = self.handle.cancel(permit, jobs).await?;
        if self.is(Fault::CancelSaysRequested) {
            let cancelled = answers.iter_mut().filter(|answer| **answer == Cancelled::Cancelled);
            cancelled.for_each(|answer| *answer = Cancelled::Requested);
        }
        Ok(answers)
    }

    async fn delete(&self, permit: &Permit<Delete>, jobs: &[JobRef]) -> Result<Vec<Deleted>> {
        self.handle.delete(permit, jobs).await
    }

    async fn set_lane(
        &self,
        permit: &Permit<Tune>,
        lane: &LaneRef,
        mut change: LaneChange,
    ) -> Result<Tuned> {
        if let (Some(Pause::For(_)), true) = (change.pause, self.is(Fault::PauseHasNoEnd)) {
            change.pause = Some(Pause::On);
        }
        self.handle.set_lane(permit, lane, change).await
    }

    async fn workers(&self, permit: &Permit<Read>) -> Result<Vec<WorkerView>> {
        self.handle.workers(permit).await
    }

    async fn check(&self, permit: &Permit<Read>) -> Result<Check> {
        let mut check = self.handle.check(permit).await?;
        if self.is(Fault::CheckCriesWolf) {
            check.findings.push("a wolf".to_owned());
        }
        Ok(check)
    }
}
