//! What the doctor looks at. It changes nothing, and looks at a bounded number of jobs.

use std::{collections::BTreeMap, time::Duration};

use crate::{
    Admin, JobRef, Permit, Result, State, Timestamp,
    json::due,
    permit::Read,
    view::{Check, Count, Counts, JobRecord, JobView, LaneCounts, Lanes, List, WorkerView},
    words,
};
use jiff::SignedDuration;

/// Jobs of one state that are looked at, newest first, in one queue.
const LOOKED_AT: usize = 5000;
/// Queues that are looked into.
const QUEUES: usize = 50;
/// Running jobs whose holders are looked at.
const HOLDERS: usize = 200;

/// What the store tells.
#[derive(Debug)]
pub struct Facts {
    /// The store's own health.
    pub check: Check,
    /// The store's clock against this machine's; zero where it fits into the call's own time.
    pub clock_ahead: SignedDuration,
    /// By lane.
    pub counts: Counts,
    /// Of all lanes.
    pub sum: Sum,
    /// How long the longest-waiting has been due.
    pub oldest: Duration,
    /// Those alive.
    pub workers: Vec<WorkerView>,
    /// Due jobs that were seen, by queue and name, and how many of which tenant.
    pub due: BTreeMap<(String, String), BTreeMap<String, u64>>,
    /// When the next scheduled job that was seen is due, by queue; all were seen where it says so.
    pub next: BTreeMap<String, (Timestamp, bool)>,
    /// Running jobs past their lease, and for how long.
    pub expired: Vec<(JobRef, Duration)>,
}

/// All lanes together.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sum {
    /// Due and not running.
    pub waiting: Count,
    /// Under a lease.
    pub running: Count,
    /// Not due yet.
    pub scheduled: Count,
    /// For a person.
    pub parked: Count,
}

impl Facts {
    /// Of all lanes in scope, or one tenant's: looks at up to 5,000 jobs of each queue in which
    /// jobs wait.
    ///
    /// # Errors
    /// The store's.
    pub async fn gather<A: Admin + ?Sized>(
        store: &A,
        permit: &Permit<Read>,
        tenant: Option<&str>,
    ) -> Result<Self> {
        let lanes = Lanes { queue: None, tenant: tenant.map(str::to_owned) };
        let mut facts = Self::ask(store, permit, &lanes).await?;
        let look = Look { store, permit, tenant };
        for queue in facts.queues(|lane| lane.waiting.number > 0) {
            facts.look_at_due(look, &queue).await?;
            facts.look_at_holders(look, &queue).await?;
        }
        for queue in facts.queues(|lane| lane.scheduled.number > 0) {
            facts.look_at_scheduled(look, &queue).await?;
        }
        Ok(facts)
    }

    /// Of one job's lane, without a look at other jobs: three questions to the store.
    ///
    /// # Errors
    /// The store's.
    pub async fn of_job<A: Admin + ?Sized>(
        store: &A,
        permit: &Permit<Read>,
        record: &JobRecord,
    ) -> Result<Self> {
        let job = &record.view.job;
        let lanes = Lanes { queue: Some(job.queue.clone()), tenant: Some(job.tenant.clone()) };
        let mut facts = Self::ask(store, permit, &lanes).await?;
        let waits = matches!(record.view.state, State::Ready | State::Scheduled);
        if waits && due(job.run_at).is_none_or(|at| at <= record.now) {
            let tenants = BTreeMap::from([(job.tenant.clone(), 1)]);
            facts.due.insert((job.queue.clone(), job.name.clone()), tenants);
        }
        facts.add_holder(record);
        Ok(facts)
    }

    async fn ask<A: Admin + ?Sized>(
        store: &A,
        permit: &Permit<Read>,
        lanes: &Lanes,
    ) -> Result<Self> {
        let before = Timestamp::now();
        let check = store.check(permit).await?;
        let clock_ahead = apart(check.now, before, Timestamp::now());
        let counts = store.counts(permit, lanes).await?;
        let workers = store.workers(permit).await?;
        let (sum, oldest) = add_up(&counts);
        let (due, next, expired) = Default::default();
        Ok(Self { check, clock_ahead, counts, sum, oldest, workers, due, next, expired })
    }

