//! Reserve (R1–R8): read the lines that are next, decide, claim by the call's nonce, and read what is
//! held under it, which is the truth whatever was lost on the way.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    time::{Duration, Instant},
};

use jobs_core::{
    Claim, Result, Settled, Settlement,
    driver::small,
    queue::{Delivery, Reserve, Reserved},
    time::delay_millis,
};
use mongodb::bson::{Bson, Document, doc};

use super::{
    pick::{Decision, Head, Read, Wish, decide, first},
    settle,
};
use crate::{
    Mongo,
    error::Fault,
    frontier::{Known, Line, Look, Place},
    row::{self, at, date, int, need, text},
    settings::Settings,
    turns::Turns,
};

/// The longest that [`Reserved::next_due`] says.
const HOUR: i64 = 3_600_000;
/// How often a reserve that others were faster than decides again.
const ROUNDS: usize = 12;
/// Lines that one statement reads: each costs the server some 0.1 ms of planning.
const UNIONS: usize = 32;
/// Of how many times as many candidates a reserve that met another takes its own by lot.
const SPREAD: usize = 8;
/// Scheduled jobs of one line that one reserve puts in line, at least.
const PROMOTED: usize = 100;

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
        let settled = settle::all(store, settlements).await?;
        if request.most() == 0 {
            return Ok((settled, Reserved::default()));
        }
        Ok((settled, reserve(store, request).await?))
    };
    store.db.within(operation, both).await
}

async fn reserve(store: &Mongo, request: &Reserve) -> std::result::Result<Reserved, Fault> {
    let place = store.frontier.place(request.queue());
    let mut known = place.known.lock().await;
    let mut call = Call { store, request, now: 0, looked: false, met: false, next_due: None };
    let done = call.run(&place, &mut known).await;
    if done.is_err() {
        // What was claimed or charged is unknown.
        known.turns = Turns::default();
        store.frontier.forget_queue(request.queue());
    }
    done
}

/// One reserve on its way.
struct Call<'c> {
    store: &'c Mongo,
    request: &'c Reserve,
    /// The server's time as last read.
    now: i64,
    /// All lines of its names were looked for in this call.
    looked: bool,
    /// Another reserve took what this one had chosen.
    met: bool,
    next_due: Option<i64>,
}

