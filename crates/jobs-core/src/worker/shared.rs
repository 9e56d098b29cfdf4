//! What the stages share, and the four things that happen to a claim: taken, started, ended,
//! finished. Lives on the control thread.

use std::{
    cell::{Cell, RefCell},
    collections::VecDeque,
    sync::Arc,
};

use tokio::{sync::Notify, time::Instant};
use tokio_util::sync::CancellationToken;

use crate::{
    Context, Failure, Grant, Outcome, Queue, Settled, Settlement,
    context::Inner,
    queue::Delivery,
    retry::DEFAULT_MAX_ATTEMPTS,
    worker::{
        config::{Config, SWEEP},
        execute::{End, Executor, Message},
        metrics::Metrics,
        record::report,
        table::{Held, Phase, Slot, Table},
        verdict::{Why, verdict},
    },
};

/// What the stages share.
pub(crate) struct Shared {
    pub config: Arc<Config>,
    /// The application's handle, for what handlers push.
    pub app: Arc<dyn Queue>,
    /// The control thread's own.
    pub store: Arc<dyn Queue>,
    /// Settlements go beside the next reserve, which is asked for as soon as an answer came.
    pub apart: bool,
    pub executor: Executor,
    /// Random per process start and worker (K10).
    pub id: uuid::Uuid,
    /// The worker as it names itself in its reserves: the label and the identity.
    pub name: String,
    /// Stop reserving; handlers see it.
    pub stop: CancellationToken,
    pub table: RefCell<Table>,
    pub settlements: RefCell<VecDeque<Pending>>,
    /// There may be something to settle or to reserve.
    pub work: Notify,
    /// The clock has something to look at.
    pub taken: Notify,
    /// Something outside of this worker may have made jobs due.
    pub poke: Cell<bool>,
    /// A reserve is under way, or its answer was lost.
    pub asking: Cell<bool>,
    /// Settlements under way.
    pub settling: Cell<usize>,
    pub swept: Cell<bool>,
    /// When this worker last did something.
    pub active: Cell<Instant>,
    pub settled: Cell<u64>,
    /// Claims given up.
    pub left: Cell<usize>,
    pub metrics: Metrics,
}

/// A settlement that waits to be sent.
#[derive(Debug)]
pub(crate) struct Pending {
    pub run: u64,
    pub settlement: Settlement,
    pub refused: u32,
}

impl Shared {
    /// Takes what a reserve brought, first sent at `sent`, and starts what has a slot.
    ///
    /// A repeated reserve may answer what the first one took or what it took itself, so its leases
    /// are trusted from the first; and a slow one may have taken them as soon as it was sent. Where
    /// too little of that is left for two renewals, the jobs are given back unspent rather than
    /// started and ended at once.
    pub fn take(&self, deliveries: Vec<Delivery>, sent: Instant) {
        let left = (sent + self.config.trust()).saturating_duration_since(Instant::now());
        let stale = left < self.config.lease.length() / 2;
        let (mut give_back, took_none) = (Vec::new(), deliveries.is_empty());
        for delivery in deliveries {
            let run = self.insert(delivery, sent);
            if stale {
                give_back.push(run);
                continue;
            }
            let mut table = self.table.borrow_mut();
            let alone = table.claims.get(&run).is_some_and(|held| held.alone);
            match (alone, table.alone) {
                (false, _) => table.line.push_back(run),
                (true, None) => table.alone = Some(run),
                (true, Some(_)) => give_back.push(run),
            }
        }
        if !took_none {
            self.active.set(Instant::now());
            self.taken.notify_one();
        }
        if stale && !took_none {
            let (took, lease) = (sent.elapsed(), self.config.lease.length());
            let jobs = give_back.len();
            tracing::warn!(
                ?took,
                ?lease,
                jobs,
                "a reserve took too long to start what it brought, which is given back: a store this \
                 slow needs a longer lease"
            );
        }
        give_back.into_iter().for_each(|run| self.finish(run, Outcome::Release));
        if self.stop.is_cancelled() {
            return self.give_back_waiting();
        }
        let mut table = self.table.borrow_mut();
        let free = self.config.concurrency.saturating_sub(table.slots.len());
        let (waiting, target) = (
            table.line.len().saturating_sub(free),
            table.ahead(self.config.concurrency, Instant::now()),
        );
        // Where the next reserve goes before these have run, it needs a slot.
        table.keep = self.apart && waiting > 0 && table.keeps(waiting, target);
        drop(table);
        self.refill();
        let last = self.table.borrow_mut().last_in_line();
        last.into_iter().for_each(|run| self.finish(run, Outcome::Release));
    }

