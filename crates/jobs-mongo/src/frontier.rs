//! What a handle knows of one queue: the lines with work, and from which place on.
//!
//! A line is the jobs in line of one lane, name, priority and suspicion, in the order of (due, id);
//! it is one value of the field `line`. A reserve reads a line from the place on that it came to
//! before: entries of the index that were removed are walked over for as long as the server keeps
//! them, 9,999 of them after 10,000 claims, and a reserve of ten then takes 7.5 ms where it took 0.5.
//! What lies before a place, because another handle put it back, is found by the next look
//! at all lines, every 200 ms while anybody reserves, or at once when the known lines do not fill the
//! wish. What is pushed lowers the place at once, here and, by the wake-up that names its line, in
//! every process that listens. Lines that are not due yet are known as well, so that nobody has to
//! look for what comes due.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use jobs_core::AuthorizedJob;

use crate::{settings::Settings, turns::Turns};

/// How old a look may be. With the call that looks again it is within the 250 ms of R6.
const LOOK: Duration = Duration::from_millis(200);
/// A look that took longer than this is made less often: it shall not cost more than a tenth of the
/// time.
const LONG: Duration = Duration::from_millis(20);

/// One name of one tenant, suspect or not, of one priority, in line or not due yet.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Line {
    pub ready: bool,
    pub queue: String,
    pub name: String,
    pub suspect: bool,
    pub tenant: String,
    /// Three digits that sort as deliveries do: 100 less the priority.
    pub rank: String,
}

impl Line {
    /// Of a new job.
    pub fn of(job: &AuthorizedJob, ready: bool) -> Self {
        Self {
            ready,
            queue: job.queue.clone(),
            name: job.name.clone(),
            suspect: false,
            tenant: job.tenant.clone(),
            rank: Self::rank_of(job.priority),
        }
    }

    pub fn rank_of(priority: i16) -> String {
        format!("{:03}", 100 - i32::from(priority))
    }

    /// As it is stored; no name or tenant has a `/`.
    pub fn stored(&self) -> String {
        let Self { queue, name, tenant, rank, .. } = self;
        let (kind, suspect) = (if self.ready { 'r' } else { 's' }, u8::from(self.suspect));
        format!("{kind}/{queue}/{name}/{suspect}/{tenant}/{rank}")
    }

    pub fn read(stored: &str) -> Option<Self> {
        let mut parts = stored.split('/');
        let mut next = || parts.next();
        let ready = match next()? {
            "r" => true,
            "s" => false,
            _ => return None,
        };
        let (queue, name) = (next()?.to_owned(), next()?.to_owned());
        let suspect = next()? == "1";
        let (tenant, rank) = (next()?.to_owned(), next()?.to_owned());
        Some(Self { ready, queue, name, suspect, tenant, rank })
    }

    /// The expression of the line of a parked job, which is only counted.
    pub fn parked() -> mongodb::bson::Document {
        mongodb::bson::doc! { "$concat": ["p/", "$queue", "/", "$tenant"] }
    }

    /// The expression by which an update writes the line of a document that is put in one.
    pub fn expression(ready: bool) -> mongodb::bson::Document {
        let kind = if ready { "r/" } else { "s/" };
        let suspect = mongodb::bson::doc! { "$cond": ["$suspect", "1", "0"] };
        mongodb::bson::doc! {
            "$concat": [kind, "$queue", "/", "$name", "/", suspect, "/", "$tenant", "/", "$rank"]
        }
    }
}

/// What is known of one queue, for one reserve at a time.
#[derive(Debug, Default)]
pub(crate) struct Known {
    /// The lines with work, and the due time from which on they may have it.
    pub lines: BTreeMap<Line, i64>,
    /// By name, when its lines were last looked for, and whether something was put in line since,
    /// in which line is not known.
    looked: HashMap<String, (Instant, bool)>,
    pub settings: Settings,
    pub turns: Turns,
    /// How long the last look took.
    pub took: Duration,
    /// When a reserve last found that another had taken what it had chosen.
    pub met: Option<Instant>,
    /// The same will be so from this time of the server's on.
    soon: Option<i64>,
}

impl Known {
    /// Is it time to look at all lines of these names? `now` is the server's. Where the known lines
    /// do not fill a wish there is a look whatever this says.
    pub fn is_old(&mut self, names: &[String], now: Option<i64>) -> bool {
        if self.soon.is_some_and(|soon| now.is_none_or(|now| soon <= now)) {
            self.soon = None;
            self.missed();
        }
        let brake = if self.took > LONG { 10 * self.took } else { Duration::ZERO };
        let fresh = |(at, missed): &(Instant, bool)| {
            at.elapsed() < if *missed { brake } else { LOOK.max(brake) }
        };
        !names.iter().all(|name| self.looked.get(name).is_some_and(fresh))
    }

