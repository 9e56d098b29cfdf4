//! Who is in line: the lanes of one queue, and which of them is next (R4, R5).
//!
//! Start-time fair queueing (Goyal, Vin, Cheng, SIGCOMM 1996). Each visit to a lane starts at a
//! virtual time and costs its deliveries divided by the lane's weight; the lane with the earliest
//! start is next. A lane that was idle starts at the queue's virtual now, so idleness earns nothing,
//! and a newcomer waits for at most one visit to each other lane.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
};

use jobs_core::{JobId, JobRef, queue::LANE_BATCH};

use super::row::Row;

/// A lane's place in line: priority first, then due time, then id.
type Place = (Reverse<i16>, i64, JobId);

/// The lanes of one queue.
#[derive(Clone, Debug, Default)]
pub(super) struct Lanes {
    by_tenant: BTreeMap<String, Lane>,
    virtual_now: u64,
    /// By name, so that the next one of the known names is found at once.
    scheduled: BTreeMap<String, BTreeSet<(i64, JobRef)>>,
}

/// The jobs in line of one tenant, by name and suspicion: unknown names cost nothing.
#[derive(Clone, Debug, Default)]
struct Lane {
    line: BTreeMap<(String, bool), BTreeSet<Place>>,
    /// When its last visit ended, in virtual time.
    finish: u64,
}

/// One delivery's cost at weight 1.
const UNIT: u64 = 1 << 20;

impl Lanes {
    /// Puts a due job in line.
    pub fn line_up(&mut self, row: &Row, flat: bool) {
        let lane = self.by_tenant.entry(row.job.tenant.clone()).or_default();
        let class = (row.job.name.clone(), row.suspect);
        let (_, due, id) = place(row);
        let priority = if flat { 0 } else { row.job.priority };
        lane.line.entry(class).or_default().insert((Reverse(priority), due, id));
    }

    /// Takes a job out of the line.
    pub fn leave(&mut self, row: &Row) {
        let class = (row.job.name.clone(), row.suspect);
        let lane = self.by_tenant.get_mut(&row.job.tenant);
        if let Some(line) = lane.and_then(|lane| lane.line.get_mut(&class)) {
            let (_, due, id) = place(row);
            if !line.remove(&place(row)) {
                line.remove(&(Reverse(0), due, id));
            }
        }
    }

    /// Remembers a job that is not due yet.
    pub fn wait(&mut self, row: &Row) {
        let name = self.scheduled.entry(row.job.name.clone()).or_default();
        name.insert((row.due, row.job_ref()));
    }

    /// Forgets it.
    pub fn wait_no_more(&mut self, row: &Row) {
        if let Some(name) = self.scheduled.get_mut(&row.job.name) {
            name.remove(&(row.due, row.job_ref()));
        }
    }

    /// What came due.
    pub fn due(&self, now: i64) -> impl Iterator<Item = JobRef> {
        let due = move |jobs: &BTreeSet<(i64, JobRef)>| {
            let due = jobs.iter().take_while(move |(due, _)| *due <= now);
            due.map(|(_, job)| job.clone()).collect::<Vec<_>>()
        };
        self.scheduled.values().flat_map(due)
    }

    /// When the next scheduled job of `names` is due.
    pub fn next_due(&self, names: &[String]) -> Option<i64> {
        let first = |name| Some(self.scheduled.get(name)?.first()?.0);
        names.iter().filter_map(first).min()
    }

    /// The lanes that have a job `may` admits.
    pub fn with_work(&self, may: impl Fn(&str, bool) -> bool) -> Vec<String> {
        let has = |(_, lane): &(&String, &Lane)| lane.head(&may).is_some();
        self.by_tenant.iter().filter(has).map(|(tenant, _)| tenant.clone()).collect()
    }

    /// When a visit to this lane starts, in virtual time. With `credit`, idleness counts.
    pub fn start(&self, tenant: &str, credit: bool) -> u64 {
        let finish = self.by_tenant.get(tenant).map_or(0, |lane| lane.finish);
        if credit { finish } else { finish.max(self.virtual_now) }
    }

    /// How long the lane's oldest admitted job has been due: what an unfair store goes by.
    pub fn oldest(&self, tenant: &str) -> i64 {
        let lane = self.by_tenant.get(tenant).into_iter();
        let firsts = lane.flat_map(|lane| lane.line.values().filter_map(|line| line.first()));
        firsts.map(|(_, due, _)| *due).min().unwrap_or(i64::MAX)
    }

    /// Takes the lane's first admitted job and says its name and whether it is suspect.
    pub fn pop(
        &mut self,
        tenant: &str,
        may: impl Fn(&str, bool) -> bool,
    ) -> Option<(JobRef, (String, bool))> {
        let lane = self.by_tenant.get_mut(tenant)?;
        let (class, place) = lane.head(&may)?;
        let (class, place) = (class.clone(), *place);
        lane.line.get_mut(&class)?.remove(&place);
        Some((JobRef { tenant: tenant.to_owned(), id: place.2 }, class))
    }

    /// Charges a visit that began at `start` and delivered `taken` jobs.
    pub fn charge(&mut self, tenant: &str, start: u64, taken: usize, weight: u32) {
        let cost = |taken: usize| taken as u64 * UNIT / u64::from(weight.max(1));
        let finish = start + cost(taken);
        // A lane alone is visited for longer than a batch; time goes on with it, or whoever comes
        // next would have the length of that visit as credit.
        let last_batch = finish.saturating_sub(cost(LANE_BATCH));
        self.virtual_now = self.virtual_now.max(start).max(last_batch);
        if let Some(lane) = self.by_tenant.get_mut(tenant) {
            lane.finish = finish;
        }
    }
}

impl Lane {
    fn head(&self, may: impl Fn(&str, bool) -> bool) -> Option<(&(String, bool), &Place)> {
        let known = self.line.iter().filter(|((name, suspect), _)| may(name, *suspect));
        known.filter_map(|(class, line)| Some((class, line.first()?))).min_by_key(|head| head.1)
    }
}

fn place(row: &Row) -> Place {
    (Reverse(row.job.priority), row.due, row.job.id)
}
