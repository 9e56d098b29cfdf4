//! Operators' verbs: retry, cancel, delete, tune (A3, A6).

use jobs_core::{
    JobRef, KeyScope, Permit, State,
    admin::{Cancelled, Deleted, LaneChange, LaneRef, Retried, Tuned},
    names::{is_name, is_tenant},
    permit::{Cancel, Delete, Retry, Tune},
    state::{Event, Step, step},
};

use super::{
    row::{Did, Row},
    store::Store,
};
use crate::broken::Fault;

impl Store {
    /// The row, if it is stored and in scope: a foreign id is looked up like an unknown one (G6).
    pub fn in_scope<V>(&self, permit: &Permit<V>, job: &JobRef, unless: Fault) -> Option<&Row> {
        let covered = permit.covers(&job.tenant) || self.faulty(unless);
        self.rows.get(job).filter(|row| covered && !row.stub)
    }

    /// Back in line, due now, attempts from the start.
    pub fn retry(&mut self, permit: &Permit<Retry>, job: &JobRef) -> Retried {
        let now = self.clock.now();
        let row = self.in_scope(permit, job, Fault::ForeignIdRetried);
        let Some(row) = row else { return Retried::Unknown };
        let Step::To(state) = step(row.state, Event::OperatorRetry, row.facts(now)) else {
            return Retried::NotRetryable(row.state);
        };
        let wanted = row.job.key.as_ref().filter(|key| key.scope == KeyScope::UntilFinished);
        if let (Some(key), false) = (wanted, row.holds_key) {
            let holder = self.keys.get(&self.key_of(&job.tenant, &key.text));
            if let Some(row) = holder.and_then(|holder| self.rows.get(holder)) {
                return Retried::KeyHeld(row.job.id, row.state);
            }
        }
        let (did, faulty) = (self.did("retry", permit.by(), now), self.faults());
        self.change(job, |row| {
            (row.state, row.due, row.finished_at) = (state, now, None);
            row.attempt *= u32::from(faulty(Fault::RetryKeepsAttempts));
            row.verb = did;
            if faulty(Fault::RetryForgetsHistory) {
                row.attempts.clear();
            }
        });
        Retried::Retried
    }

    /// Ends it at once where nobody runs it, else asks its holder.
    pub fn cancel(&mut self, permit: &Permit<Cancel>, job: &JobRef) -> Cancelled {
        let now = self.clock.now();
        let row = self.in_scope(permit, job, Fault::ForeignIdCancelled);
        let Some(row) = row else { return Cancelled::Unknown };
        let (was, mut facts) = (row.state, row.facts(now));
        facts.expired |= self.faulty(Fault::RunningCancelledAtOnce);
        let did = self.did("cancel", permit.by(), now);
        match step(was, Event::OperatorCancel, facts) {
            Step::CancelRequested => {
                self.change(job, |row| (row.cancel_requested, row.verb) = (true, did));
                Cancelled::Requested
            }
            Step::To(state) => {
                if was == State::Running {
                    self.lose(job, state, now);
                }
                self.change(job, |row| {
                    (row.state, row.finished_at, row.verb) = (state, Some(now), did);
                    row.fence += 1;
                    row.disown();
                });
                Cancelled::Cancelled
            }
            Step::Gone | Step::Refused => Cancelled::NotLive(was),
        }
    }

    /// Removes it, unless it runs under a valid lease.
    pub fn delete(&mut self, permit: &Permit<Delete>, job: &JobRef) -> Deleted {
        let now = self.clock.now();
        let row = self.in_scope(permit, job, Fault::ForeignIdDeleted);
        let Some(row) = row else { return Deleted::Unknown };
        let mut facts = row.facts(now);
        facts.expired |= self.faulty(Fault::RunningDeleted);
        match step(row.state, Event::OperatorDelete, facts) {
            Step::Gone => {
                self.remove(job);
                Deleted::Deleted
            }
            _ => Deleted::Running,
        }
    }

    /// Changes a lane's settings; a tenant only pauses its own.
    pub fn set_lane(&mut self, permit: &Permit<Tune>, lane: &LaneRef, change: LaneChange) -> Tuned {
        let tenant = permit.tenant().or(lane.tenant.as_deref());
        let may_weigh = permit.tenant().is_none() || self.faulty(Fault::TenantsWeigh);
        let weight_fits = change.weight.is_none_or(|weight| (1..=100).contains(&weight));
        if change.weight.is_some() && !may_weigh {
            return Tuned::NotAllowed;
        }
        if !weight_fits || !is_name(&lane.queue) || !tenant.is_none_or(is_tenant) {
            return Tuned::OutOfBounds;
        }
        let Some(verb) = change.verb() else { return Tuned::Tuned };
        let known = |row: &Row| {
            row.job.queue == lane.queue && tenant.is_none_or(|tenant| tenant == row.job.tenant)
        };
        if !change.sets()
            && !self.settings.has(&lane.queue, tenant)
            && !self.rows.values().any(known)
        {
            return Tuned::Tuned;
        }
        let now = self.clock.now();
        let did = self.did(verb, permit.by(), now);
        if tenant.is_none() && self.faulty(Fault::QueuePauseMissesNewcomers) {
            let lanes = self.queues.get(&lane.queue).map(|lanes| lanes.with_work(|_, _| true));
            for tenant in lanes.into_iter().flatten() {
                self.settings.change(&lane.queue, Some(&tenant), change, now, did.clone());
            }
            return Tuned::Tuned;
        }
        self.settings.change(&lane.queue, tenant, change, now, did);
        self.bell.ring(&lane.queue);
        Tuned::Tuned
    }

    fn did(&self, verb: &'static str, by: &str, at: i64) -> Option<Did> {
        let by = by.to_owned();
        (!self.faulty(Fault::WhoDidItUnrecorded)).then_some(Did { verb, by, at })
    }
}
