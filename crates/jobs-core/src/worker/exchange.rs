//! The conversation with the store: one call at a time, in which settlements and the next reserve
//! share a round trip. What comes up while a call is under way makes the next one's batch.

use std::{rc::Rc, time::Duration};

use tokio::{
    select,
    time::{Instant, sleep_until},
};

use crate::{
    Settled, Settlement,
    queue::BadRequest,
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
/// Settlements that wait for the next reserve to ride with, where one is due soon: how long, and how many.
/// Sent alone they cost a call and a commit each time, and the reserve has to wait for it.
const RIDES: (Duration, usize) = (Duration::from_millis(5), 256);

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
}

impl Exchange {
    /// `drains`: end the worker when nothing is left to do.
    ///
    /// # Errors
    /// A name outside its alphabet.
    pub fn new(shared: Rc<Shared>, drains: bool) -> Result<Self, BadRequest> {
        let reserver = Reserver::new(shared.clone(), drains)?;
        let settler = Settler::new(shared.clone());
        let (settle, reserve) = (Retry::new(), Retry::new());
        Ok(Self { shared, reserver, settler, settle, reserve, drains, riding: None })
    }

    /// Talks until dropped.
    ///
    /// # Cancel safety
    /// A call under way may have happened: its jobs come back when their leases end.
    pub async fn run(mut self) {
        loop {
            if !self.once().await {
                self.wait().await;
            }
        }
    }

    /// One round trip, if there is anything to say.
    async fn once(&mut self) -> bool {
        let now = Instant::now();
        let rides = self.rides(now);
        let batch = if rides || now < self.settle.at { Vec::new() } else { self.settler.batch() };
        if !batch.is_empty() {
            self.riding = None;
        }
        let waiting = self.shared.settlements.borrow().len();
        let may_ask = now >= self.reserve.at
            && (self.settle.failures == 0 || waiting + batch.len() < MOST_WAITING)
            // After a failure, each goes by itself: one must not take the other down.
            && (batch.is_empty() || self.settle.failures + self.reserve.failures == 0);
        let ask = if may_ask { self.reserver.plan(!batch.is_empty()) } else { None };
        match (batch.is_empty(), ask) {
            (true, None) => {
                if self.drains && self.reserver.is_idle() {
                    self.shared.stop.cancel();
                }
                return false;
            }
            (false, None) => self.settle(batch).await,
            (true, Some(ask)) => self.ask(ask).await,
            (false, Some(ask)) => self.both(batch, ask).await,
        }
        true
    }

    /// Do settlements wait for the next reserve?
    fn rides(&mut self, now: Instant) -> bool {
        let waiting = self.shared.settlements.borrow().len();
        let healthy = self.settle.failures + self.reserve.failures == 0;
        if !healthy || waiting == 0 || waiting >= RIDES.1 || !self.reserver.asks_soon(now) {
            self.riding = None;
            return false;
        }
        now < *self.riding.get_or_insert(now) + RIDES.0
    }

    async fn settle(&mut self, batch: Vec<Pending>) {
        let settlements = bodies(&batch);
        let answer = call(CALL, "settle", self.shared.store.settle(&settlements)).await;
        self.settled(batch, answer);
    }

    async fn ask(&mut self, ask: Ask) {
        match call(CALL, "reserve", self.shared.store.reserve(&ask.request)).await {
            Ok(reserved) => {
                self.reserve.worked();
                self.reserver.answered(ask, reserved);
            }
            Err(error) => self.unanswered(ask, &error),
        }
    }

    async fn both(&mut self, batch: Vec<Pending>, ask: Ask) {
        let settlements = bodies(&batch);
        let both = self.shared.store.settle_and_reserve(&settlements, &ask.request);
        match call(CALL, "settle_and_reserve", both).await {
            Ok((settled, reserved)) => {
                self.settled(batch, Ok(settled));
                self.reserver.answered(ask, reserved);
            }
            Err(error) => {
                self.settled(batch, Err(error.clone()));
                self.unanswered(ask, &error);
            }
        }
    }

    fn settled(&mut self, batch: Vec<Pending>, answer: crate::Result<Vec<Settled>>) {
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

    async fn wait(&mut self) {
        let mut until = Instant::now() + POLL.1;
        if !self.shared.settlements.borrow().is_empty() {
            until = until.min(self.riding.map_or(self.settle.at, |since| since + RIDES.0));
        }
        if let Some(at) = self.reserver.next_at() {
            until = until.min(at.max(self.reserve.at));
        }
        select! {
            () = self.shared.work.notified() => {}
            () = sleep_until(until) => {}
        }
    }
}

fn bodies(batch: &[Pending]) -> Vec<Settlement> {
    batch.iter().map(|pending| pending.settlement.clone()).collect()
}
