//! What is stored: rows by identity, and beside them the structures that a verb looks into.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
};

use jobs_core::{JobRef, KeyScope, Nonce, State, wake::Bell};

use super::{clock::Clock, lanes::Lanes, row::Row, settings::Settings, workers::Workers};
use crate::broken::Fault;

/// One namespace. Every method is one atomic step, because its callers hold its lock.
#[derive(Clone, Debug)]
pub(super) struct Store {
    pub clock: Clock,
    pub bell: Arc<Bell>,
    pub fault: Option<Fault>,
    /// `(tenant, id)` is identity (P2).
    pub rows: BTreeMap<JobRef, Row>,
    /// Who holds a key: by tenant and text (P3).
    pub keys: HashMap<(String, String), JobRef>,
    /// By queue: what is in line and what is not due yet.
    pub queues: BTreeMap<String, Lanes>,
    /// The running jobs, by the end of their lease.
    pub leases: BTreeSet<(i64, JobRef)>,
    /// History, by queue and state, oldest first.
    pub ended: BTreeMap<(String, State), BTreeSet<(i64, JobRef)>>,
    /// What is left of pruned history, oldest first.
    pub stubs: BTreeSet<(i64, JobRef)>,
    /// What each reserve took, and when (R3).
    pub reserves: HashMap<Nonce, (i64, Vec<JobRef>)>,
    pub settings: Settings,
    /// Finished and failed, by minute, queue and tenant.
    pub minutes: BTreeMap<(i64, String, String), (u64, u64)>,
    pub workers: Workers,
}

impl Store {
    pub fn new(fault: Option<Fault>) -> Self {
        Self {
            clock: Clock::start(),
            bell: Arc::default(),
            fault,
            rows: BTreeMap::new(),
            keys: HashMap::new(),
            queues: BTreeMap::new(),
            leases: BTreeSet::new(),
            ended: BTreeMap::new(),
            stubs: BTreeSet::new(),
            reserves: HashMap::new(),
            settings: Settings::default(),
            minutes: BTreeMap::new(),
            workers: Workers::default(),
        }
    }

    /// Is this promise the one that a broken store does not keep?
    pub fn faulty(&self, fault: Fault) -> bool {
        self.fault == Some(fault)
    }

    /// The same, to be asked while a row is being changed.
    pub fn faults(&self) -> impl Fn(Fault) -> bool + Copy + use<> {
        let broken = self.fault;
        move |fault| broken == Some(fault)
    }

    /// Stores a new row.
    pub fn insert(&mut self, row: Row) {
        let job = row.job_ref();
        self.rows.insert(job.clone(), row);
        self.change(&job, |_| ());
    }

    /// Changes a row and moves it to where its new state is looked for. The only way to change one.
    pub fn change<T>(&mut self, job: &JobRef, with: impl FnOnce(&mut Row) -> T) -> Option<T> {
        let mut row = self.rows.remove(job)?;
        self.take_out(&row);
        let answer = with(&mut row);
        self.keep_or_free_the_key(&mut row);
        self.put_in(&row);
        self.rows.insert(job.clone(), row);
        Some(answer)
    }

    /// Removes a row, its key and its history.
    pub fn remove(&mut self, job: &JobRef) {
        if let Some(row) = self.rows.remove(job) {
            self.take_out(&row);
            self.free_key(&row);
        }
    }

    fn put_in(&mut self, row: &Row) {
        let job = row.job_ref();
        match (row.state, &row.lease, row.finished_at) {
            (State::Scheduled, ..) => self.queue(row).wait(row),
            (State::Ready, ..) => {
                let flat = self.faulty(Fault::PriorityIgnored);
                self.queue(row).line_up(row, flat);
                if !self.faulty(Fault::WakeUpLost) {
                    self.bell.ring(&row.job.queue);
                }
            }
            (State::Running, Some(lease), _) => _ = self.leases.insert((lease.until, job)),
            (_, _, Some(at)) if row.stub => _ = self.stubs.insert((at, job)),
            (state, _, Some(at)) => _ = self.history(row, state).insert((at, job)),
            _ => {}
        }
    }

    fn take_out(&mut self, row: &Row) {
        let job = row.job_ref();
        match (row.state, &row.lease, row.finished_at) {
            (State::Scheduled, ..) => self.queue(row).wait_no_more(row),
            (State::Ready, ..) => self.queue(row).leave(row),
            (State::Running, Some(lease), _) => _ = self.leases.remove(&(lease.until, job)),
            (_, _, Some(at)) if row.stub => _ = self.stubs.remove(&(at, job)),
            (state, _, Some(at)) => _ = self.history(row, state).remove(&(at, job)),
            _ => {}
        }
    }

    /// P3: until-finished is held while live, parked included; until-started from the push to the
    /// first delivery, and never taken again.
    fn keep_or_free_the_key(&mut self, row: &mut Row) {
        let Some(key) = &row.job.key else { return };
        let waits = matches!(row.state, State::Scheduled | State::Ready);
        let holds = match key.scope {
            KeyScope::UntilStarted if self.faulty(Fault::StartedKeyTakenAgain) => waits,
            KeyScope::UntilStarted => row.holds_key && waits,
            KeyScope::UntilFinished if self.faulty(Fault::KeyFreedAtPark) => {
                row.state.is_live() && row.state != State::Parked
            }
            KeyScope::UntilFinished if self.faulty(Fault::KeyKeptAtDone) => {
                row.state.is_live() || row.state == State::Done
            }
            KeyScope::UntilFinished if self.faulty(Fault::RetryForgetsTheKey) => {
                row.holds_key && row.state.is_live()
            }
            KeyScope::UntilFinished => row.state.is_live(),
        };
        if holds {
            self.keys.insert(self.key_of(&row.job.tenant, &key.text), row.job_ref());
        } else if row.holds_key {
            self.free_key(row);
        }
        row.holds_key = holds;
    }

    fn free_key(&mut self, row: &Row) {
        if let (Some(key), true) = (&row.job.key, row.holds_key) {
            self.keys.remove(&self.key_of(&row.job.tenant, &key.text));
        }
    }

    /// Keys are a tenant's own.
    pub fn key_of(&self, tenant: &str, text: &str) -> (String, String) {
        let tenant = if self.faulty(Fault::KeysShared) { "" } else { tenant };
        (tenant.to_owned(), text.to_owned())
    }

    fn queue(&mut self, row: &Row) -> &mut Lanes {
        self.queues.entry(row.job.queue.clone()).or_default()
    }

    fn history(&mut self, row: &Row, state: State) -> &mut BTreeSet<(i64, JobRef)> {
        self.ended.entry((row.job.queue.clone(), state)).or_default()
    }

    /// Puts what came due in line, at most `most` jobs of `queue`, or of all.
    pub fn promote(&mut self, queue: Option<&str>, now: i64, most: usize) -> usize {
        let now = if self.faulty(Fault::FutureDelivered) { i64::MAX } else { now };
        let most = if self.faulty(Fault::NeverPromoted) { 0 } else { most };
        let asked = |name: &str| queue.is_none_or(|queue| queue == name);
        let queues = self.queues.iter().filter(|(name, _)| asked(name));
        let due: Vec<_> = queues.flat_map(|(_, lanes)| lanes.due(now)).take(most).collect();
        for job in &due {
            self.change(job, |row| row.state = State::Ready);
        }
        due.len()
    }
}
