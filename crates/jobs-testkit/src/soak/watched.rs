//! A worker's handle with a witness: what reserve took, which claims were told lost, and which calls
//! were slow or had no answer. It changes nothing about the calls.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, PoisonError},
};

use jobs_core::{
    AuthorizedJob, Claim, Error, OutcomeKind, Queue, Result, Settled, Settlement, async_trait,
    queue::{Lease, Pushed, Renewed, Reserve, Reserved, Swept, Worker},
    wake::Watch,
};

use super::ledger::{Event, Pen, now};

/// A call that takes longer may be why a lease ends, in microseconds.
const SLOW: i64 = 300_000;
/// Claims kept for late writes.
const KEPT: usize = 500;

/// Claims that are over: their settlements were answered, or the store said that they are lost.
#[derive(Clone, Debug, Default)]
pub struct Over(Arc<Mutex<VecDeque<(i64, Claim)>>>);

impl Over {
    fn add(&self, claim: &Claim) {
        let mut claims = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        claims.push_back((now(), claim.clone()));
        if claims.len() > KEPT {
            claims.pop_front();
        }
    }

    /// One that was over `age` microseconds ago; `newest` takes the youngest of these.
    pub fn take(&self, age: i64, newest: bool) -> Option<Claim> {
        let mut claims = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let old = claims.partition_point(|(at, _)| *at < now() - age);
        let at = if newest { old.checked_sub(1)? } else { 0 };
        if old == 0 { None } else { claims.remove(at).map(|(_, claim)| claim) }
    }
}

/// The handle.
#[derive(Clone, Debug)]
pub struct Watched {
    /// The store.
    pub store: Arc<dyn Queue>,
    /// Where it is written down.
    pub pen: Arc<Pen>,
    /// What is over.
    pub over: Over,
}

/// One call under way. Dropped without an answer, it is written down as such.
struct Call<'a> {
    pen: &'a Pen,
    name: &'static str,
    sent: i64,
    open: bool,
}

impl<'a> Call<'a> {
    fn new(pen: &'a Pen, name: &'static str) -> Self {
        Self { pen, name, sent: now(), open: true }
    }

    fn answered<T>(mut self, answer: &Result<T>) -> i64 {
        self.open = false;
        match answer {
            Err(error) => self.say(failed(error)),
            Ok(_) if now() - self.sent > SLOW => self.say("slow".to_owned()),
            Ok(_) => {}
        }
        self.sent
    }

    fn say(&self, trouble: String) {
        let call = self.name.to_owned();
        self.pen.write(Event::Call { call, sent: self.sent, trouble });
    }
}

impl Drop for Call<'_> {
    fn drop(&mut self) {
        if self.open {
            self.say("dropped".to_owned());
        }
    }
}

fn failed(error: &Error) -> String {
    error.to_string()
}

impl Watched {
    fn taken(&self, queue: &str, sent: i64, reserved: &Reserved) {
        if !reserved.deliveries.is_empty() {
            let claims = reserved.deliveries.iter().map(|delivery| delivery.claim.clone());
            let claims = claims.collect();
            self.pen.write(Event::Taken { queue: queue.to_owned(), sent, claims });
        }
    }

    fn settled(&self, settlements: &[Settlement], answers: &[Settled]) {
        for (settlement, answer) in settlements.iter().zip(answers) {
            // What is delivered again has a next holder to harm; what is done has none.
            if settlement.outcome.kind() != OutcomeKind::Done || fastrand::u8(0..10) == 0 {
                self.over.add(&settlement.claim);
            }
            if *answer == Settled::Lost {
                self.lost("settle", &settlement.claim);
            }
        }
    }

    fn lost(&self, call: &str, claim: &Claim) {
        let (job, fence) = (claim.job.clone(), claim.fence);
        self.pen.write(Event::Lost { job, fence, call: call.to_owned() });
    }
}

#[async_trait]
impl Queue for Watched {
    async fn enqueue(&self, jobs: &[AuthorizedJob]) -> Vec<Result<Pushed>> {
        self.store.enqueue(jobs).await
    }

    async fn reserve(&self, request: &Reserve) -> Result<Reserved> {
        let call = Call::new(&self.pen, "reserve");
        let answer = self.store.reserve(request).await;
        let sent = call.answered(&answer);
        let reserved = answer?;
        self.taken(request.queue(), sent, &reserved);
        Ok(reserved)
    }

    async fn renew(&self, lease: Lease, claims: &[Claim]) -> Result<Vec<Renewed>> {
        let call = Call::new(&self.pen, "renew");
        let answer = self.store.renew(lease, claims).await;
        call.answered(&answer);
        let renewed = answer?;
        for (claim, _) in claims.iter().zip(&renewed).filter(|(_, told)| **told == Renewed::Lost) {
            self.over.add(claim);
            self.lost("renew", claim);
        }
        Ok(renewed)
    }

    async fn settle(&self, settlements: &[Settlement]) -> Result<Vec<Settled>> {
        let call = Call::new(&self.pen, "settle");
        let answer = self.store.settle(settlements).await;
        call.answered(&answer);
        let answers = answer?;
        self.settled(settlements, &answers);
        Ok(answers)
    }

    async fn settle_and_reserve(
        &self,
        settlements: &[Settlement],
        request: &Reserve,
    ) -> Result<(Vec<Settled>, Reserved)> {
        let call = Call::new(&self.pen, "settle_and_reserve");
        let answer = self.store.settle_and_reserve(settlements, request).await;
        let sent = call.answered(&answer);
        let (answers, reserved) = answer?;
        self.settled(settlements, &answers);
        self.taken(request.queue(), sent, &reserved);
        Ok((answers, reserved))
    }

    async fn sweep(&self) -> Result<Swept> {
        self.store.sweep().await
    }

    async fn watch(&self, queues: &[String]) -> Result<Watch> {
        self.store.watch(queues).await
    }

    async fn announce(&self, worker: &Worker) -> Result<()> {
        self.store.announce(worker).await
    }

    async fn open_own(&self) -> Result<Arc<dyn Queue>> {
        let store = self.store.open_own().await?;
        Ok(Arc::new(Self { store, ..self.clone() }))
    }
}
