//! What a handle knows of the lines with work: which there are, and from which place on.
//!
//! A reserve asks for jobs from these places on, so it never walks over what was taken before it: dead
//! entries of an index that a long snapshot keeps from being vacuumed cost it nothing. What lies before
//! a place, because it was committed late or put back by another handle, is found by the next look at
//! all lines, a fifth of a second later while anybody reserves, or at once when the known lines do not
//! fill the wish. With thousands of lines a look takes long and is made less often, so what no wake-up
//! tells of is found later than that. What this handle puts in line itself lowers the place, so it is seen at once.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use uuid::Uuid;

/// How old a look may be. With the call that looks again it is within the 250 ms of R6.
const LOOK: Duration = Duration::from_millis(200);
/// A look that took longer than this is made less often: it shall not cost more than a tenth of the
/// time.
const LONG: Duration = Duration::from_millis(20);
/// Lines that are sent all, however few jobs are wanted.
const FEW: usize = 32;

/// One name of one tenant, suspect or not, of one priority: its jobs in the order of (due, id).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
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
    /// The lane's finish and last visit there as last read: no later than they are.
    finish: i64,
    visited: i64,
}

/// The last look at all lines of a name.
#[derive(Clone, Copy, Debug)]
struct Look {
    at: Instant,
    /// How long it took.
    took: Duration,
    /// Every job that was due before is in line.
    since: i64,
    /// When this handle last scheduled a job.
    noted: u64,
}

#[derive(Debug, Default)]
struct Known {
    lines: BTreeMap<Line, From>,
    looked: HashMap<String, Look>,
    /// By name, its virtual now as last read.
    nows: HashMap<String, i64>,
}

#[derive(Debug, Default)]
struct Inner {
    queues: HashMap<String, Known>,
    /// Counts what is noted and answered.
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
    /// Others are known, whose lanes come later.
    pub more: bool,
    count: u64,
    at: Instant,
}

/// What a reserve answered about lines.
#[derive(Debug, Default)]
pub(crate) struct Answered {
    pub looked: bool,
    /// How long it took to look.
    pub took: Duration,
    pub due_since: i64,
    pub lines: Vec<Told>,
    /// Virtual nows of names.
    pub nows: Vec<(String, i64)>,
}

/// What a reserve answered about one line.
#[derive(Debug)]
pub(crate) struct Told {
    pub line: Line,
    /// From here on it may have jobs.
    pub place: Place,
    /// It has some.
    pub some: bool,
    /// The lane's finish and last visit, where they were read.
    pub charged: Option<(i64, i64)>,
}

impl Known {
    /// The lines of the lanes that are next, by name the least lag and then longest without a visit,
    /// and whether there are others. Several times what one reserve visits: other handles may have
    /// visited some of them meanwhile.
    fn next(&self, names: &[String], most: usize) -> (Vec<(Line, Place)>, bool) {
        let of_names = |(line, _): &(&Line, &From)| names.binary_search(&line.name).is_ok();
        let lines = || self.lines.iter().filter(of_names);
        let sent = |(line, from): (&Line, &From)| (line.clone(), from.place);
        let wanted = FEW + most / 2;
        if self.lines.len() <= wanted {
            return (lines().map(sent).collect(), false);
        }
        let mut by_name = HashMap::<&str, Vec<(i64, i64, &str)>>::new();
        for (line, from) in lines() {
            let now = self.nows.get(&line.name).copied().unwrap_or_default();
            let turn = (from.finish.saturating_sub(now).max(0), from.visited, &*line.tenant);
            by_name.entry(&line.name).or_default().push(turn);
        }
        let mut chosen = HashSet::new();
        for turns in by_name.values_mut() {
            if turns.len() > wanted {
                turns.select_nth_unstable(wanted);
            }
            chosen.extend(turns.iter().take(wanted).map(|turn| turn.2));
        }
        let (chosen, others): (Vec<_>, Vec<_>) =
            lines().partition(|(line, _)| chosen.contains(&*line.tenant));
        (chosen.into_iter().map(sent).collect(), !others.is_empty())
    }
}

impl Frontier {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        // Nothing under this lock can panic half way, so a poisoned map is whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The lines of `names` for a reserve of `most`, and whether it is time to look for all again.
    pub fn ask(&self, queue: &str, names: &[String], most: usize) -> Asked {
        let inner = self.lock();
        let (count, at) = (inner.count, Instant::now());
        let look = Asked { look: true, due_since: 0, lines: Vec::new(), more: false, count, at };
        let Some(known) = inner.queues.get(queue) else { return look };
        let looks = names.iter().map(|name| known.looked.get(name));
        let Some(looks) = looks.collect::<Option<Vec<_>>>() else { return look };
        let old =
            |look: &&Look| at - look.at >= if look.took > LONG { 10 * look.took } else { LOOK };
        if looks.iter().any(old) {
            return look;
        }
        let due_since = looks.iter().map(|look| look.since).min().unwrap_or_default();
        let (lines, more) = known.next(names, most);
        Asked { look: false, due_since, lines, more, count, at }
    }

    /// Takes note of what the reserve answered.
    pub fn answered(&self, queue: &str, names: &[String], asked: &Asked, answered: Answered) {
        let mut inner = self.lock();
        inner.count += 1;
        let known = inner.queues.entry(queue.to_owned()).or_default();
        known.nows.extend(answered.nows);
        let took = answered.took;
        let mut charged = HashMap::new();
        if answered.looked {
            known.lines.retain(|line, from| {
                let stays = from.noted > asked.count || names.binary_search(&line.name).is_err();
                if !stays {
                    charged.insert(line.clone(), (from.finish, from.visited));
                }
                stays
            });
        }
        for name in names {
            let since = answered.due_since;
            match known.looked.get_mut(name) {
                Some(look) if look.noted > asked.count => look.since = look.since.min(since),
                Some(look) => look.since = since,
                None if answered.looked => {
                    known.looked.insert(name.clone(), Look { at: asked.at, took, since, noted: 0 });
                }
                None => {}
            }
            if let (true, Some(look)) = (answered.looked, known.looked.get_mut(name)) {
                (look.at, look.took) = (asked.at, took);
            }
        }
        for Told { line, place, some, charged: read } in answered.lines {
            match known.lines.get_mut(&line) {
                Some(from) => {
                    (from.finish, from.visited) = read.unwrap_or((from.finish, from.visited));
                    if from.noted > asked.count {
                        // Somebody of this handle put a job there meanwhile.
                        from.place = from.place.min(place);
                    } else if some {
                        from.place = place;
                    } else {
                        known.lines.remove(&line);
                    }
                }
                None if some => {
                    let (finish, visited) =
                        read.or_else(|| charged.get(&line).copied()).unwrap_or_default();
                    known.lines.insert(line, From { place, noted: 0, finish, visited });
                }
                None => {}
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
            let from =
                known.lines.entry(line).or_insert(From { place, noted, finish: 0, visited: 0 });
            (from.place, from.noted) = (from.place.min(place), noted);
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
