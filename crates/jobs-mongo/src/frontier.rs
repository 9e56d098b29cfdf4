//! What a handle knows of one queue: the lines with work, and from which place on.
//!
//! A line is the jobs in line of one lane, name, priority and suspicion, in the order of (due, id);
//! it is one value of the field `line`. A reserve reads a line from the place on that it came to
//! before: entries of the index that were removed are walked over for as long as the server keeps
//! them, 9,999 of them after 10,000 claims, and a reserve of ten then takes 7.5 ms where it took 0.5.
//! What lies before a place, because another handle pushed or put it back, is found by the next look
//! at all lines, every 200 ms while anybody reserves, or at once when the known lines do not fill the
//! wish. What this handle itself puts in line lowers the place at once.

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
    /// By name, when its lines were last looked for, and when its next scheduled job is due.
    pub looked: HashMap<String, Look>,
    pub settings: Settings,
    pub turns: Turns,
    /// How long the last look took.
    pub took: Duration,
    /// When a reserve last found that another had taken what it had chosen.
    pub met: Option<Instant>,
}

/// The last look at a name.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Look {
    pub at: Instant,
    pub next_due: Option<i64>,
}

impl Known {
    /// Is it time to look at all lines of these names? `now` is the server's.
    pub fn is_old(&self, names: &[String], now: Option<i64>) -> bool {
        let most = if self.took > LONG { 10 * self.took } else { LOOK };
        let fresh = |look: &Look| {
            let due = look.next_due.is_some_and(|due| now.is_none_or(|now| due <= now));
            look.at.elapsed() < most && !due
        };
        !names.iter().all(|name| self.looked.get(name).is_some_and(fresh))
    }
}

/// What was put in line while a reserve may have been on its way.
#[derive(Debug, Default)]
struct Notes {
    lines: HashMap<Line, i64>,
    forget: bool,
}

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
        for (line, due) in notes.lines {
            if line.ready {
                let place = known.lines.entry(line).or_insert(due);
                *place = due.min(*place);
            } else if let Some(look) = known.looked.get_mut(&line.name) {
                look.next_due = Some(look.next_due.map_or(due, |next| next.min(due)));
            }
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

    /// This handle put jobs into these lines, due then. A queue that nobody reserves from here is
    /// not known.
    pub fn note<'l>(&self, lines: impl IntoIterator<Item = (&'l Line, i64)>) {
        let places = lock(&self.0);
        for (line, due) in lines {
            let Some(place) = places.get(&line.queue) else { continue };
            let mut notes = lock(&place.notes);
            let noted = notes.lines.entry(line.clone()).or_insert(due);
            *noted = due.min(*noted);
        }
    }

    /// Everything is looked for again, because anything may have changed.
    pub fn forget(&self) {
        for place in lock(&self.0).values() {
            lock(&place.notes).forget = true;
        }
    }

    /// The same for one queue.
    pub fn forget_queue(&self, queue: &str) {
        if let Some(place) = lock(&self.0).get(queue) {
            lock(&place.notes).forget = true;
        }
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
