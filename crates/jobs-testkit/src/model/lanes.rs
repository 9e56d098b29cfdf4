//! Who is in line: the lanes of one queue, and which of them is next (R4, R5).
//!
//! Start-time fair queueing (Goyal, Vin, Cheng, SIGCOMM 1996), by name: workers of one queue may
//! know different names, and only those that know a name compete for its jobs. Each name has a
//! virtual now, and each lane a finish and its last visit at each name. A lane is ahead of a name's
//! now by its *lag* there; next is the lane with the least lag among its names with work, then the
//! one longest without a visit there. A visit is charged at every *contested* name: those the
//! request knows and somebody has work of. There the visit starts at the lane's finish or the
//! name's now, whichever is later, and costs its deliveries divided by the lane's weight; now goes
//! on by the visitor's lag, at least to that start. Where all workers know the same, all names'
//! clocks go together and this is the paper's order; idleness earns nothing.
//!
//! Why P's job of name x is soon delivered (R5): x is contested while it waits, so each delivery to
//! workers that know x is charged at x, and x's now has reached the start of its visit. So no lag
//! is ever above one visit, and P's at x only shrinks until P is visited. Whoever is visited before
//! has no more lag than that. A lane that got one visit's worth has brought x's now past P's start
//! with its next one: two visits a lane at most, then P's lag is 0, and nobody is before P but who
//! has no lag either and is longer without a visit. A visited lane is that no more at any name
//! contested then; one that has also other names may come once more for each other set of known
//! names that its workers have.

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
    virtual_now: BTreeMap<String, u64>,
    visits: u64,
    /// By name, so that the next one of the known names is found at once.
    scheduled: BTreeMap<String, BTreeSet<(i64, JobRef)>>,
}

/// The jobs in line of one tenant, by name and suspicion: unknown names cost nothing.
#[derive(Clone, Debug, Default)]
struct Lane {
    line: BTreeMap<(String, bool), BTreeSet<Place>>,
    /// By name, when its last visit ended in virtual time, and the number of that visit.
    charged: BTreeMap<String, (u64, u64)>,
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

    /// The names that a lane of `open` has an admitted job of.
    pub fn contested(&self, open: &[String], may: impl Fn(&str, bool) -> bool) -> Vec<String> {
        let lanes = open.iter().filter_map(|tenant| self.by_tenant.get(tenant));
        let names: BTreeSet<_> = lanes.flat_map(|lane| lane.names(&may)).collect();
        names.into_iter().cloned().collect()
    }

    /// The lane's least lag among its names with work, and its last visit there. With `credit`,
    /// idleness counts.
    pub fn turn(&self, tenant: &str, may: impl Fn(&str, bool) -> bool, credit: bool) -> (u64, u64) {
        let Some(lane) = self.by_tenant.get(tenant) else { return (0, 0) };
        let at = |name: &String| {
            let (finish, visit) = lane.charged.get(name).copied().unwrap_or_default();
            let now = if credit { 0 } else { self.now(name) };
            (finish.saturating_sub(now), visit)
        };
        lane.names(&may).map(at).min().unwrap_or_default()
    }

    fn now(&self, name: &str) -> u64 {
        self.virtual_now.get(name).copied().unwrap_or_default()
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

    /// Charges a visit to a lane of this lag at the contested names. With `credit`, idleness counts.
    pub fn charge(
        &mut self,
        tenant: &str,
        contested: &[String],
        lag: u64,
        taken: usize,
        weight: u32,
        credit: bool,
    ) {
        self.visits += 1;
        let cost = |taken: usize| taken as u64 * UNIT / u64::from(weight.max(1));
        for name in contested {
            let now = self.now(name);
            let Some(lane) = self.by_tenant.get_mut(tenant) else { return };
            let (finish, visit) = lane.charged.entry(name.clone()).or_default();
            let start = if credit { *finish } else { (*finish).max(now) };
            (*finish, *visit) = (start + cost(taken), self.visits);
            // A lane alone is visited for longer than a batch; time goes on with it, or whoever
            // comes next would have the length of that visit as credit.
            let last_batch = finish.saturating_sub(cost(LANE_BATCH));
            let lag = if credit { 0 } else { lag };
            self.virtual_now.insert(name.clone(), (now + lag).max(start).max(last_batch));
        }
    }
}

impl Lane {
    /// The names of its admitted jobs.
    fn names(&self, may: impl Fn(&str, bool) -> bool) -> impl Iterator<Item = &String> {
        let known = self.line.iter().filter(move |((name, suspect), _)| may(name, *suspect));
        known.filter(|(_, line)| !line.is_empty()).map(|((name, _), _)| name)
    }

    fn head(&self, may: impl Fn(&str, bool) -> bool) -> Option<(&(String, bool), &Place)> {
        let known = self.line.iter().filter(|((name, suspect), _)| may(name, *suspect));
        known.filter_map(|(class, line)| Some((class, line.first()?))).min_by_key(|head| head.1)
    }
}

fn place(row: &Row) -> Place {
    (Reverse(row.job.priority), row.due, row.job.id)
}
