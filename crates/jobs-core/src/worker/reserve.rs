//! Stage: reserve. Decides when to ask which queue for how many jobs; the exchange asks.

use std::{rc::Rc, time::Duration};

use tokio::time::Instant;

use crate::{
    Nonce,
    queue::{BadRequest, Reserve, Reserved},
    retry::jittered,
    worker::{config::POLL, shared::Shared},
};

/// A worker that drains looks once more this long after its last job ended: what that job pushed
/// through another handle is visible by then (R6).
const VISIBLE: Duration = Duration::from_millis(260);
/// A driver's hint about the next due job is looked at again after this at the latest.
const LATEST_DUE: Duration = Duration::from_secs(3600);

/// An answer without jobs that says that one is due within this is not "empty", and asked for again.
const AT_ONCE: Duration = Duration::from_millis(1);

/// Decides about reserves.
pub(crate) struct Reserver {
    shared: Rc<Shared>,
    queues: Vec<Line>,
    /// The last reserve brought a job that must run alone: ask for one at a time.
    careful: bool,
    /// A reserve whose answer was lost.
    unresolved: Option<Ask>,
    /// End when nothing is left to do.
    drains: bool,
}

/// One queue, as this worker sees it.
struct Line {
    name: String,
    /// What every call asks for; checked once.
    request: Reserve,
    weight: i64,
    /// Smooth weighted round robin.
    credit: i64,
    /// Not worth asking before.
    ask_at: Instant,
    interval: Duration,
    /// When the last answer without jobs was asked for.
    empty_at: Option<Instant>,
}

/// A reserve to send.
#[derive(Clone, Debug)]
pub(crate) struct Ask {
    pub request: Reserve,
    queue: usize,
    /// When it was first sent: its leases are trusted from then.
    pub sent: Instant,
}

impl Reserver {
    pub fn new(shared: Rc<Shared>, drains: bool) -> Result<Self, BadRequest> {
        let now = Instant::now();
        let line = |(name, weight): &(String, u32)| {
            let request = Reserve::new(name, shared.config.names(), &shared.name)?;
            Ok(Line {
                name: name.clone(),
                request: request.lease(shared.config.lease),
                weight: i64::from(*weight),
                credit: 0,
                ask_at: now,
                interval: POLL.0,
                empty_at: None,
            })
        };
        let queues = shared.config.queues.iter().map(line).collect::<Result<_, BadRequest>>()?;
        Ok(Self { shared, queues, careful: false, unresolved: None, drains })
    }

    /// What to ask for now, if anything. `rides`: a settlement is sent anyway, so asking costs
    /// no round trip.
    pub fn plan(&mut self, rides: bool) -> Option<Ask> {
        let now = Instant::now();
        if let Some(ask) = self.unresolved.take() {
            // Its deliveries are known by its nonce as long as their leases last (R3).
            if now < ask.sent + self.shared.config.lease.length() {
                return Some(ask);
            }
            self.shared.asking.set(false);
        }
        if self.shared.stop.is_cancelled() {
            return None;
        }
        let wants = self.wants(now, rides);
        let config = &self.shared.config;
        let mut table = self.shared.table.borrow_mut();
        if !wants || table.is_closed(now) {
            table.keep = false;
            drop(table);
            self.shared.refill();
            return None;
        }
        let (waiting, target) = (table.line.len(), table.ahead(config.concurrency, now));
        let free = config.concurrency.saturating_sub(table.slots.len());
        if free == 0 {
            table.keep = table.keeps(waiting, target);
            return None;
        }
        let slots = if self.careful { 1 } else { free };
        let quick = table.speed.quick();
        drop(table);
        let ahead = if self.careful { 0 } else { target.saturating_sub(waiting) };
        // Only what is really asked for counts against a queue's share.
        let queue = self.turn(now)?;
        let request = self.queues.get(queue)?.request.clone().slots(slots).ahead(ahead, quick);
        self.shared.asking.set(true);
        let request = request.nonce(Nonce::random());
        Some(Ask { request, queue, sent: now })
    }

    /// Is a reserve worth its call?
    fn wants(&mut self, now: Instant, rides: bool) -> bool {
        if self.shared.poke.take() {
            self.poke(now);
        }
        let confirm_at = self.shared.active.get() + VISIBLE;
        let in_hand = !self.shared.table.borrow().claims.is_empty();
        for line in &mut self.queues {
            if self.drains && !in_hand && line.empty_at.is_none_or(|at| at < confirm_at) {
                line.ask_at = line.ask_at.min(confirm_at);
            }
        }
        rides || self.queues.iter().any(|line| line.ask_at <= now)
    }

