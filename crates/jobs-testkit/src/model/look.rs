//! What operators see: one job, lists, counts, workers (A1, A2, A5).

use std::{collections::BTreeMap, time::Duration};

use jobs_core::{
    JobRef, Permit, State,
    job::RunAt,
    permit::Read,
    view::{
        COUNTED, COUNTED_LANES, Count, Counts, Cursor, Holder, JobRecord, JobView, LaneCounts,
        LaneSettings, Lanes, List, Minute, Page, WorkerView,
    },
};

use super::{row::Row, store::Store};
use crate::broken::Fault;

/// Most rows that one page looks at.
const LOOKED_AT: usize = 1000;
/// How far back counts by minute go.
const HOUR: i64 = 3_600_000;

/// What is counted of one lane.
#[derive(Default)]
struct Tally {
    scheduled: u64,
    waiting: u64,
    running: u64,
    parked: u64,
    oldest: i64,
}

impl Store {
    /// Everything known of one job.
    pub fn get(&self, permit: &Permit<Read>, job: &JobRef) -> Option<JobRecord> {
        let row = self.in_scope(permit, job, Fault::ForeignIdVisible)?;
        let show = |at| self.clock.show(at);
        let holder = row.lease.as_ref().map(|lease| Holder {
            worker: lease.worker.clone(),
            started_at: show(lease.started),
            renewed_at: show(lease.renewed),
            lease_until: show(lease.until),
        });
        Some(JobRecord {
            view: self.view(row),
            fence: row.fence,
            holder,
            attempts: row.attempts.iter().map(|attempt| attempt.shown(show)).collect(),
            snoozes: row.snoozes,
            releases: row.releases,
            last_verb: row.verb.as_ref().map(|did| did.shown(show)),
            now: show(self.clock.now()),
        })
    }

    /// A page, newest id first. What an index answers is skipped freely; the rest counts as looked
    /// at.
    pub fn list(&self, permit: &Permit<Read>, list: &List) -> Page {
        let most = if list.page == 0 { 100 } else { list.page.min(1000) };
        let now = self.clock.show(self.clock.now());
        let mut page = Page { jobs: Vec::new(), next: None, complete: true, now };
        let mut rows: Vec<_> =
            self.rows.values().filter(|row| self.indexed(permit, list, row)).collect();
        rows.sort_by_key(|row| std::cmp::Reverse((row.job.id, &row.job.tenant)));
        let after = list.after.as_ref().map(|Cursor(job)| (job.id, &job.tenant));
        let rest = rows
            .into_iter()
            .filter(|row| after.is_none_or(|at| (row.job.id, &row.job.tenant) < at));
        let mut last = None;
        for (looked_at, row) in rest.enumerate() {
            if page.jobs.len() == most || looked_at == LOOKED_AT {
                page.complete = page.jobs.len() == most;
                page.next = last.map(Cursor);
                break;
            }
            if filtered(list, row) && list.state.is_none_or(|state| state == row.state) {
                page.jobs.push(self.view(row));
            }
            last = Some(row.job_ref());
        }
        page
    }

    fn indexed(&self, permit: &Permit<Read>, list: &List, row: &Row) -> bool {
        let walked = self.faulty(Fault::HistoryInTheWay)
            && matches!(list.state, Some(State::Ready | State::Running));
        let covered = permit.covers(&row.job.tenant) || self.faulty(Fault::ListUnscoped);
        covered
            && !row.stub
            && list.queue.as_ref().is_none_or(|queue| *queue == row.job.queue)
            && list.tenant.as_ref().is_none_or(|tenant| *tenant == row.job.tenant)
            && (walked || list.state.is_none_or(|state| state == row.state))
    }

    fn view(&self, row: &Row) -> JobView {
        let mut job = row.job.clone();
        job.run_at = RunAt::At(self.clock.show(row.due));
        JobView {
            job,
            state: row.state,
            attempt: row.attempt,
            pushed_at: self.clock.show(row.pushed_at),
            finished_at: row.finished_at.map(|at| self.clock.show(at)),
            last_cause: row.attempts.iter().rev().find_map(|attempt| attempt.cause.clone()),
            cancel_requested: row.cancel_requested,
        }
    }