    /// Those with a lane that is so.
    fn queues(&self, is: impl Fn(&LaneCounts) -> bool) -> Vec<String> {
        let lanes = self.counts.lanes.iter().filter(|lane| is(lane));
        let mut queues: Vec<_> = lanes.map(|lane| lane.queue.clone()).collect();
        queues.sort_unstable();
        queues.dedup();
        queues.truncate(QUEUES);
        queues
    }

    async fn look_at_due<A: Admin + ?Sized>(&mut self, at: Look<'_, A>, queue: &str) -> Result<()> {
        let (jobs, _) = look(at, queue, State::Ready, LOOKED_AT).await?;
        for view in jobs {
            let tenants = self.due.entry((queue.to_owned(), view.job.name)).or_default();
            *tenants.entry(view.job.tenant).or_default() += 1;
        }
        Ok(())
    }

    /// One that is due by now is waiting, though no sweep has moved it.
    async fn look_at_scheduled<A: Admin + ?Sized>(
        &mut self,
        at: Look<'_, A>,
        queue: &str,
    ) -> Result<()> {
        let (jobs, all) = look(at, queue, State::Scheduled, LOOKED_AT).await?;
        let times = jobs.iter().filter_map(|view| due(view.job.run_at));
        if let Some(first) = times.filter(|at| *at > self.check.now).min() {
            self.next.insert(queue.to_owned(), (first, all));
        }
        Ok(())
    }

    async fn look_at_holders<A: Admin + ?Sized>(
        &mut self,
        at: Look<'_, A>,
        queue: &str,
    ) -> Result<()> {
        let (jobs, _) = look(at, queue, State::Running, HOLDERS).await?;
        for view in jobs {
            let job = view.job.job_ref();
            if let Some(record) = at.store.get(at.permit, &job).await? {
                self.add_holder(&record);
            }
        }
        Ok(())
    }

    fn add_holder(&mut self, record: &JobRecord) {
        let end = record.holder.as_ref().map(|holder| holder.lease_until);
        let late = end.map(|end| words::between(end, record.now)).unwrap_or_default();
        if !late.is_zero() {
            self.expired.push((record.view.job.job_ref(), late));
        }
    }
}

/// At whose jobs, in which store, by which leave.
struct Look<'a, A: ?Sized> {
    store: &'a A,
    permit: &'a Permit<Read>,
    tenant: Option<&'a str>,
}

impl<A: ?Sized> Clone for Look<'_, A> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<A: ?Sized> Copy for Look<'_, A> {}

/// The newest jobs of a queue in a state, and whether these are all.
async fn look<A: Admin + ?Sized>(
    at: Look<'_, A>,
    queue: &str,
    state: State,
    most: usize,
) -> Result<(Vec<JobView>, bool)> {
    let (queue, tenant) = (Some(queue.to_owned()), at.tenant.map(str::to_owned));
    let page = most.min(1000);
    let mut list = List { queue, tenant, state: Some(state), page, ..List::default() };
    let mut jobs = Vec::new();
    loop {
        let mut page = at.store.list(at.permit, &list).await?;
        jobs.append(&mut page.jobs);
        list.after = page.next;
        if list.after.is_none() || jobs.len() >= most {
            return Ok((jobs, list.after.is_none()));
        }
    }
}

/// How far `now` is outside the time in which it was asked for.
fn apart(now: Timestamp, before: Timestamp, after: Timestamp) -> SignedDuration {
    if now > after {
        now.duration_since(after)
    } else {
        // A store's time is in whole milliseconds.
        now.duration_since(before)
            .saturating_add(SignedDuration::from_millis(1))
            .min(SignedDuration::ZERO)
    }
}

fn add_up(counts: &Counts) -> (Sum, Duration) {
    let mut sum = Sum::default();
    for lane in &counts.lanes {
        for (all, one) in [
            (&mut sum.waiting, lane.waiting),
            (&mut sum.running, lane.running),
            (&mut sum.scheduled, lane.scheduled),
            (&mut sum.parked, lane.parked),
        ] {
            all.number += one.number;
            all.or_more |= one.or_more || !counts.complete;
        }
    }
    (sum, counts.lanes.iter().map(|lane| lane.oldest).max().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_calls_own_time_is_no_difference() {
        let at = |millis| Timestamp::from_millisecond(millis).unwrap();
        let apart = |now| apart(at(now), at(100), at(140)).as_millis();
        assert_eq!([apart(99), apart(100), apart(120), apart(140)], [0; 4]);
        assert_eq!((apart(150), apart(89)), (10, -10));
    }
}
