//! The judge on what operators see, and its last look at everything.

use std::collections::{BTreeMap, BTreeSet};

use jobs_core::{
    JobRef, OutcomeKind, Permit, State,
    permit::Read,
    view::{LaneCounts, Lanes, List},
};

use super::{
    judge::{Judge, Verdict, legal},
    known::Known,
    op::TENANTS,
    time::Time,
};
use crate::kit::{operator, permit};

/// Small, so that lists have several pages.
const PAGE: usize = 4;

impl Judge<'_> {
    /// Lists and counts what one tenant's permit covers, or an operator's.
    pub async fn look(&self, tenant: Option<usize>) -> Verdict {
        let permit: Permit<Read> = match tenant {
            Some(tenant) => permit(TENANTS[tenant]),
            None => operator().await,
        };
        let mut listed = BTreeSet::new();
        let mut list = List { page: PAGE, ..List::default() };
        loop {
            let page = self.store.list(&permit, &list).await;
            let page = page.map_err(|error| format!("list failed: {error}"))?;
            for view in page.jobs {
                let job = view.job.job_ref();
                legal!(listed.insert(job.clone()), "{job} is listed twice");
            }
            list.after = page.next;
            if list.after.is_none() {
                break;
            }
        }
        let mut stored = BTreeSet::new();
        for job in self.jobs.keys() {
            let found = self.store.get(&permit, job).await;
            let found = found.map_err(|error| format!("get failed: {error}"))?.is_some();
            let covered = permit.covers(&job.tenant);
            legal!(found == covered, "{job}: found {found}, covered {covered}");
            if covered {
                stored.insert(job.clone());
            }
        }
        legal!(listed == stored, "listed {listed:?}, stored in scope {stored:?}");
        self.count(&permit).await
    }

    async fn count(&self, permit: &Permit<Read>) -> Verdict {
        let since = self.clock.now();
        let counts = self.store.counts(permit, &Lanes::default()).await;
        let now = self.clock.since(since);
        let counts = counts.map_err(|error| format!("counts failed: {error}"))?;
        let mut lanes = BTreeMap::<(&str, &str), Vec<&Known>>::new();
        for known in self.jobs.values().filter(|known| permit.covers(&known.job.tenant)) {
            lanes.entry((&known.job.queue, &known.job.tenant)).or_default().push(known);
        }
        for lane in &counts.lanes {
            legal!(permit.covers(&lane.tenant), "a foreign lane is counted: {lane:?}");
            let jobs = lanes.remove(&(&*lane.queue, &*lane.tenant)).unwrap_or_default();
            legal!(fits(&jobs, lane, now), "{lane:?} is counted, its jobs are {jobs:?}");
        }
        let live = |jobs: &Vec<&Known>| jobs.iter().any(|known| known.state.is_live());
        let missing = lanes.into_iter().find(|(_, jobs)| live(jobs));
        legal!(missing.is_none(), "not counted: {missing:?}");
        Ok(())
    }

    /// Every job, known or not, is as the history left it.
    pub async fn look_at_everything(&mut self) -> Verdict {
        let mut everything = Vec::new();
        for tenant in TENANTS {
            everything.extend(self.ids.iter().map(|&id| JobRef { tenant: tenant.to_owned(), id }));
        }
        for job in everything {
            let since = self.clock.now();
            let found = self.store.get(&permit(&job.tenant), &job).await;
            let now = self.clock.since(since);
            let found = found.map_err(|error| format!("get failed: {error}"))?;
            let (record, known) = match (found, self.jobs.get(&job)) {
                (None, None) => continue,
                (Some(record), Some(known)) => (record, known),
                (found, known) => return Err(format!("{job} is {found:?}, known {known:?}")),
            };
            let view = &record.view;
            let same = jobs_core::Job { run_at: known.job.run_at, ..view.job.clone() };
            let counts = (view.attempt, record.snoozes, record.releases, view.cancel_requested);
            let right = (known.attempt, known.snoozes, known.releases, known.cancel_requested);
            let (least, most) = known.recorded;
            let fits = known.may_be(view.state, now)
                && same == known.job
                && counts == right
                && record.fence >= known.fence
                && record.holder.is_some() == (known.state == State::Running)
                && (least..=most).contains(&record.attempts.len());
            legal!(fits, "{job} is {record:?}, known {known:?}");
            let snoozed = |kind: OutcomeKind| !kind.is_recorded();
            let stray = record.attempts.iter().find(|attempt| snoozed(attempt.outcome));
            legal!(stray.is_none(), "{job} has {stray:?} on record");
        }
        Ok(())
    }
}

/// Do the counts lie between the least and the most that the jobs allow?
fn fits(jobs: &[&Known], lane: &LaneCounts, now: Time) -> bool {
    let between = |is: &dyn Fn(&Known) -> Option<bool>, counted: u64| {
        let least = jobs.iter().filter(|known| is(known) == Some(true)).count() as u64;
        let most = jobs.iter().filter(|known| is(known) != Some(false)).count() as u64;
        (least..=most).contains(&counted)
    };
    let in_line = |known: &Known| matches!(known.state, State::Scheduled | State::Ready);
    let expired = |known: &Known| known.lease.map_or(Some(false), |lease| lease.has_passed(now));
    let waits = |known: &Known| match known.state {
        State::Running => expired(known),
        _ if in_line(known) => known.due.has_passed(now),
        _ => Some(false),
    };
    let scheduled = |known: &Known| match in_line(known) {
        true => known.due.has_passed(now).map(|due| !due),
        false => Some(false),
    };
    let runs = |known: &Known| match known.state {
        State::Running => expired(known).map(|expired| !expired),
        _ => Some(false),
    };
    between(&waits, lane.waiting.number)
        && between(&scheduled, lane.scheduled.number)
        && between(&runs, lane.running.number)
        && between(&|known| Some(known.state == State::Parked), lane.parked.number)
}
