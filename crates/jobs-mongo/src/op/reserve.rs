//! Reserve (R1–R8): read the lines that are next, decide, claim by the call's nonce, and read what is
//! held under it, which is the truth whatever was lost on the way.

use std::{
    collections::{BTreeSet, HashMap},
    time::{Duration, Instant},
};

use jobs_core::{
    ErrorKind, Outcome, Result, Settled, Settlement,
    queue::{Delivery, Reserve, Reserved},
};
use mongodb::bson::{Document, doc};

use super::{
    pick::{Decision, Head, Read, Wish, decide, first},
    settle,
};
use crate::{
    Mongo,
    error::Fault,
    frontier::{Known, Line, Place},
    turns::Turns,
};

/// The longest that [`Reserved::next_due`] says.
const HOUR: i64 = 3_600_000;
/// How often a reserve that others were faster than decides again.
const ROUNDS: usize = 12;
/// How often it lets others' charges of the turns go before its own. Then it writes them whatever the
/// version: of 32 reservers in each other's way one of three never had its turn in twelve rounds.
const YIELDS: usize = 2;
/// How long after it met another a handle draws by lot.
const CONTESTED: Duration = Duration::from_millis(500);
/// Scheduled jobs that one reserve puts in line, however many are due; more only where it asks for
/// more.
const PROMOTED: usize = 512;

/// Settles, then reserves. None asked does no I/O.
pub(crate) async fn all(
    store: &Mongo,
    settlements: &[Settlement],
    request: &Reserve,
) -> Result<(Vec<Settled>, Reserved)> {
    let operation = if settlements.is_empty() { "reserve" } else { "settle_and_reserve" };
    if settlements.is_empty() && request.most() == 0 {
        return Ok((Vec::new(), Reserved::default()));
    }
    let both = async {
        if request.most() == 0 {
            return Ok((settle::all(store, settlements).await?, Reserved::default()));
        }
        // What is done puts nothing in line: then one majority is waited for, not two in turn.
        if settlements.iter().all(|settlement| settlement.outcome == Outcome::Done) {
            let settled = settle::all(store, settlements);
            let (settled, reserved) = tokio::join!(settled, reserve(store, request));
            return Ok((settled?, reserved?));
        }
        let settled = settle::all(store, settlements).await?;
        Ok((settled, reserve(store, request).await?))
    };
    store.db.within(operation, both).await
}

async fn reserve(store: &Mongo, request: &Reserve) -> std::result::Result<Reserved, Fault> {
    let place = store.frontier.place(request.queue());
    let mut known = place.known.lock().await;
    let mut call = Call {
        store,
        request,
        now: 0,
        looked: false,
        yielded: 0,
        met: known.met.is_some_and(|met| met.elapsed() < CONTESTED),
        claimed: None,
        budget: request.most().max(PROMOTED),
        whole: HashMap::new(),
    };
    let mut done = call.run(&place, &mut known).await;
    // As through an election: whoever asked counts the lease from when it asked.
    if call.claimed.is_some_and(|at| at.elapsed() >= request.leased_for().length()) {
        let what = "the claim took longer than its lease: ask again with the same nonce";
        done = Err(Fault::Broken(ErrorKind::Timeout, what));
    }
    if done.is_err() {
        // What was claimed or charged is unknown.
        known.turns = Turns::default();
        store.frontier.forget_queue(request.queue());
    }
    done
}

/// One reserve on its way.
pub(super) struct Call<'c> {
    pub store: &'c Mongo,
    pub request: &'c Reserve,
    /// The server's time as last read.
    pub now: i64,
    /// All lines of its names were looked for in this call.
    pub looked: bool,
    /// How often another wrote the turns meanwhile.
    pub yielded: usize,
    /// Another reserve is in the way: it took what this one, or the last one here, had chosen.
    pub met: bool,
    /// When it first claimed something.
    pub claimed: Option<Instant>,
    /// How many due jobs it may still put in line.
    pub budget: usize,
    /// Documents of heads that were read whole, because nearly all of them are taken.
    pub whole: HashMap<String, Document>,
}

