//! What the doctor looks at. It changes nothing, and looks at a bounded number of jobs.

use std::{collections::BTreeMap, time::Duration};

use jiff::SignedDuration;
use jobs_core::{
    Admin, JobRef, Permit, State, Timestamp,
    permit::Read,
    view::{Check, Count, Counts, Lanes, List, WorkerView},
};

use crate::{json::due, stop::Stop, text, verb::Session};

/// Jobs of one state that are looked at, newest first, in one queue.
const LOOKED_AT: usize = 5000;
/// Queues that are looked into.
const QUEUES: usize = 50;
/// Running jobs whose holders are looked at.
const HOLDERS: usize = 200;

/// What the store tells.
#[derive(Debug)]
pub(super) struct Facts {
    pub check: Check,
    /// The store's clock against this machine's; zero where it fits into the call's own time.
    pub clock_ahead: SignedDuration,
    pub counts: Counts,
    pub sum: Sum,
    pub oldest: Duration,
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
pub(super) struct Sum {
    pub waiting: Count,
    pub running: Count,
    pub scheduled: Count,
    pub parked: Count,
}

impl Facts {
    pub async fn gather<A: Admin>(session: &Session<A>) -> Result<Self, Stop> {
        let (store, permit) = (&session.store, session.access.permit().await?);
        let before = Timestamp::now();
        let check = store.check(&permit).await?;
        let clock_ahead = apart(check.now, before, Timestamp::now());
        let tenant = session.access.tenant.clone();
        let lanes = Lanes { queue: None, tenant };
        let counts = store.counts(&permit, &lanes).await?;
        let workers = store.workers(&permit).await?;
        let (sum, oldest) = add_up(&counts);
        let (due, next, expired) = Default::default();
        let mut facts =
            Self { check, clock_ahead, counts, sum, oldest, workers, due, next, expired };
        for queue in facts.queues(|lane| lane.waiting.number > 0) {
            facts.look_at_due(session, &permit, &queue).await?;
            facts.look_at_holders(session, &permit, &queue).await?;
        }
        for queue in facts.queues(|lane| lane.scheduled.number > 0) {
            facts.look_at_scheduled(session, &permit, &queue).await?;
        }
        Ok(facts)
    }

    /// Those with a lane that is so.
    fn queues(&self, is: impl Fn(&jobs_core::view::LaneCounts) -> bool) -> Vec<String> {
        let lanes = self.counts.lanes.iter().filter(|lane| is(lane));
        let mut queues: Vec<_> = lanes.map(|lane| lane.queue.clone()).collect();
        queues.sort_unstable();
        queues.dedup();
        queues.truncate(QUEUES);
        queues
    }

    async fn look_at_due<A: Admin>(
        &mut self,
        session: &Session<A>,
        permit: &Permit<Read>,
        queue: &str,
    ) -> Result<(), Stop> {
        let (jobs, _) = look(session, permit, queue, State::Ready, LOOKED_AT).await?;
        for view in jobs {
            let tenants = self.due.entry((queue.to_owned(), view.job.name)).or_default();
            *tenants.entry(view.job.tenant).or_default() += 1;
        }
        Ok(())
    }

    /// One that is due by now is waiting, though no sweep has moved it.
    async fn look_at_scheduled<A: Admin>(
        &mut self,
        session: &Session<A>,
        permit: &Permit<Read>,
        queue: &str,
    ) -> Result<(), Stop> {
        let (jobs, all) = look(session, permit, queue, State::Scheduled, LOOKED_AT).await?;
        let times = jobs.iter().filter_map(|view| due(view.job.run_at));
        if let Some(first) = times.filter(|at| *at > self.check.now).min() {
            self.next.insert(queue.to_owned(), (first, all));
        }
        Ok(())
    }

    async fn look_at_holders<A: Admin>(
        &mut self,
        session: &Session<A>,
        permit: &Permit<Read>,
        queue: &str,
    ) -> Result<(), Stop> {
        let (jobs, _) = look(session, permit, queue, State::Running, HOLDERS).await?;
        for view in jobs {
            let job = view.job.job_ref();
            let Some(record) = session.store.get(permit, &job).await? else { continue };
            let late = record.holder.map(|holder| text::between(holder.lease_until, record.now));
            if let Some(late) = late.filter(|late| !late.is_zero()) {
                self.expired.push((job, late));
            }
        }
        Ok(())
    }
}

/// The newest jobs of a queue in a state, and whether these are all.
async fn look<A: Admin>(
    session: &Session<A>,
    permit: &Permit<Read>,
    queue: &str,
    state: State,
    most: usize,
) -> Result<(Vec<jobs_core::view::JobView>, bool), Stop> {
    let (queue, tenant) = (Some(queue.to_owned()), session.access.tenant.clone());
    let page = most.min(1000);
    let mut list = List { queue, tenant, state: Some(state), page, ..List::default() };
    let mut jobs = Vec::new();
    loop {
        let mut page = session.store.list(permit, &list).await?;
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
