//! Sweep (X1): takes back what was silent, promotes what came due, prunes history (S5).

use jobs_core::{
    Cause, JobRef, OutcomeKind, State,
    queue::{Lost, STUB, Swept},
    retention::Retention,
    state::{Event, Step, step},
    time::delay_millis,
};

use super::store::Store;
use crate::broken::Fault;

/// Most that one sweep does of each.
const BATCH: usize = 500;
/// How long counts by minute are kept.
const HOUR: i64 = 3_600_000;

impl Store {
    /// One bounded round.
    pub fn sweep(&mut self, retention: Retention) -> Swept {
        let now = self.clock.now();
        let silent = self.leases.iter().take_while(|(until, _)| {
            let since_start = self.faulty(Fault::SweepTakesRenewed);
            since_start || *until <= now
        });
        let batch = if self.faulty(Fault::SweepUnbounded) { usize::MAX } else { BATCH };
        let seen = silent.filter(|(_, job)| self.sees(job, now));
        let silent: Vec<_> = seen.take(batch).map(|(_, job)| job.clone()).collect();
        let lost: Vec<_> = silent.iter().filter_map(|job| self.take_back(job, now)).collect();
        let promoted = self.promote(None, now, BATCH);
        let pruned = self.prune(retention, now);
        self.reserves.retain(|_, (at, _)| *at + HOUR > now);
        self.minutes = self.minutes.split_off(&(now - HOUR, String::new(), String::new()));
        let more = [silent.len(), promoted, pruned].contains(&BATCH);
        Swept { lost, promoted, pruned, more }
    }

    /// A sweep sees all tenants, paused or not.
    fn sees(&self, job: &JobRef, now: i64) -> bool {
        let queue = self.rows.get(job).map_or("", |row| &row.job.queue);
        let paused = self.settings.paused_until(queue, &job.tenant, now).is_some();
        let first = self.rows.keys().next().is_some_and(|first| first.tenant == job.tenant);
        (first || !self.faulty(Fault::SweepOfOneTenant))
            && !(paused && self.faulty(Fault::PausedLaneNotSwept))
    }

    fn take_back(&mut self, job: &JobRef, now: i64) -> Option<Lost> {
        let row = self.rows.get(job)?;
        let mut facts = row.facts(now);
        facts.expired |= self.faulty(Fault::SweepTakesRenewed);
        facts.attempts_left |= self.faulty(Fault::LastAttemptGoesOn);
        facts.cancel_requested &= !self.faulty(Fault::SweepForgetsTheCancel);
        let Step::To(state) = step(row.state, Event::LoseLease, facts) else { return None };
        let (queue, name, attempt) = (row.job.queue.clone(), row.job.name.clone(), row.attempt);
        self.lose(job, state, now);
        Some(Lost { job: job.clone(), queue, name, attempt, state })
    }

    /// The holder was silent: its attempt is on record as lost, its claim stale.
    pub fn lose(&mut self, job: &JobRef, state: State, now: i64) {
        let cause = Cause::new("the lease ran out without a renewal");
        self.end_run(job, state, OutcomeKind::Lost, Some(&cause), now);
        let faulty = self.faults();
        self.change(job, |row| {
            if faulty(Fault::SweptClaimBelieved) {
                row.settled = Some(OutcomeKind::Done);
            } else {
                row.disown();
            }
        });
    }

    fn prune(&mut self, retention: Retention, now: i64) -> usize {
        let mut stale = Vec::new();
        for ((_, state), jobs) in &self.ended {
            let (age, number) = match state {
                State::Done => (retention.done, retention.done_per_queue),
                _ => (retention.cancelled, u64::MAX),
            };
            let ageless = self.faulty(Fault::HistoryIgnoresAge);
            let oldest_kept = if ageless { i64::MIN } else { now - delay_millis(age) };
            let number = if self.faulty(Fault::HistoryIgnoresNumber) { u64::MAX } else { number };
            let too_many = (jobs.len() as u64).saturating_sub(number);
            let last = usize::try_from(too_many).unwrap_or_default().checked_sub(1);
            let last = last.filter(|_| self.faulty(Fault::TiesLeaveTogether));
            let with_it = last.and_then(|last| jobs.iter().nth(last)).map(|(ended, _)| *ended);
            let old = jobs.iter().enumerate().take_while(|(place, (ended, _))| {
                *ended <= oldest_kept.max(with_it.unwrap_or(i64::MIN)) || (*place as u64) < too_many
            });
            stale.extend(old.map(|(_, (_, job))| job.clone()));
        }
        stale.truncate(BATCH);
        for job in &stale {
            self.change(job, |row| row.stub = true);
        }
        if self.faulty(Fault::ParkedPruned) {
            self.rows.retain(|_, row| row.state != State::Parked);
        }
        let stub = if self.faulty(Fault::NoStub) { 0 } else { delay_millis(STUB) };
        let over = self.stubs.iter().take_while(|(ended, _)| ended + stub <= now);
        for job in over.map(|(_, job)| job.clone()).collect::<Vec<_>>() {
            self.remove(&job);
        }
        stale.len()
    }
}