    /// The queue whose turn it is: among those that are due, else among all.
    fn turn(&mut self, now: Instant) -> Option<usize> {
        let due = self.queues.iter().any(|line| line.ask_at <= now);
        let takes_part = |line: &Line| !due || line.ask_at <= now;
        let total: i64 = self.queues.iter().filter(|line| takes_part(line)).map(|l| l.weight).sum();
        let mut best: Option<usize> = None;
        for index in 0..self.queues.len() {
            if !takes_part(&self.queues[index]) {
                continue;
            }
            self.queues[index].credit += self.queues[index].weight;
            if best.is_none_or(|best| self.queues[best].credit < self.queues[index].credit) {
                best = Some(index);
            }
        }
        self.queues[best?].credit -= total;
        best
    }

    /// The store answered.
    pub fn answered(&mut self, ask: Ask, reserved: Reserved) {
        let now = Instant::now();
        // Counting all queues together, an idle worker asks less than once a second (N2).
        let queues = u32::try_from(self.queues.len()).unwrap_or(u32::MAX);
        let (first, last) = (POLL.0 * queues, POLL.1.max(POLL.0 * 3 / 2 * queues));
        let taken = reserved.deliveries.len();
        let Some(line) = self.queues.get_mut(ask.queue) else { return };
        // None, and due at once: the store could not say now, as where another process has the turn.
        let unsaid = reserved.next_due.is_some_and(|wait| wait <= AT_ONCE);
        if taken == 0 && unsaid {
            line.ask_at = now + AT_ONCE;
        } else if taken == 0 {
            line.empty_at = Some(ask.sent);
            line.ask_at = now + jittered(line.interval.max(first));
            line.interval = (line.interval.max(first) * 2).min(last);
        } else {
            line.interval = POLL.0;
            // A full answer says that there is more: the next is asked for at once.
            let full = taken >= ask.request.most();
            line.ask_at = if full { now } else { now + jittered(first) };
        }
        if let Some(wait) = reserved.next_due {
            line.ask_at = line.ask_at.min(now + wait.min(LATEST_DUE) + Duration::from_millis(1));
        }
        self.shared.metrics.reserved(&line.name, taken);
        self.shared.asking.set(false);
        self.careful = {
            let last = |max: Option<u32>| max.unwrap_or(crate::retry::DEFAULT_MAX_ATTEMPTS);
            let mut all = reserved.deliveries.iter();
            all.any(|job| job.suspect && job.attempt >= last(job.job.max_attempts))
        };
        self.shared.take(reserved.deliveries, ask.sent);
    }

    /// The answer is lost: the same call is repeated, so that nothing it took is forgotten.
    pub fn lost(&mut self, ask: Ask) {
        self.unresolved = Some(ask);
    }

    /// There may be work in any queue: it is asked for in this very round. A later instant than the
    /// round's would wait for the timer's next tick, 1 ms of a wake-up's 2.
    fn poke(&mut self, now: Instant) {
        for line in &mut self.queues {
            line.ask_at = now;
            line.interval = POLL.0;
        }
    }

    /// When to plan again, if nothing happens before.
    pub fn next_at(&self) -> Option<Instant> {
        if self.unresolved.is_some() {
            return Some(Instant::now());
        }
        self.queues.iter().map(|line| line.ask_at).min().filter(|_| self.can_ask())
    }

    /// Is a slot free to ask for?
    pub fn can_ask(&self) -> bool {
        let table = self.shared.table.borrow();
        let free = table.slots.len() < self.shared.config.concurrency;
        free && !self.shared.stop.is_cancelled() && !table.is_closed(Instant::now())
    }

    /// Are jobs of the names that run here quick enough to be held ahead?
    pub fn is_quick(&self, now: Instant) -> bool {
        self.shared.table.borrow().ahead(self.shared.config.concurrency, now) > 0
    }

    /// Does a reserve wait only for quick jobs, in the slots or held ahead?
    pub fn asks_soon(&self, now: Instant) -> bool {
        let table = self.shared.table.borrow();
        let (all, target) =
            (self.shared.config.concurrency, table.ahead(self.shared.config.concurrency, now));
        let waits = table.slots.len() >= all || table.line.len() > target / 2;
        !self.shared.stop.is_cancelled() && target > 0 && waits
    }

    /// Is there nothing to do, held or due, as far as the store showed since the last job ended?
    /// A stuck handler's slot is not waited for; where all are stuck, nothing more can be done.
    /// A job whose lease was lost here is waited for until it is somebody's again.
    pub fn is_idle(&self) -> bool {
        let confirm_at = self.shared.active.get() + VISIBLE;
        let confirmed = |line: &Line| line.empty_at.is_some_and(|at| at >= confirm_at);
        let table = self.shared.table.borrow();
        let (now, taken) = (Instant::now(), table.slots.len());
        let empty = table.claims.is_empty() && taken == table.stuck(now);
        let nothing_more = table.still_lost(now) == 0
            && self.shared.swept.get()
            && self.queues.iter().all(confirmed);
        let all_stuck = taken >= self.shared.config.concurrency;
        empty && self.unresolved.is_none() && (all_stuck || nothing_more)
    }
}
