//! A worker's handle with a witness: what reserve took, which claims were told lost, and which calls
//! were slow or had no answer. It changes nothing about the calls, but that a renewal fails now and
//! then, never two in a row: each time a lease must outlive it (K3).

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use jobs_core::{
    AuthorizedJob, Claim, Error, ErrorKind, OutcomeKind, Queue, Result, Settled, Settlement,
    async_trait,
    queue::{Lease, Pushed, Renewed, Reserve, Reserved, Swept, Worker},
    wake::Watch,
};

use super::{
    claims::Claims,
    ledger::{Event, Pen, Told, now},
};

/// A call that takes longer is written down, in microseconds.
const SLOW: i64 = 300_000;
/// The trouble of a call that was slow and had an answer.
pub const SLOW_CALL: &str = "slow";
/// Of so many renewals one is made to fail.
const FAILS: u32 = 30;
/// The handle.
#[derive(Clone, Debug)]
pub struct Watched {
    /// The store.
    pub store: Arc<dyn Queue>,
    /// Where it is written down.
    pub pen: Arc<Pen>,
    /// What is held, and what is over.
    pub claims: Claims,
    /// The last renewal was made to fail.
    pub failed: Arc<AtomicBool>,
}

/// One call under way. Without an answer, it is written down as such, with what it was to settle.
struct Call<'a> {
    pen: &'a Pen,
    name: &'static str,
    settlements: &'a [Settlement],
    sent: i64,
    open: bool,
}

impl<'a> Call<'a> {
    fn new(pen: &'a Pen, name: &'static str, settlements: &'a [Settlement]) -> Self {
        Self { pen, name, settlements, sent: now(), open: true }
    }

    fn answered<T>(mut self, answer: &Result<T>) -> i64 {
        self.open = false;
        match answer {
            Err(error) => self.failed(error.to_string()),
            Ok(_) if now() - self.sent > SLOW => self.pen.write(self.trouble(SLOW_CALL.to_owned())),
            Ok(_) => {}
        }
        self.sent
    }

    fn trouble(&self, trouble: String) -> Event {
        Event::Call { call: self.name.to_owned(), sent: self.sent, trouble }
    }

    fn failed(&self, trouble: String) {
        let unsettled =
            self.settlements.iter().map(|settlement| settled(settlement, self.sent, None));
        self.pen.write_all([self.trouble(trouble)].into_iter().chain(unsettled));
    }
}

impl Drop for Call<'_> {
    fn drop(&mut self) {
        if self.open {
            self.failed("dropped".to_owned());
        }
    }
}

fn settled(settlement: &Settlement, sent: i64, told: Option<Told>) -> Event {
    let Claim { job, fence, .. } = settlement.claim.clone();
    Event::Settled { job, fence, outcome: settlement.outcome.kind(), sent, told }
}

impl Watched {
    fn taken(&self, queue: &str, sent: i64, reserved: &Reserved) {
        if !reserved.deliveries.is_empty() {
            let claims = reserved.deliveries.iter().map(|delivery| delivery.claim.clone());
            let claims: Vec<Claim> = claims.collect();
            self.claims.taken(&claims);
            self.pen.write(Event::Taken { queue: queue.to_owned(), sent, claims });
        }
    }

    fn settled(&self, settlements: &[Settlement], sent: i64, answers: &[Settled]) {
        let both = || settlements.iter().zip(answers);
        self.pen.write_all(both().map(|(asked, told)| settled(asked, sent, Some((*told).into()))));
        for (settlement, answer) in both() {
            // What is delivered again has a next holder to harm; what is done has none.
            let harms = settlement.outcome.kind() != OutcomeKind::Done || fastrand::u8(0..10) == 0;
            self.claims.over(&settlement.claim, harms);
            if *answer == Settled::Lost {
                self.lost("settle", &settlement.claim);
            }
        }
    }

    /// Is this renewal one that fails?
    fn fails(&self) -> bool {
        let fails = !self.failed.load(Ordering::Relaxed) && fastrand::u32(0..FAILS) == 0;
        self.failed.store(fails, Ordering::Relaxed);
        fails
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
        let call = Call::new(&self.pen, "reserve", &[]);
        let answer = self.store.reserve(request).await;
        let sent = call.answered(&answer);
        let reserved = answer?;
        self.taken(request.queue(), sent, &reserved);
        Ok(reserved)
    }

    async fn renew(&self, lease: Lease, claims: &[Claim]) -> Result<Vec<Renewed>> {
        let call = Call::new(&self.pen, "renew", &[]);
        let answer = match self.fails() {
            true => Err(Error::new(ErrorKind::Unavailable, "renew", "made to fail by the soak")),
            false => self.store.renew(lease, claims).await,
        };
        let sent = call.answered(&answer);
        let renewed = answer?;
        let told = || claims.iter().zip(&renewed);
        let held = told().filter(|(_, told)| **told != Renewed::Lost);
        let held = held.map(|(claim, _)| (claim.job.clone(), claim.fence)).collect();
        self.pen.write(Event::Renewed { sent, claims: held });
        for (claim, _) in told().filter(|(_, told)| **told == Renewed::Lost) {
            self.claims.over(claim, true);
            self.lost("renew", claim);
        }
        Ok(renewed)
    }

    async fn settle(&self, settlements: &[Settlement]) -> Result<Vec<Settled>> {
        let call = Call::new(&self.pen, "settle", settlements);
        let answer = self.store.settle(settlements).await;
        let sent = call.answered(&answer);
        let answers = answer?;
        self.settled(settlements, sent, &answers);
        Ok(answers)
    }

    async fn settle_and_reserve(
        &self,
        settlements: &[Settlement],
        request: &Reserve,
    ) -> Result<(Vec<Settled>, Reserved)> {
        let call = Call::new(&self.pen, "settle_and_reserve", settlements);
        let answer = self.store.settle_and_reserve(settlements, request).await;
        let sent = call.answered(&answer);
        let (answers, reserved) = answer?;
        self.settled(settlements, sent, &answers);
        self.taken(request.queue(), sent, &reserved);
        Ok((answers, reserved))
    }

    fn settles_apart(&self) -> bool {
        self.store.settles_apart()
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
