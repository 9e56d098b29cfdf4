//! What a worker has in hand: claims it holds, slots that run, jobs held ahead.
//!
//! A claim and its slot are two things: after a lost lease the claim is gone and the handler may
//! still hold its slot; after the handler returned, the slot is free and the claim waits for its
//! settlement. A slot is free again only when its handler has really ended.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use tokio::{task::AbortHandle, time::Instant};
use tokio_util::sync::CancellationToken;

use crate::{
    Claim, Job, JobRef,
    worker::{config::STUCK_AFTER, execute::Started, speed::Speed, verdict::Why},
};

/// A run that goes on longer than this keeps its slot out of the count of those that held jobs
/// can expect.
const LONG: Duration = Duration::from_millis(100);
/// How long a job that runs alone keeps others from being reserved: a job that kills its process
/// does so early, and a long one must not stop the worker.
const ALONE: Duration = Duration::from_secs(5);
/// The same for one that has more attempts.
const SUSPECT: Duration = Duration::from_secs(1);

/// What a worker has in hand.
#[derive(Default)]
pub(crate) struct Table {
    last: u64,
    pub claims: HashMap<u64, Held>,
    pub slots: HashMap<u64, Slot>,
    /// Claims that wait for a slot, in order.
    pub line: VecDeque<u64>,
    /// A claim that waits until it is the only [`alone`](Held::alone) one.
    pub alone: Option<u64>,
    /// Leave one slot free: a reserve is about to ask for it.
    pub keep: bool,
    pub speed: Speed,
    /// Jobs that lost their lease here, each until it was seen again or some worker surely has it.
    pub lost: Vec<(JobRef, Instant)>,
}

/// One claim in hand.
pub(crate) struct Held {
    pub claim: Claim,
    pub job: Arc<Job>,
    pub attempt: u32,
    /// Its last attempt was lost and this is the last it has: should it kill the process too,
    /// no other job may go down with it for the last time.
    pub alone: bool,
    pub suspect: bool,
    /// By the monotonic clock; nobody else can have the job before.
    pub trusted_until: Instant,
    pub phase: Phase,
    pub delivered: Instant,
    pub dispatched: Option<Instant>,
    pub started: Option<Instant>,
    pub ended: Option<Instant>,
}

impl Held {
    /// Deliveries before it is parked.
    pub fn max_attempts(&self) -> u32 {
        self.job.max_attempts.unwrap_or(crate::retry::DEFAULT_MAX_ATTEMPTS)
    }

    /// Is this the last attempt it has?
    pub fn is_last(&self) -> bool {
        self.attempt >= self.max_attempts()
    }
}

/// Where a claim in hand is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Waiting for a slot.
    Waiting,
    /// In a slot.
    Running,
    /// Waiting for the store to take its settlement.
    Returned,
}

/// One handler that has not ended.
pub(crate) struct Slot {
    pub job: Arc<Job>,
    pub abort: AbortHandle,
    pub stop: CancellationToken,
    pub started: Started,
    pub since: Instant,
    pub timeout: Option<Duration>,
    /// Why and when it was told to end.
    pub told: Option<(Why, Instant)>,
    pub dropped: bool,
    /// Its claim, where it lost its lease: what became of the run is known when the handler ends.
    pub lost: Option<Held>,
}

impl Slot {
    /// Was it told to end long ago, and has not?
    pub fn is_stuck(&self, now: Instant) -> bool {
        self.told.is_some_and(|(_, at)| now >= at + STUCK_AFTER)
    }
}