impl Call<'_> {
    async fn run(
        &mut self,
        place: &Place,
        known: &mut Known,
    ) -> std::result::Result<Reserved, Fault> {
        let mut wish = Wish::of(self.request);
        let mut deliveries: Vec<Delivery> = Vec::new();
        let (mut look, mut over) = (false, false);
        for _ in 0..ROUNDS {
            place.noted(known);
            let now = self.store.db.clock.now();
            look |= known.is_old(self.request.names(), now);
            let due = self.budget > 0 && self.is_due(known, &wish, now);
            let (mut lines, mut limit) = match look || due {
                true => (BTreeSet::new(), 0),
                false => first(known, &wish, now.unwrap_or_default()),
            };
            let mut read = HashMap::new();
            if !self.survey(known, look, &lines, limit, &mut read).await? {
                return self.held().await;
            }
            if look || due {
                self.looked |= look;
                look = false;
                self.promote(known, &wish).await?;
                (lines, limit) = first(known, &wish, self.now);
                self.read(known, &lines, limit, &mut read).await?;
            }
            let chosen = loop {
                match decide(known, wish, self.now, &read) {
                    Decision::Take(chosen) => break chosen,
                    Decision::Look(more) => {
                        limit = (2 * limit).clamp(1, wish.most.max(1) * 2);
                        self.read(known, &more, limit, &mut read).await?;
                    }
                }
            };
            self.drained(known, &read);
            if chosen.is_empty() {
                if self.budget > 0 && self.is_due(known, &wish, Some(self.now)) {
                    continue;
                }
                over = self.looked;
                if over {
                    break;
                }
                look = true;
                continue;
            }
            if !self.charge(known).await? {
                continue;
            }
            self.claimed.get_or_insert_with(Instant::now);
            let written = self.claim(&chosen).await?;
            self.advance(known, &chosen, &read);
            let met = written.count < chosen.len();
            if met {
                known.met = Some(Instant::now());
            }
            self.met |= met;
            deliveries = match self.as_read(&chosen, &written) {
                Some(taken) => deliveries.into_iter().chain(taken).collect(),
                // Also where the count says none: it may have been sent twice, and the first one
                // counts.
                None => self.deliveries(&chosen, deliveries).await?,
            };
            wish = Wish::of(self.request);
            for held in &deliveries {
                wish.took(&held.job.name, held.suspect);
            }
            if wish.most == 0 {
                break;
            }
        }
        let due = match over {
            _ if wish.most == 0 => None,
            true => self.next_due(known, &wish),
            // Others were faster each time: there is work, and the same is asked again at once.
            false => Some(self.now),
        };
        let wait = |due: i64| due.saturating_sub(self.now).clamp(0, HOUR).unsigned_abs();
        let next_due = due.map(|due| Duration::from_millis(wait(due)));
        Ok(Reserved { deliveries, next_due })
    }

    /// Lines that were read to their end have no work any more, as far as this handle knows.
    fn drained(&self, known: &mut Known, read: &HashMap<Line, Read>) {
        for (line, read) in read {
            if read.heads.is_empty() && !read.more {
                known.lines.remove(line);
            }
        }
    }

    /// From the last one taken on; what is not known to be drained stays.
    fn advance(&self, known: &mut Known, chosen: &[(Line, Head)], read: &HashMap<Line, Read>) {
        if self.met {
            // Drawn by lot: only what was not there any more is behind.
            for (line, read) in read {
                if let (Some(place), Some(first)) = (known.lines.get_mut(line), read.first) {
                    *place = (*place).max(first);
                }
            }
            return;
        }
        for (line, (due, _)) in chosen {
            if let Some(place) = known.lines.get_mut(line) {
                *place = (*place).max(*due);
            }
        }
        for (line, read) in read {
            let all = chosen.iter().filter(|(other, _)| other == line).count() == read.heads.len();
            if all && !read.more {
                known.lines.remove(line);
            }
        }
    }

    /// Writes the turns; `false`: somebody else decided meanwhile.
    async fn charge(&mut self, known: &mut Known) -> std::result::Result<bool, Fault> {
        if !known.turns.is_charged() {
            return Ok(true);
        }
        let db = self.store.db.clone();
        let anyway = self.yielded >= YIELDS;
        let statement = known.turns.statement(self.request.queue(), anyway);
        let update = doc! { "update": db.name("turns"), "updates": [statement] };
        let written = db.hint(update).await?;
        if written.count == 1 {
            known.turns.written(anyway);
            return Ok(true);
        }
        self.yielded += 1;
        known.turns =
            self.document("turns").await?.map(|row| Turns::read(&row)).unwrap_or_default();
        tokio::time::sleep(Duration::from_micros(fastrand::u64(..1000))).await;
        Ok(false)
    }
}
