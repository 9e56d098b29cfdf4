//! What a handle knows of the lines with work: which there are, and from which place on.
//!
//! A reserve asks for jobs from these places on, so it never walks over what was taken before it: dead
//! entries of an index that a long snapshot keeps from being vacuumed cost it nothing. What lies before
//! a place, because it was committed late or put back by another handle, is found by the next look at
//! all lines, a fifth of a second later at most while anybody reserves, or at once when the known lines
//! do not fill the wish. What this handle puts in line itself lowers the place, so it is seen at once.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use uuid::Uuid;

/// How old a look may be. With the call that looks again it is within the 250 ms of R6.
const LOOK: Duration = Duration::from_millis(200);
/// Most lines of one reserve: the lanes longest without a visit of this handle's.
const MOST: usize = 400;

/// One name of one tenant, suspect or not, of one priority: its jobs in the order of (due, id).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Line {
    pub name: String,
    pub suspect: bool,
    pub tenant: String,
    /// The negated priority.
    pub rank: i16,
}

/// A place in a line: due, then id.
pub(crate) type Place = (i64, Uuid);

#[derive(Clone, Copy, Debug)]
struct From {
    place: Place,
    /// When this handle last put a job there.
    noted: u64,
}

/// The last look at all lines of a name.
#[derive(Clone, Copy, Debug)]
struct Look {
    at: Instant,
    /// Every job that was due before is in line.
    since: i64,
    /// When this handle last scheduled a job.
    noted: u64,
}

#[derive(Debug, Default)]
struct Known {
    lines: BTreeMap<Line, From>,
    looked: HashMap<String, Look>,
    /// By tenant, the number of its last visit.
    visits: HashMap<String, u64>,
}

#[derive(Debug, Default)]
struct Inner {
    queues: HashMap<String, Known>,
    /// Counts what is noted and visited.
    count: u64,
}

/// What a handle knows, of all queues.
#[derive(Debug, Default)]
pub(crate) struct Frontier(Mutex<Inner>);

/// What a reserve asks with.
#[derive(Debug)]
pub(crate) struct Asked {
    pub look: bool,
    /// No scheduled job is due before.
    pub due_since: i64,
    pub lines: Vec<(Line, Place)>,
    count: u64,
    at: Instant,
}

/// What a reserve answered about lines.
#[derive(Debug, Default)]
pub(crate) struct Answered {
    pub looked: bool,
    pub due_since: i64,
    /// Those with work from a place on, and those without.
    pub lines: Vec<(Line, Place, bool)>,
}

impl Frontier {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        // Nothing under this lock can panic half way, so a poisoned map is whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The lines of `names`, and whether it is time to look for all again.
    pub fn ask(&self, queue: &str, names: &[String]) -> Asked {
        let inner = self.lock();
        let (count, at) = (inner.count, Instant::now());
        let look = Asked { look: true, due_since: 0, lines: Vec::new(), count, at };
        let Some(known) = inner.queues.get(queue) else { return look };
        let looks = names.iter().map(|name| known.looked.get(name));
        let Some(looks) = looks.collect::<Option<Vec<_>>>() else { return look };
        if looks.iter().any(|look| at - look.at >= LOOK) {
            return look;
        }
        let due_since = looks.iter().map(|look| look.since).min().unwrap_or_default();
        let of_names = |(line, _): &(&Line, &From)| names.binary_search(&line.name).is_ok();
        let lines = known.lines.iter().filter(of_names);
        let mut lines: Vec<_> = lines.map(|(line, from)| (line.clone(), from.place)).collect();
        if lines.len() > MOST {
            let visit = |line: &Line| known.visits.get(&line.tenant).copied().unwrap_or_default();
            lines.sort_by_cached_key(|(line, _)| visit(line));
            lines.truncate(MOST);
        }
        Asked { look: false, due_since, lines, count, at }
    }

    /// Takes note of what the reserve answered.
    pub fn answered(
        &self,
        queue: &str,
        names: &[String],
        asked: &Asked,
        answered: Answered,
        visited: &[&str],
    ) {
        let mut inner = self.lock();
        inner.count += 1;
        let count = inner.count;
        let known = inner.queues.entry(queue.to_owned()).or_default();
        if answered.looked {
            known.lines.retain(|line, from| {
                from.noted > asked.count || names.binary_search(&line.name).is_err()
            });
        }
        for name in names {
            let since = answered.due_since;
            match known.looked.get_mut(name) {
                Some(look) if look.noted > asked.count => look.since = look.since.min(since),
                Some(look) => look.since = since,
                None if answered.looked => {
                    known.looked.insert(name.clone(), Look { at: asked.at, since, noted: 0 });
                }
                None => {}
            }
            if let (true, Some(look)) = (answered.looked, known.looked.get_mut(name)) {
                look.at = asked.at;
            }
        }
        for (line, place, some) in answered.lines {
            match known.lines.get_mut(&line) {
                // Somebody of this handle put a job there meanwhile.
                Some(from) if from.noted > asked.count => from.place = from.place.min(place),
                Some(from) if some => from.place = place,
                Some(_) => drop(known.lines.remove(&line)),
                None if some => drop(known.lines.insert(line, From { place, noted: 0 })),
                None => {}
            }
        }
        if known.visits.len() > 100_000 {
            known.visits.clear();
        }
        for tenant in visited {
            match known.visits.get_mut(*tenant) {
                Some(visit) => *visit = count,
                None => drop(known.visits.insert((*tenant).to_owned(), count)),
            }
        }
    }

    /// This handle put a job due at `due` in line.
    pub fn note(&self, queue: &str, line: Line, due: i64) {
        let mut inner = self.lock();
        inner.count += 1;
        let noted = inner.count;
        // A queue that nobody reserves from here is not known.
        let Some(known) = inner.queues.get_mut(queue) else { return };
        if known.looked.contains_key(&line.name) {
            let place = (due, Uuid::nil());
            let from = known.lines.entry(line).or_insert(From { place, noted });
            *from = From { place: from.place.min(place), noted };
        }
    }

    /// This handle scheduled a job that is due at `due` or later.
    pub fn note_due(&self, queue: &str, name: &str, due: i64) {
        let mut inner = self.lock();
        inner.count += 1;
        let noted = inner.count;
        let known = inner.queues.get_mut(queue);
        if let Some(look) = known.and_then(|known| known.looked.get_mut(name)) {
            *look = Look { since: look.since.min(due), noted, ..*look };
        }
    }

    /// Everything is looked for again, because anything may have changed.
    pub fn forget(&self) {
        self.lock().queues.clear();
    }

    /// The same for one queue.
    pub fn forget_queue(&self, queue: &str) {
        self.lock().queues.remove(queue);
    }
}