    fn missed(&mut self) {
        self.looked.values_mut().for_each(|(_, missed)| *missed = true);
    }

    /// A look that began then found these lines of these names.
    pub fn looked(&mut self, names: &[String], found: BTreeMap<Line, i64>, began: Instant) {
        self.took = began.elapsed();
        self.lines.retain(|line, _| names.binary_search(&line.name).is_err());
        self.lines.extend(found);
        self.looked.extend(names.iter().map(|name| (name.clone(), (began, false))));
    }
}

/// What was put in line while a reserve may have been on its way.
#[derive(Debug, Default)]
struct Notes {
    lines: HashMap<Line, i64>,
    look: bool,
    soon: Option<i64>,
    forget: bool,
}

/// Lines noted for a queue that nobody reserves from; then there is a look.
const NOTED: usize = 10_000;

/// One queue of one handle.
#[derive(Debug, Default)]
pub(crate) struct Place {
    /// One reserve at a time: two of one process would only take each other's jobs.
    pub known: tokio::sync::Mutex<Known>,
    notes: Mutex<Notes>,
}

impl Place {
    /// Applies what was noted; what a reserve meanwhile concluded is less than that.
    pub fn noted(&self, known: &mut Known) {
        let notes = std::mem::take(&mut *lock(&self.notes));
        if notes.forget {
            *known = Known { turns: std::mem::take(&mut known.turns), ..Known::default() };
        }
        if notes.look {
            known.missed();
        }
        known.soon = [known.soon, notes.soon].into_iter().flatten().min();
        // Names that nobody asks for here cost nothing; the first look at one finds its lines.
        let asked = |(line, _): &(Line, i64)| known.looked.contains_key(&line.name);
        let lines: Vec<_> = notes.lines.into_iter().filter(asked).collect();
        for (line, due) in lines {
            let place = known.lines.entry(line).or_insert(due);
            *place = due.min(*place);
        }
    }
}

/// What a handle knows, of all queues.
#[derive(Debug, Default)]
pub(crate) struct Frontier(Mutex<HashMap<String, Arc<Place>>>);

impl Frontier {
    /// That of one queue.
    pub fn place(&self, queue: &str) -> Arc<Place> {
        lock(&self.0).entry(queue.to_owned()).or_default().clone()
    }

    /// Jobs were put into these lines, due then. A queue that nobody reserves from here is not
    /// known.
    pub fn note<'l>(&self, lines: impl IntoIterator<Item = (&'l Line, i64)>) {
        let places = lock(&self.0);
        for (line, due) in lines {
            let Some(place) = places.get(&line.queue) else { continue };
            let mut notes = lock(&place.notes);
            if notes.lines.len() >= NOTED {
                notes.lines = HashMap::new();
                notes.look = true;
            }
            let noted = notes.lines.entry(line.clone()).or_insert(due);
            *noted = due.min(*noted);
        }
    }

    fn each(&self, queue: Option<&str>, change: impl Fn(&mut Notes)) {
        let places = lock(&self.0);
        let chosen = places.iter().filter(|(name, _)| queue.is_none_or(|queue| queue == *name));
        chosen.for_each(|(_, place)| change(&mut lock(&place.notes)));
    }

    /// Something was put in line in this queue, or in any.
    pub fn look(&self, queue: Option<&str>) {
        self.each(queue, |notes| notes.look = true);
    }

    /// Something will be due in it then, by the server's clock.
    pub fn look_at(&self, queue: Option<&str>, due: i64) {
        self.each(queue, |notes| notes.soon = Some(notes.soon.map_or(due, |soon| soon.min(due))));
    }

    /// Everything is looked for again, because anything may have changed.
    pub fn forget(&self) {
        self.each(None, |notes| notes.forget = true);
    }

    /// The same for one queue.
    pub fn forget_queue(&self, queue: &str) {
        self.each(Some(queue), |notes| notes.forget = true);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Every change under these locks is one call, so what a panic left is whole.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read_as_it_is_stored_and_sorts_by_priority() {
        let line = |priority: i16| Line {
            ready: true,
            queue: "a.b:c".into(),
            name: "send-it".into(),
            suspect: true,
            tenant: "acme_1".into(),
            rank: Line::rank_of(priority),
        };
        for priority in [-100, -1, 0, 1, 100] {
            assert_eq!(Line::read(&line(priority).stored()), Some(line(priority)));
        }
        assert!(line(100).stored() < line(0).stored() && line(0).stored() < line(-100).stored());
        assert_eq!(Line::read("x/a"), None);
    }
}