    fn insert(&self, delivery: Delivery, sent: Instant) -> u64 {
        let Delivery { claim, job, attempt, suspect } = delivery;
        let last = attempt >= job.max_attempts.unwrap_or(DEFAULT_MAX_ATTEMPTS);
        let held = Held {
            claim,
            job: Arc::new(job),
            attempt,
            alone: suspect && last,
            suspect,
            trusted_until: sent + self.config.trust(),
            phase: Phase::Waiting,
            delivered: Instant::now(),
            dispatched: None,
            started: None,
            ended: None,
        };
        let mut table = self.table.borrow_mut();
        if !table.lost.is_empty() {
            table.found(&held.job.job_ref());
        }
        let run = table.next();
        table.claims.insert(run, held);
        run
    }

    /// Starts waiting jobs in free slots.
    pub fn refill(&self) {
        let now = Instant::now();
        loop {
            let mut table = self.table.borrow_mut();
            let free = self.config.concurrency.saturating_sub(table.slots.len());
            let alone = table.alone.filter(|run| free > 0 && table.may_start_alone(*run, now));
            let next = match alone {
                Some(run) => {
                    table.alone = None;
                    run
                }
                None if free <= usize::from(table.keep) => return,
                None => match table.next_in_line(now) {
                    Some(run) => run,
                    None => return,
                },
            };
            drop(table);
            self.start(next, now);
        }
    }

    fn start(&self, run: u64, now: Instant) {
        let mut table = self.table.borrow_mut();
        // Given back or lost while it waited.
        let Some(held) = table.claims.get_mut(&run).filter(|held| held.phase == Phase::Waiting)
        else {
            return;
        };
        let name = held.job.name.clone();
        let Some(known) = self.config.handlers.get(&name) else {
            drop(table);
            tracing::error!(name, "the store delivered a job that this worker does not know");
            return self.finish(run, Outcome::Snooze { after: SWEEP });
        };
        let grant = match Grant::reissue(&held.job) {
            Ok(grant) => grant.with_payload_limit(self.config.payload_limit),
            Err(damaged) => {
                let failure = Failure::retry(format!("its stored authority is damaged: {damaged}"));
                let end = End::Returned(Err(failure));
                let outcome = self.outcome_of(held, None, end);
                drop(table);
                return self.finish(run, outcome);
            }
        };
        let stop = CancellationToken::new();
        let context = Context::new(Inner {
            grant,
            job: held.job.clone(),
            claim: held.claim.clone(),
            attempt: held.attempt,
            stop: stop.clone(),
            shutdown: self.stop.clone(),
            queue: self.app.clone(),
        });
        held.phase = Phase::Running;
        held.dispatched = Some(now);
        let job = held.job.clone();
        let handler = known.handler.clone();
        let (abort, started) = self.executor.start(run, context, move |context| handler(context));
        let timeout = self.config.timeout(&name, job.timeout);
        let slot = Slot {
            job,
            abort,
            stop,
            started,
            since: now,
            timeout,
            told: None,
            dropped: false,
            lost: None,
        };
        table.slots.insert(run, slot);
        self.metrics.busy(1);
    }