impl Table {
    /// The number of a new run.
    pub fn next(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    /// Does a suspect keep others from being reserved? A delivery is an attempt, so what is in
    /// hand when one kills the process has spent it, started or not.
    pub fn is_closed(&self, now: Instant) -> bool {
        self.claims.values().any(|held| match held.phase {
            _ if held.alone => now < held.delivered + ALONE,
            Phase::Waiting | Phase::Running => held.suspect && now < held.delivered + SUSPECT,
            Phase::Returned => false,
        })
    }

    /// May the claim that waits to be alone start? Whichever of two suspects kills the process,
    /// it must not take the other's last attempt along; a result counts once the store has it.
    pub fn may_start_alone(&self, run: u64, now: Instant) -> bool {
        let in_the_way = |held: &Held| match held.phase {
            Phase::Waiting | Phase::Returned => held.alone,
            Phase::Running => held.suspect && now < held.delivered + ALONE,
        };
        !self.claims.iter().any(|(other, held)| *other != run && in_the_way(held))
    }

    /// Takes the next of the line that may start: no suspect while one that must be alone is in
    /// hand.
    pub fn next_in_line(&mut self, now: Instant) -> Option<u64> {
        let ran_long = |held: &Held| held.phase == Phase::Running && now >= held.delivered + ALONE;
        if !self.claims.values().any(|held| held.alone && !ran_long(held)) {
            return self.line.pop_front();
        }
        let suspect = |run: &u64| self.claims.get(run).is_some_and(|held| held.suspect);
        let next = self.line.iter().position(|run| !suspect(run))?;
        self.line.remove(next)
    }

    /// Takes out of the line what is on its last attempt: without a slot it would spend it, and
    /// be parked, if this process died. Their names are held ahead again after new measurements.
    pub fn last_in_line(&mut self) -> Vec<u64> {
        let last = |run: &u64| self.claims.get(run).is_some_and(Held::is_last);
        let (last, line): (Vec<u64>, Vec<u64>) = self.line.iter().copied().partition(last);
        if !last.is_empty() {
            self.line = line.into();
        }
        for run in &last {
            if let Some(held) = self.claims.get(run).filter(|held| !held.suspect) {
                self.speed.forget(&held.job.name);
            }
        }
        last
    }

    /// How many jobs to hold ahead: none while a suspect runs, which may take them along.
    pub fn ahead(&self, concurrency: usize, now: Instant) -> usize {
        if self.claims.values().any(|held| held.suspect) {
            return 0;
        }
        let long = self.slots.values().filter(|slot| now >= slot.since + LONG).count();
        self.speed.ahead(concurrency.saturating_sub(long))
    }

    /// Is it time to leave a slot for the next reserve, of `waiting` jobs held ahead and `target` at
    /// most? Every reserve keeps one for what it brings, so that slow jobs behind an endless backlog of
    /// quick ones are not passed over, and none of them is held idle. Late, because a reserve's fixed cost
    /// is that of 40 jobs: at a half, PostgreSQL drained 36,000 jobs a second with 50 slots, and 39,000 so.
    pub fn keeps(&self, waiting: usize, target: usize) -> bool {
        waiting <= target / 16 && target > 0
    }

    /// This job lost its lease here, and is somebody's again at `until`.
    pub fn lost(&mut self, job: JobRef, now: Instant, until: Instant) {
        self.lost.retain(|(_, until)| now < *until);
        self.lost.push((job, until));
    }

    /// This job is in hand again, or the sweep has answered it.
    pub fn found(&mut self, job: &JobRef) {
        self.lost.retain(|(lost, _)| lost != job);
    }

    /// Jobs that lost their lease here and are still nobody's, as far as this worker knows.
    pub fn still_lost(&self, now: Instant) -> usize {
        self.lost.iter().filter(|(_, until)| now < *until).count()
    }

    /// Handlers that were told to end and did not.
    pub fn stuck(&self, now: Instant) -> usize {
        self.slots.values().filter(|slot| slot.is_stuck(now)).count()
    }

    /// Claims in this phase.
    pub fn in_phase(&self, phase: Phase) -> Vec<u64> {
        let found = self.claims.iter().filter(|(_, held)| held.phase == phase);
        found.map(|(run, _)| *run).collect()
    }
}