impl Call<'_> {
    async fn run(
        &mut self,
        place: &Place,
        known: &mut Known,
    ) -> std::result::Result<Reserved, Fault> {
        let mut wish = Wish::of(self.request);
        let mut deliveries: Vec<Delivery> = Vec::new();
        let mut look = false;
        for round in 0..ROUNDS {
            place.noted(known);
            look |= known.is_old(self.request.names(), self.store.db.clock.now());
            let (mut lines, mut limit) = match look {
                true => (BTreeSet::new(), 0),
                false => first(known, &wish, self.store.db.clock.now().unwrap_or_default()),
            };
            let mut read = HashMap::new();
            if !self.survey(known, look, &lines, limit, &mut read).await? {
                return self.held().await;
            }
            if look {
                self.looked = true;
                if self.promote(known, wish.most).await? {
                    continue;
                }
                look = false;
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
                if self.looked {
                    break;
                }
                look = true;
                continue;
            }
            if !self.charge(known).await? {
                continue;
            }
            let claimed = self.claim(&chosen).await?;
            self.advance(known, &chosen, &read);
            self.met = claimed < chosen.len();
            if claimed > 0 {
                deliveries = self.deliveries(&chosen, deliveries).await?;
                wish = Wish::of(self.request);
                for held in &deliveries {
                    wish.took(&held.job.name, held.suspect);
                }
            }
            if wish.most == 0 || (self.looked && claimed == chosen.len() && round + 1 == ROUNDS) {
                break;
            }
        }
        let wait = self.next_due.filter(|_| wish.most > 0).map(|due| due - self.now);
        let next_due = wait.map(|wait| Duration::from_millis(wait.clamp(0, HOUR).unsigned_abs()));
        Ok(Reserved { deliveries, next_due })
    }

    /// One statement: the server's time, whether this nonce was here before, whether settings and
    /// turns are the known ones, and either all lines or the heads of some. `false`: it was here.
    async fn survey(
        &mut self,
        known: &mut Known,
        look: bool,
        lines: &BTreeSet<Line>,
        limit: usize,
        read: &mut HashMap<Line, Read>,
    ) -> std::result::Result<bool, Fault> {
        let db = &self.store.db;
        let queue = self.request.queue();
        let version = |collection: &str, field: &str| {
            let found = doc! { "$project": { "_id": 0, field: "$version" } };
            let pipeline = vec![doc! { "$match": { "_id": queue } }, found];
            doc! { "$unionWith": { "coll": db.name(collection), "pipeline": pipeline } }
        };
        let taken = vec![
            doc! { "$match": { "_id": self.request.nonce_of().0 } },
            doc! { "$project": { "_id": 0, "taken": "$_id" } },
        ];
        let mut pipeline = vec![
            doc! { "$match": { "_id": "schema" } },
            doc! { "$project": { "_id": 0, "now": "$$NOW" } },
            doc! { "$unionWith": { "coll": db.name("taken"), "pipeline": taken } },
            version("lanes", "settings"),
            version("turns", "turns"),
        ];
        if look {
            for name in self.request.names() {
                for kind in ["r", "s"] {
                    let walk = walk(&format!("{kind}/{queue}/{name}"));
                    pipeline.push(doc! { "$unionWith": { "coll": db.name("jobs"), "pipeline": walk } });
                }
            }
        }
        let limit = self.spread(limit);
        let (now_lines, later): (Vec<_>, Vec<_>) =
            lines.iter().enumerate().partition(|(place, _)| *place < UNIONS);
        for (_, line) in &now_lines {
            let heads = heads(line, known, limit);
            pipeline.push(doc! { "$unionWith": { "coll": db.name("jobs"), "pipeline": heads } });
        }
        let command = doc! { "aggregate": db.name("schema"), "pipeline": pipeline, "cursor": {} };
        let began = Instant::now();
        let rows = db.rows(command).await?;
        let took = began.elapsed();
        let (mut settings, mut turns, mut again) = (0, 0, false);
        let mut found = BTreeMap::new();
        for line in now_lines.iter().map(|(_, line)| *line) {
            read.insert(line.clone(), Read::default());
        }
        let mut now = None;
        for row in &rows {
            if let Some(time) = date(row, "now") {
                now = Some(time);
            } else if row.contains_key("taken") {
                again = true;
            } else if let Some(version) = int(row, "settings") {
                settings = version;
            } else if let Some(version) = int(row, "turns") {
                turns = version;
            } else if let Some(line) = text(row, "walked").as_deref().and_then(Line::read) {
                found.insert(line, need(date(row, "run_at"), "run_at")?);
            } else {
                head(row, read)?;
            }
        }
        for (line, read) in read.iter_mut().filter(|(line, _)| lines.contains(line)) {
            self.sample(line, read, limit);
        }
        // Without the schema's document there is no store any more.
        let gone = "the jobs collections are missing: call migrate() once";
        let gone = || Fault::Refused(jobs_core::ErrorKind::Schema, gone.to_owned());
        self.now = now.ok_or_else(gone)?;
        db.clock.heard(self.now);
        if again {
            return Ok(false);
        }
        if settings != known.settings.version {
            known.settings = match self.document("lanes").await? {
                Some(row) => Settings::read(&row),
                None => Settings::default(),
            };
        }
        if turns != known.turns.version {
            known.turns = self.document("turns").await?.map(|row| Turns::read(&row)).unwrap_or_default();
        }
        if look {
            self.take_in(known, found, began, took);
        }
        let later: BTreeSet<Line> = later.into_iter().map(|(_, line)| line.clone()).collect();
        if !later.is_empty() {
            self.read(known, &later, limit, read).await?;
        }
        Ok(true)
    }

    async fn document(&self, collection: &str) -> std::result::Result<Option<Document>, Fault> {
        let db = &self.store.db;
        let filter = doc! { "_id": self.request.queue() };
        let find = doc! { "find": db.name(collection), "filter": filter, "limit": 1 };
        Ok(db.rows(find).await?.into_iter().next())
    }

    /// Takes note of all lines of the names.
    fn take_in(
        &mut self,
        known: &mut Known,
        found: BTreeMap<Line, i64>,
        began: Instant,
        took: Duration,
    ) {
        let names = self.request.names();
        known.took = took;
        known.lines.retain(|line, _| names.binary_search(&line.name).is_err());
        for name in names {
            known.looked.insert(name.clone(), Look { at: began, next_due: None });
        }
        self.next_due = None;
        for (line, due) in found {
            if line.ready {
                known.lines.insert(line, due);
                continue;
            }
            if let Some(look) = known.looked.get_mut(&line.name) {
                look.next_due = Some(look.next_due.map_or(due, |next| next.min(due)));
            }
            self.next_due = Some(self.next_due.map_or(due, |next| next.min(due)));
            if due <= self.now {
                // Known as scheduled until it is promoted.
                known.lines.insert(line, due);
            }
        }
    }

    /// Puts what is due in line, if anything is: then the lines are to be looked for again.
    async fn promote(
        &mut self,
        known: &mut Known,
        most: usize,
    ) -> std::result::Result<bool, Fault> {
        let due: Vec<Line> = known.lines.keys().filter(|line| !line.ready).cloned().collect();
        known.lines.retain(|line, _| line.ready);
        if due.is_empty() {
            return Ok(false);
        }
        let mut ids = Vec::new();
        for part in due.chunks(UNIONS) {
            let limit = i64::try_from(most.max(PROMOTED)).unwrap_or(i64::MAX);
            let due_of = |line: &Line| {
                vec![
                    doc! { "$match": { "line": line.stored(), "run_at": { "$lte": at(self.now) } } },
                    doc! { "$sort": { "run_at": 1, "_id": 1 } },
                    doc! { "$limit": limit },
                    doc! { "$project": { "_id": 1 } },
                ]
            };
            let rows = union(self.store, part.iter().map(due_of)).await?;
            ids.extend(rows.iter().filter_map(|row| text(row, "_id")));
        }
        promote_all(self.store, &ids, self.now).await?;
        Ok(true)
    }

    /// Reads some lines from where they are known to have work.
    async fn read(
        &self,
        known: &Known,
        lines: &BTreeSet<Line>,
        limit: usize,
        read: &mut HashMap<Line, Read>,
    ) -> std::result::Result<(), Fault> {
        let limit = self.spread(limit);
        let all: Vec<&Line> = lines.iter().collect();
        for part in all.chunks(UNIONS) {
            let rows = union(self.store, part.iter().map(|line| heads(line, known, limit))).await?;
            for line in part {
                read.insert((*line).clone(), Read::default());
            }
            for row in &rows {
                head(row, read)?;
            }
            for line in part {
                if let Some(read) = read.get_mut(*line) {
                    self.sample(line, read, limit);
                }
            }
        }
        Ok(())
    }

    fn spread(&self, limit: usize) -> usize {
        if self.met { limit.saturating_mul(SPREAD).min(4096) } else { limit }
    }

    /// After it met another, its candidates are drawn by lot.
    fn sample(&self, _: &Line, read: &mut Read, limit: usize) {
        read.more = limit > 0 && read.heads.len() >= limit;
        let keep = read.heads.len().div_ceil(SPREAD);
        if self.met && read.heads.len() > SPREAD {
            while read.heads.len() > keep {
                read.heads.remove(fastrand::usize(..read.heads.len()));
            }
            read.more = true;
        }
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
    fn advance(
        &self,
        known: &mut Known,
        chosen: &[(Line, Head)],
        read: &HashMap<Line, Read>,
    ) {
        if self.met {
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
    async fn charge(&self, known: &mut Known) -> std::result::Result<bool, Fault> {
        if !known.turns.is_charged() {
            return Ok(true);
        }
        let db = &self.store.db;
        let statement = known.turns.statement(self.request.queue());
        let update = doc! { "update": db.name("turns"), "updates": [statement] };
        let written = db.hint(update).await?;
        if written.count == 1 {
            known.turns.written();
            return Ok(true);
        }
        known.turns = self.document("turns").await?.map(|row| Turns::read(&row)).unwrap_or_default();
        tokio::time::sleep(Duration::from_micros(fastrand::u64(..1000))).await;
        Ok(false)
    }

    /// Takes those that are still in line. Beside it, that this nonce took something: a repetition
    /// takes nothing more, even when all of it has ended.
    async fn claim(&self, chosen: &[(Line, Head)]) -> std::result::Result<usize, Fault> {
        let db = &self.store.db;
        let ids: Vec<&str> = chosen.iter().map(|(_, (_, id))| id.as_str()).collect();
        let lease = delay_millis(self.request.leased_for().length());
        let nonce = self.request.nonce_of().0;
        let started = doc! { "$cond": [{ "$eq": ["$scope", 2] }, "$$REMOVE", "$held"] };
        let claim = doc! { "$set": {
            "state": 2_i32,
            "fence": { "$add": ["$fence", 1_i64] },
            "attempt": { "$add": ["$attempt", 1_i32] },
            "nonce": nonce,
            "run": nonce,
            "worker": { "$literal": self.request.worker() },
            "started_at": "$$NOW",
            "renewed_at": "$$NOW",
            "lease_until": { "$add": ["$$NOW", lease] },
            "held": started,
            "line": "$$REMOVE",
            "outcome": "$$REMOVE",
        } };
        let statement = doc! {
            "q": { "_id": { "$in": ids }, "state": 1_i32 },
            "u": [claim],
            "multi": true,
        };
        let record = doc! {
            "insert": db.name("taken"),
            "documents": [{ "_id": nonce, "at": at(self.now) }],
        };
        let (claimed, recorded) =
            tokio::join!(db.update("jobs", vec![statement]), db.hint(record));
        recorded?;
        Ok(claimed?.count)
    }

    /// A repetition: what is still held, its lease from now, as the worker's own clock counts.
    async fn held(&self) -> std::result::Result<Reserved, Fault> {
        let lease = delay_millis(self.request.leased_for().length());
        let extend = doc! { "$set": {
            "renewed_at": "$$NOW", "lease_until": { "$add": ["$$NOW", lease] },
        } };
        let nonce = self.request.nonce_of().0;
        let statement = doc! { "q": { "run": nonce }, "u": [extend], "multi": true };
        self.store.db.update("jobs", vec![statement]).await?;
        let deliveries = self.deliveries(&[], Vec::new()).await?;
        Ok(Reserved { deliveries, next_due: None })
    }

    /// All that is held under this nonce, in the order in which it was chosen, after what is known.
    async fn deliveries(
        &self,
        chosen: &[(Line, Head)],
        known: Vec<Delivery>,
    ) -> std::result::Result<Vec<Delivery>, Fault> {
        let db = &self.store.db;
        let nonce = self.request.nonce_of().0;
        let rows = db.rows(doc! {
            "find": db.name("jobs"),
            "filter": { "run": nonce },
            "projection": { "attempts": 0 },
            "batchSize": 1100,
        });
        let rows = rows.await?;
        self.store.remember(self.request.nonce_of(), self.request.queue());
        let mut order = HashMap::new();
        for held in &known {
            order.insert(row::id(&held.claim.job), order.len());
        }
        for (_, (_, id)) in chosen {
            let next = order.len();
            order.entry(id.clone()).or_insert(next);
        }
        let place = |delivery: &Delivery| {
            order.get(&row::id(&delivery.claim.job)).copied().unwrap_or(usize::MAX)
        };
        let mut deliveries = Vec::with_capacity(rows.len());
        for row in &rows {
            match self.delivery(row) {
                Ok(delivery) => deliveries.push(delivery),
                Err(fault) => {
                    let error = fault.into_error("reserve");
                    tracing::error!(%error, "a job that cannot be read is left to its lease's end");
                }
            }
        }
        deliveries.sort_by_key(place);
        Ok(deliveries)
    }

    fn delivery(&self, row: &Document) -> std::result::Result<Delivery, Fault> {
        let job = row::job(row)?;
        let nonce = self.request.nonce_of();
        let fence = need(int(row, "fence"), "fence")?;
        let claim = Claim { job: job.job_ref(), fence, nonce };
        let attempt = small(need(int(row, "attempt"), "attempt")?);
        let suspect = row.get_bool("suspect").unwrap_or(false);
        Ok(Delivery { claim, job, attempt, suspect })
    }
}

/// The distinct lines that begin so, each with its first due time: one seek of the index a line.
pub(crate) fn walk(prefix: &str) -> Vec<Document> {
    // The character after the slash.
    let range = doc! { "$gte": format!("{prefix}/"), "$lt": format!("{prefix}0") };
    vec![
        doc! { "$match": { "line": range } },
        doc! { "$sort": { "line": 1, "run_at": 1, "_id": 1 } },
        doc! { "$group": { "_id": "$line", "run_at": { "$first": "$run_at" } } },
        doc! { "$project": { "_id": 0, "walked": "$_id", "run_at": 1 } },
    ]
}

/// The first jobs of a line from its place on, by the index alone.
fn heads(line: &Line, known: &Known, limit: usize) -> Vec<Document> {
    let from = known.lines.get(line).copied().unwrap_or(i64::MIN);
    let limit = i64::try_from(limit.max(1)).unwrap_or(i64::MAX);
    vec![
        doc! { "$match": { "line": line.stored(), "run_at": { "$gte": at(from) } } },
        doc! { "$sort": { "run_at": 1, "_id": 1 } },
        doc! { "$limit": limit },
        doc! { "$project": { "_id": 1, "run_at": 1, "line": 1 } },
    ]
}

fn head(row: &Document, read: &mut HashMap<Line, Read>) -> std::result::Result<(), Fault> {
    let line = need(text(row, "line").as_deref().and_then(Line::read), "line")?;
    let head = (need(date(row, "run_at"), "run_at")?, need(text(row, "_id"), "_id")?);
    read.entry(line).or_default().heads.push(head);
    Ok(())
}

/// Several pipelines on the jobs in one statement.
pub(crate) async fn union(
    store: &Mongo,
    mut pipelines: impl Iterator<Item = Vec<Document>>,
) -> std::result::Result<Vec<Document>, Fault> {
    let name = store.db.name("jobs");
    let Some(mut pipeline) = pipelines.next() else { return Ok(Vec::new()) };
    let rest = pipelines.map(|pipeline| doc! { "$unionWith": { "coll": &name, "pipeline": pipeline } });
    pipeline.extend(rest);
    store.db.rows(doc! { "aggregate": &name, "pipeline": pipeline, "cursor": {} }).await
}

/// Puts these scheduled jobs in line, as far as they were due at `now` by the server's clock.
pub(crate) async fn promote_all(
    store: &Mongo,
    ids: &[String],
    now: i64,
) -> std::result::Result<usize, Fault> {
    if ids.is_empty() {
        return Ok(0);
    }
    let ids: Vec<Bson> = ids.iter().map(|id| Bson::String(id.clone())).collect();
    let statement = doc! {
        "q": { "_id": { "$in": ids }, "state": 0_i32, "run_at": { "$lte": at(now) } },
        "u": [{ "$set": { "state": 1_i32, "line": Line::expression(true), "cold": "$$REMOVE" } }],
        "multi": true,
    };
    Ok(store.db.update("jobs", vec![statement]).await?.count)
}