    /// A handler ended: its slot is free, and its job is settled if the claim is still held.
    pub fn ended(&self, message: Message) {
        let Message { run, ended, how } = message;
        let now = Instant::now();
        let mut table = self.table.borrow_mut();
        let Some(slot) = table.slots.remove(&run) else { return };
        let started = slot.started.get().copied().map(Instant::from_std);
        self.metrics.busy(-1);
        if slot.is_stuck(now) {
            tracing::warn!(name = slot.job.name, id = %slot.job.id, "a stuck handler ended");
        }
        if matches!(how, End::Returned(_)) {
            table.speed.ran(&slot.job.name, now - slot.since);
        }
        let why = slot.told.map(|(why, _)| why);
        if let Some(held) = slot.lost {
            let held = Held { started, ended: Some(Instant::from_std(ended)), ..held };
            let outcome = self.outcome_of(&held, why, how);
            drop(table);
            report(self, &held, &outcome, Settled::Lost);
            return self.freed(now);
        }
        let mut outcome = None;
        if let Some(held) = table.claims.get_mut(&run).filter(|held| held.phase == Phase::Running) {
            held.started = started;
            held.ended = Some(Instant::from_std(ended));
            outcome = Some(self.outcome_of(held, why, how));
        }
        drop(table);
        if let Some(outcome) = outcome {
            self.finish(run, outcome);
        }
        self.freed(now);
    }

    /// A slot is free.
    fn freed(&self, now: Instant) {
        self.active.set(now);
        self.refill();
        self.work.notify_one();
    }

    /// The outcome of a run that its handler or the clock ended.
    pub fn outcome_of(&self, held: &Held, why: Option<Why>, end: End) -> Outcome {
        let attempts = (held.attempt, held.max_attempts());
        verdict(&self.config, &held.job.name, attempts, why, held.started.is_some(), end)
    }

    /// Decides a claim's outcome; the exchange sends it.
    pub fn finish(&self, run: u64, outcome: Outcome) {
        let mut table = self.table.borrow_mut();
        let Some(held) = table.claims.get_mut(&run) else { return };
        held.phase = Phase::Returned;
        held.ended.get_or_insert_with(Instant::now);
        let settlement = Settlement { claim: held.claim.clone(), outcome };
        self.settlements.borrow_mut().push_back(Pending { run, settlement, refused: 0 });
        self.work.notify_one();
    }

    /// Gives back, unspent, what has not started.
    pub fn give_back_waiting(&self) {
        let waiting = self.table.borrow().in_phase(Phase::Waiting);
        waiting.into_iter().for_each(|run| self.finish(run, Outcome::Release));
        let mut table = self.table.borrow_mut();
        table.line.clear();
        table.alone = None;
    }

    /// Tells a run to end, once. A lost lease is lost at once: no renewal, no settlement.
    pub fn tell(&self, run: u64, why: Why) {
        let now = Instant::now();
        let mut table = self.table.borrow_mut();
        let mut lost = None;
        if why == Why::LeaseLost
            && let Some(held) = table.claims.remove(&run)
        {
            self.metrics.lease_lost(&held.job);
            let job = &held.job;
            tracing::warn!(name = job.name, id = %job.id, attempt = held.attempt, "lease lost");
            // Somebody sweeps it within that time (X2).
            table.lost(job.job_ref(), now, now + self.config.lease.length() + 2 * SWEEP);
            lost = Some(held);
        }
        let Some(slot) = table.slots.get_mut(&run) else { return };
        slot.lost = lost.or(slot.lost.take());
        let lost_later = why == Why::LeaseLost && !slot.dropped;
        if slot.told.is_none() || lost_later {
            slot.told = Some((why, now));
            slot.stop.cancel();
        }
    }

    /// Drops a run that was told to end.
    pub fn end_now(&self, run: u64) {
        if let Some(slot) = self.table.borrow_mut().slots.get_mut(&run) {
            slot.dropped = true;
            slot.abort.abort();
        }
    }
}
