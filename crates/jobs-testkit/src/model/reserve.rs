//! Reserve (R1–R8).

use std::time::Duration;

use jobs_core::{
    JobRef,
    job::RunAt,
    queue::{Delivery, LANE_BATCH, Reserve, Reserved},
    state::{Event, Step, step},
    time::after,
};

use super::{
    row::{Held, Row},
    store::Store,
};
use crate::broken::Fault;

/// The longest that [`Reserved::next_due`] says.
const HOUR: i64 = 3_600_000;

/// What a reserve may still take.
struct Wish<'a> {
    request: &'a Reserve,
    any_name: bool,
    suspects_held: bool,
    /// In all.
    most: usize,
    /// Of anything: the rest must be fit to be held ahead (R7).
    anything: usize,
}

impl Wish<'_> {
    fn may(&self, name: &str, suspect: bool) -> bool {
        let knows = |name: &str| self.request.names().iter().any(|known| known == name);
        let fits = self.anything > 0 || self.held_ahead(name, suspect);
        self.most > 0 && fits && (self.any_name || knows(name))
    }

    fn held_ahead(&self, name: &str, suspect: bool) -> bool {
        self.request.may_hold_ahead(name, suspect && !self.suspects_held)
    }

    fn took(&mut self, name: &str, suspect: bool) {
        self.most -= 1;
        if !self.held_ahead(name, suspect) {
            self.anything -= 1;
        }
    }
}

impl Store {
    /// Takes due jobs under a lease.
    pub fn reserve(&mut self, request: &Reserve) -> Reserved {
        let now = self.clock.now();
        if let Some(deliveries) = self.still_held(request, now) {
            return Reserved { deliveries, next_due: None };
        }
        self.promote(Some(request.queue()), now, usize::MAX);
        let picked = self.pick(request, now);
        if !picked.is_empty() {
            self.reserves.insert(request.nonce_of(), (now, picked.clone()));
        }
        let deliver = |job: &JobRef| self.deliver(job, request, now);
        let deliveries: Vec<_> = picked.iter().filter_map(deliver).collect();
        let next_due = self.queues.get(request.queue()).and_then(|lanes| {
            let wait = (lanes.next_due(request.names())? - now).clamp(0, HOUR);
            Some(Duration::from_millis(wait.unsigned_abs()))
        });
        let next_due = next_due.filter(|_| deliveries.len() < request.most());
        Reserved { deliveries, next_due }
    }

    /// R3: what the first call with this nonce took and still holds. Its lease counts from this
    /// call, as the worker's own clock does.
    fn still_held(&mut self, request: &Reserve, now: i64) -> Option<Vec<Delivery>> {
        if self.faulty(Fault::ReserveNotReplayable) {
            return None;
        }
        let taken = self.reserves.get(&request.nonce_of())?.1.clone();
        let held = taken.iter().filter_map(|job| {
            let nonce = request.nonce_of();
            let row = self.rows.get(job)?;
            (row.lease.is_some() && row.nonce == Some(nonce)).then_some(())?;
            self.change(job, |row| extend(row, request.leased_for().length(), now));
            self.delivery(job)
        });
        Some(held.collect())
    }

    /// Visits lanes, the least lag first, until the wish is filled.
    fn pick(&mut self, request: &Reserve, now: i64) -> Vec<JobRef> {
        let faulty = self.faults();
        let mut wish = Wish {
            request,
            any_name: faulty(Fault::UnknownNamesDelivered),
            suspects_held: faulty(Fault::SuspectHeldAhead),
            most: request.most(),
            anything: request.free_slots(),
        };
        let queue = self.queue_of(request);
        let queue = queue.as_str();
        let mut picked = Vec::new();
        let (settings, Some(lanes)) = (&self.settings, self.queues.get_mut(queue)) else {
            return picked;
        };
        loop {
            let mut open = lanes.with_work(|name, suspect| wish.may(name, suspect));
            let paused = |tenant: &String| settings.paused_until(queue, tenant, now).is_some();
            open.retain(|tenant| !paused(tenant) || faulty(Fault::PausedDelivered));
            let credit = faulty(Fault::IdlenessEarnsCredit);
            let turn = |tenant: &&String| match () {
                () if faulty(Fault::LanesByName) => (0, 0),
                () if faulty(Fault::Unfair) => (lanes.oldest(tenant).unsigned_abs(), 0),
                () => lanes.turn(tenant, |name, suspect| wish.may(name, suspect), credit),
            };
            let Some(tenant) = open.iter().min_by_key(turn) else { return picked };
            let contested = lanes.contested(&open, |name, suspect| wish.may(name, suspect));
            let lag = lanes.turn(tenant, |name, suspect| wish.may(name, suspect), credit).0;
            let before = picked.len();
            let capped = faulty(Fault::LoneLaneCapped);
            let visit = if open.len() > 1 || capped { LANE_BATCH } else { usize::MAX };
            while picked.len() - before < visit
                && let Some((job, (name, suspect))) = lanes.pop(tenant, |n, s| wish.may(n, s))
            {
                wish.took(&name, suspect);
                picked.push(job);
            }
            let weight = settings.weight(queue, tenant);
            let weight = if faulty(Fault::WeightsIgnored) { 1 } else { weight };
            lanes.charge(tenant, &contested, lag, picked.len() - before, weight, credit);
            if capped {
                return picked;
            }
        }
    }

    /// Only from the queue that was asked.
    fn queue_of(&self, request: &Reserve) -> String {
        let mixed = self.queues.keys().find(|_| self.faulty(Fault::QueuesMixed));
        mixed.map_or(request.queue(), String::as_str).to_owned()
    }

    fn deliver(&mut self, job: &JobRef, request: &Reserve, now: i64) -> Option<Delivery> {
        let faulty = self.faults();
        self.change(job, |row| {
            let mut facts = row.facts(now);
            facts.due = true; // It was in line.
            let Step::To(state) = step(row.state, Event::Reserve, facts) else { return };
            row.state = state;
            row.attempt += 1;
            row.fence += i64::from(!faulty(Fault::FenceStands) || row.fence == 0);
            (row.nonce, row.settled) = (Some(request.nonce_of()), None);
            let (worker, length) = (request.worker().to_owned(), request.leased_for().length());
            let until = after(now, length);
            row.lease = Some(Held { worker, started: now, renewed: now, until });
        });
        self.delivery(job)
    }

    fn delivery(&self, job: &JobRef) -> Option<Delivery> {
        let row = self.rows.get(job)?;
        let attempt = row.attempt - u32::from(self.faulty(Fault::AttemptOffByOne));
        let mut job = row.job.clone();
        job.run_at = RunAt::At(self.clock.show(row.due));
        Some(Delivery { claim: row.claim()?, job, attempt, suspect: row.suspect })
    }
}

/// Another lease, from now.
pub(super) fn extend(row: &mut Row, length: Duration, now: i64) {
    if let Some(lease) = &mut row.lease {
        (lease.renewed, lease.until) = (now, after(now, length));
    }
}
