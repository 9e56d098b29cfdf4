//! The conversation with the store: settlements and reserves, one call of each at a time. What comes up
//! while a call is under way makes the next one's batch.
//!
//! Where the store says nothing else, both share a round trip and one call is under way. Where it
//! [settles apart](crate::Queue::settles_apart), large batches are two conversations side by side, so
//! that neither waits for the other, and the next reserve is asked for before what the last one brought
//! has run: the store and the handlers work at once. Small ones still share a call.

use std::{future::Future, pin::Pin, rc::Rc, time::Duration};

use tokio::{
    select,
    time::{Instant, sleep_until},
};

use crate::{
    Outcome, Result, Settled, Settlement, State,
    queue::{BadRequest, Reserved},
    worker::{
        call::{Retry, call},
        config::{CALL, POLL},
        reserve::{Ask, Reserver},
        settle::Settler,
        shared::{Pending, Shared},
    },
};

/// Settlements that may wait while settling fails, before reserving stops too.
const MOST_WAITING: usize = 256;
/// How long settlements wait for the next reserve to ride with, where one is due soon. Sent alone they
/// cost a call and a commit each time, and the reserve has to wait for it.
const RIDES: Duration = Duration::from_millis(5);
/// So many wait for no reserve; and where settlements go apart, so many are worth a call beside one.
const ENOUGH: (usize, usize) = (256, 64);
/// From so many jobs on, settlements as done and a reserve are two calls. What a settlement puts back in
/// line has to be there for the reserve, so the others share one.
const APART: usize = 32;

/// The conversation.
pub(crate) struct Exchange {
    shared: Rc<Shared>,
    reserver: Reserver,
    settler: Settler,
    settle: Retry,
    reserve: Retry,
    drains: bool,
    /// Since when settlements wait for a reserve.
    riding: Option<Instant>,
    /// The calls under way. One that does both is in both's way.
    settling: Option<Call>,
    asking: Option<Call>,
    both: Option<Call>,
}

/// A call under way, and its answer.
type Call = Pin<Box<dyn Future<Output = Answer>>>;

enum Answer {
    Settled(Vec<Pending>, Result<Vec<Settled>>),
    Reserved(Ask, Result<Reserved>),
    Both(Vec<Pending>, Ask, Result<(Vec<Settled>, Reserved)>),
}

impl Exchange {
    /// `drains`: end the worker when nothing is left to do.
    ///
    /// # Errors
    /// A name outside its alphabet.
    pub fn new(shared: Rc<Shared>, drains: bool) -> std::result::Result<Self, BadRequest> {
        let reserver = Reserver::new(shared.clone(), drains)?;
        let settler = Settler::new(shared.clone());
        Ok(Self {
            shared,
            reserver,
            settler,
            settle: Retry::new(),
            reserve: Retry::new(),
            drains,
            riding: None,
            settling: None,
            asking: None,
            both: None,
        })
    }

    /// Talks until dropped.
    ///
    /// # Cancel safety
    /// A call under way may have happened: its jobs come back when their leases end.
    pub async fn run(mut self) {
        loop {
            self.begin();
            let listens = self.may_begin();
            let until = self.until();
            let work = self.shared.clone();
            let answer = select! {
                answer = end_of(&mut self.settling) => answer,
                answer = end_of(&mut self.asking) => answer,
                answer = end_of(&mut self.both) => answer,
                () = work.work.notified(), if listens => continue,
                () = sleep_until(until), if listens => continue,
            };
            self.answered(answer);
        }
    }

    /// May another call begin?
    fn may_begin(&self) -> bool {
        let under_way = self.settling.is_some() || self.asking.is_some();
        self.both.is_none() && (self.shared.apart || !under_way)
    }

    /// Begins what calls there are to make.
    fn begin(&mut self) {
        if !self.may_begin() {
            return;
        }
        let now = Instant::now();
        let rides = self.rides(now);
        let settles = self.settling.is_none() && !rides && now >= self.settle.at;
        let batch = if settles { self.settler.batch() } else { Vec::new() };
        if !batch.is_empty() {
            self.riding = None;
        }
        // After a failure, each goes by itself: one must not take the other down.
        let alone = !self.is_healthy() && !self.shared.apart && !batch.is_empty();
        let may_ask = self.asking.is_none()
            && now >= self.reserve.at
            && !self.is_held_up(batch.len())
            && !alone;
        let ask = if may_ask { self.reserver.plan(!batch.is_empty()) } else { None };
        match (batch.is_empty(), ask) {
            (true, None) => {
                let under_way = self.settling.is_some() || self.asking.is_some();
                if self.drains && !under_way && self.reserver.is_idle() {
                    self.shared.stop.cancel();
                }
            }
            (false, None) => self.settle(batch),
            (true, Some(ask)) => self.ask(ask),
            (false, Some(ask)) if self.are_apart(&batch, &ask) => {
                self.settle(batch);
                self.ask(ask);
            }
            (false, Some(ask)) => self.both(batch, ask),
        }
    }