    /// Lane by lane, in one reading.
    pub fn counts(&self, permit: &Permit<Read>, lanes: &Lanes) -> Counts {
        let now = self.clock.now();
        let asked = |queue: &str, tenant: &str| {
            (permit.covers(tenant) || self.faulty(Fault::CountsUnscoped))
                && lanes.queue.as_ref().is_none_or(|asked| asked == queue)
                && lanes.tenant.as_ref().is_none_or(|asked| asked == tenant)
        };
        let mut tallies = BTreeMap::<(&str, &str), Tally>::new();
        for lane in self.settings.lanes().filter(|(queue, tenant)| asked(queue, tenant)) {
            tallies.entry(lane).or_default();
        }
        let most = if self.faulty(Fault::CountsStopAtOthers) { 20_000 } else { usize::MAX };
        let live = self.rows.values().filter(|row| row.state.is_live()).take(most);
        for row in live.filter(|row| asked(&row.job.queue, &row.job.tenant)) {
            let tally = tallies.entry((&row.job.queue, &row.job.tenant)).or_default();
            self.tally(row, now, tally);
        }
        if self.faulty(Fault::DueOffTheCapped) {
            let stopped = |tally: &mut Tally| {
                let due = tally.waiting;
                tally.scheduled = (tally.scheduled + due).min(COUNTED + 1) - due.min(COUNTED + 1);
            };
            tallies.values_mut().for_each(stopped);
        }
        let complete = tallies.len() <= COUNTED_LANES;
        let mut counted: Vec<_> = tallies.into_iter().collect();
        // Those where a job waits, when there are more than are counted.
        counted.sort_by_key(|(_, tally)| tally.waiting == 0);
        counted.truncate(COUNTED_LANES);
        counted.sort_by_key(|(lane, _)| *lane);
        let counted = counted.into_iter();
        let counted = counted.map(|((queue, tenant), tally)| LaneCounts {
            queue: queue.to_owned(),
            tenant: tenant.to_owned(),
            scheduled: Count::capped(tally.scheduled),
            waiting: Count::capped(tally.waiting),
            running: Count::capped(tally.running),
            parked: Count::capped(tally.parked),
            oldest: Duration::from_millis(tally.oldest.unsigned_abs()),
            settings: LaneSettings {
                weight: self.settings.weight(queue, tenant),
                paused_until: self
                    .settings
                    .paused_until(queue, tenant, now)
                    .map(|until| self.clock.show(until)),
                changed: self
                    .settings
                    .changed(queue, tenant)
                    .map(|did| did.shown(|at| self.clock.show(at))),
            },
        });
        let hour = self.minutes.range((now - HOUR, String::new(), String::new())..);
        let hour =
            hour.filter(|((_, queue, tenant), ended)| asked(queue, tenant) && **ended != (0, 0));
        let minutes = hour.map(|((at, queue, tenant), (finished, failed))| Minute {
            queue: queue.clone(),
            tenant: tenant.clone(),
            at: self.clock.show(*at),
            finished: *finished,
            failed: *failed,
        });
        Counts { lanes: counted.collect(), complete, minutes: minutes.collect() }
    }

    fn tally(&self, row: &Row, now: i64, tally: &mut Tally) {
        let expired = row.expired(now) && !self.faulty(Fault::ExpiredCountsAsRunning);
        let waits = match row.state {
            State::Scheduled | State::Ready => row.due <= now,
            State::Running => expired,
            State::Parked | State::Done | State::Cancelled => false,
        };
        if waits {
            tally.waiting += 1;
            tally.oldest = tally.oldest.max(now - row.due);
            return;
        }
        match row.state {
            State::Scheduled | State::Ready => tally.scheduled += 1,
            State::Running => tally.running += 1,
            State::Parked => tally.parked += 1,
            State::Done | State::Cancelled => {}
        }
    }

    /// The workers alive; their labels are the operator's business.
    pub fn alive(&self, permit: &Permit<Read>) -> Vec<WorkerView> {
        let view = |seen: &super::workers::Seen| {
            let mut worker = seen.worker.clone();
            if permit.tenant().is_some() {
                worker.label.clear();
            }
            let (since, seen) = (self.clock.show(seen.since), self.clock.show(seen.last));
            WorkerView { worker, since, seen }
        };
        self.workers.alive(self.clock.now()).map(view).collect()
    }
}

fn filtered(list: &List, row: &Row) -> bool {
    let cause = row.attempts.iter().rev().find_map(|attempt| attempt.cause.as_ref());
    list.name.as_ref().is_none_or(|name| *name == row.job.name)
        && list.id.is_none_or(|id| id == row.job.id)
        && list
            .cause
            .as_ref()
            .is_none_or(|text| cause.is_some_and(|cause| cause.as_str().contains(text.as_str())))
}