    fn is_healthy(&self) -> bool {
        self.settle.failures + self.reserve.failures == 0
    }

    /// Do so many settlements fail that reserving has to stop?
    fn is_held_up(&self, sent: usize) -> bool {
        let waiting = self.shared.settlements.borrow().len() + sent;
        self.settle.failures > 0 && waiting >= MOST_WAITING
    }

    /// Are these two calls, and not one?
    fn are_apart(&self, batch: &[Pending], ask: &Ask) -> bool {
        let large = batch.len().min(ask.request.most()) >= APART;
        let done = |pending: &Pending| pending.settlement.outcome == Outcome::Done;
        self.shared.apart && (!self.is_healthy() || (large && batch.iter().all(done)))
    }

    /// Do settlements wait for the next reserve, or for more of them?
    fn rides(&mut self, now: Instant) -> bool {
        let waiting = self.shared.settlements.borrow().len();
        let apart = self.shared.apart && self.asking.is_some();
        let (enough, soon) = match apart {
            true => (ENOUGH.1, self.reserver.is_quick(now)),
            false => (ENOUGH.0, self.reserver.asks_soon(now)),
        };
        if !self.is_healthy() || waiting == 0 || waiting >= enough || !soon {
            self.riding = None;
            return false;
        }
        now < *self.riding.get_or_insert(now) + RIDES
    }

    fn settle(&mut self, batch: Vec<Pending>) {
        let store = self.shared.store.clone();
        self.settling = Some(Box::pin(async move {
            let settlements = bodies(&batch);
            let answer = call(CALL, "settle", store.settle(&settlements)).await;
            Answer::Settled(batch, answer)
        }));
    }

    fn ask(&mut self, ask: Ask) {
        let store = self.shared.store.clone();
        self.asking = Some(Box::pin(async move {
            let answer = call(CALL, "reserve", store.reserve(&ask.request)).await;
            Answer::Reserved(ask, answer)
        }));
    }

    fn both(&mut self, batch: Vec<Pending>, ask: Ask) {
        let store = self.shared.store.clone();
        self.both = Some(Box::pin(async move {
            let settlements = bodies(&batch);
            let both = store.settle_and_reserve(&settlements, &ask.request);
            let answer = call(CALL, "settle_and_reserve", both).await;
            Answer::Both(batch, ask, answer)
        }));
    }

    fn answered(&mut self, answer: Answer) {
        match answer {
            Answer::Settled(batch, answer) => {
                let again = |settled: &Settled| {
                    matches!(settled, Settled::Applied(State::Ready | State::Scheduled))
                };
                // A reserve beside it has not seen what is in line again.
                if self.shared.apart && answer.iter().flatten().any(again) {
                    self.shared.poke.set(true);
                }
                self.settled(batch, answer);
            }
            Answer::Reserved(ask, Ok(reserved)) => {
                self.reserve.worked();
                self.reserver.answered(ask, reserved);
            }
            Answer::Reserved(ask, Err(error)) => self.unanswered(ask, &error),
            Answer::Both(batch, ask, Ok((settled, reserved))) => {
                self.settled(batch, Ok(settled));
                self.reserver.answered(ask, reserved);
            }
            Answer::Both(batch, ask, Err(error)) => {
                self.settled(batch, Err(error.clone()));
                self.unanswered(ask, &error);
            }
        }
    }

    fn settled(&mut self, batch: Vec<Pending>, answer: Result<Vec<Settled>>) {
        match answer {
            Ok(answers) => {
                self.settle.worked();
                self.settler.answered(batch, answers);
            }
            Err(error) => {
                self.shared.metrics.store_error(&error);
                self.settle.failed(&error);
                self.settler.failed(batch, &error);
            }
        }
    }

    fn unanswered(&mut self, ask: Ask, error: &crate::Error) {
        self.shared.metrics.store_error(error);
        self.reserve.failed(error);
        self.reserver.lost(ask);
    }

    /// When to look again, if nothing happens before.
    fn until(&self) -> Instant {
        let mut until = Instant::now() + POLL.1;
        if self.settling.is_none() && !self.shared.settlements.borrow().is_empty() {
            let rides = self.riding.map_or(self.settle.at, |since| since + RIDES);
            until = until.min(rides.max(self.settle.at));
        }
        let asks = self.asking.is_none() && !self.is_held_up(0);
        if let Some(at) = self.reserver.next_at().filter(|_| asks) {
            until = until.min(at.max(self.reserve.at));
        }
        until
    }
}

/// The answer of a call, which is then over; none is awaited for ever.
async fn end_of(call: &mut Option<Call>) -> Answer {
    let Some(under_way) = call else { return std::future::pending().await };
    let answer = under_way.await;
    *call = None;
    answer
}

fn bodies(batch: &[Pending]) -> Vec<Settlement> {
    batch.iter().map(|pending| pending.settlement.clone()).collect()
}
