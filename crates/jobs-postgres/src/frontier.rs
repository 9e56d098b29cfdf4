//! What a handle knows of the lines with work: which there are, and from which place on.
//!
//! A reserve asks for jobs from these places on, so it never walks over what was taken before it: dead
//! entries of an index that a long snapshot keeps from being vacuumed cost it nothing. What lies before
//! a place, because it was committed late or put back by another handle, is found by the next look, a
//! fifth of a second later while anybody reserves. What this handle puts in line itself lowers the
//! place, so it is seen at once.
//!
//! Such a look reads the dead entries before each line's head. Where that takes longer than [`LONG`], it is
//! made less often, and those between step over the known lines: what is new is found as soon as ever,
//! and only what lies before a known place is found later.
//!
//! A look goes from line to line, at most [`LOOK_MOST`] of them, and the next goes on where it ended: its
//! cost is bounded, and of more lines each is looked at once in as many looks as it takes to get around.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use uuid::Uuid;

/// How old a look may be. With the call that looks again it is within the 250 ms of R6.
const LOOK: Duration = Duration::from_millis(200);
/// A look at all that takes longer is made less often: it shall not cost more than a tenth of the time.
const LONG: Duration = Duration::from_millis(20);
/// The most lines of one look: a seek of an index each.
pub(crate) const LOOK_MOST: usize = 500;
/// Lines that are sent all, however few jobs are wanted.
const FEW: usize = 32;

/// One name of one tenant, suspect or not: its jobs in the order of [`Place`].
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Line {
    pub name: String,
    pub suspect: bool,
    pub tenant: String,
}

/// A place in a line: the negated priority, due, id.
pub(crate) type Place = (i16, i64, Uuid);

#[derive(Clone, Copy, Debug)]
struct From {
    place: Place,
    /// When this handle last put a job there.
    noted: u64,
    /// The lane's finish and last visit there as last read: no later than they are.
    finish: i64,
    visited: i64,
    /// It had no job when last read.
    empty: bool,
}

/// The last look at the lines of some names.
#[derive(Clone, Debug)]
struct Look {
    at: Instant,
    /// The last one at all lines, known ones too, and how long it took.
    all: (Instant, Duration),
    /// Where the next one goes on.
    after: Line,
    /// All lines were looked at once.
    whole: bool,
    /// Every job that was due before is in line.
    since: i64,
    /// When this handle last scheduled a job.
    noted: u64,
    /// The tenant after which a crowd that came due at once goes on.
    crowd_after: String,
}

#[derive(Debug, Default)]
struct Known {
    /// When this began to be known: what was asked before says nothing of it.
    since: u64,
    lines: BTreeMap<Line, From>,
    /// By the names that a reserve asks for.
    looks: HashMap<Vec<String>, Look>,
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
    /// Look for lines, on from this one.
    pub look: Option<Line>,
    /// Also at those that are known.
    pub all: bool,
    /// No scheduled job is due before.
    pub due_since: i64,
    pub crowd_after: String,
    pub lines: Vec<(Line, Place)>,
    /// Others are known, whose lanes come later.
    pub more: bool,
    count: u64,
    at: Instant,
}

/// What a reserve answered about lines.
#[derive(Debug, Default)]
pub(crate) struct Answered {
    /// The look ended here for its bound; else it got around.
    pub looked_to: Option<Line>,
    /// What was wanted is not filled, and not everything was looked at: the next goes on at once.
    pub goes_on: bool,
    /// How long it took.
    pub took: Duration,
    pub due_since: i64,
    pub crowd_after: String,
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
    ///
    /// With `empty`, also those that had no job when last read.
    fn next(&self, names: &[String], most: usize, empty: bool) -> (Vec<(Line, Place)>, bool) {
        let of_names = |(line, from): &(&Line, &From)| {
            (empty || !from.empty) && names.binary_search(&line.name).is_ok()
        };
        let lines = || self.lines.iter().filter(of_names);
        let sent = |(line, from): (&Line, &From)| (line.clone(), from.place);
        let wanted = FEW + most / 2;
        if lines().nth(wanted).is_none() {
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

impl Look {
    /// One that got nowhere yet.
    fn none(at: Instant) -> Self {
        let (after, crowd_after) = (Line::default(), String::new());
        Self { at, all: (at, LOOK), after, whole: false, since: 0, noted: 0, crowd_after }
    }
}

impl Frontier {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        // Nothing under this lock can panic half way, so a poisoned map is whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The lines of `names` for a reserve of `most`, and whether it is time to look for more.
    pub fn ask(&self, queue: &str, names: &[String], most: usize) -> Asked {
        let mut inner = self.lock();
        let (count, at) = (inner.count, Instant::now());
        let new = || Known { since: count, ..Known::default() };
        let known = inner.queues.entry(queue.to_owned()).or_insert_with(new);
        // From now on what this handle puts in line is noted.
        let look = known.looks.entry(names.to_vec()).or_insert_with(|| Look::none(at)).clone();
        let looks = !look.whole || at - look.at >= LOOK;
        let (all_at, took) = look.all;
        let all = !look.whole || at - all_at >= if took > LONG { 10 * took } else { LOOK };
        let (lines, more) = known.next(names, most, looks && !all);
        let (due_since, crowd_after) = (look.since, look.crowd_after);
        let look = looks.then_some(look.after);
        Asked { look, all, due_since, crowd_after, lines, more, count, at }
    }

    /// Takes note of what the reserve answered.
    pub fn answered(&self, queue: &str, names: &[String], asked: &Asked, answered: Answered) {
        let mut inner = self.lock();
        inner.count += 1;
        let Some(known) = inner.queues.get_mut(queue) else { return };
        if known.since > asked.count {
            // Forgotten meanwhile, it is looked for again: what woke may have come after this answer.
            // The next look goes on all the same.
            if let (Some(look), true) = (known.looks.get_mut(names), asked.look.is_some()) {
                look.after = answered.looked_to.unwrap_or_default();
            }
            return;
        }
        known.nows.extend(answered.nows);
        let look = known.looks.entry(names.to_vec()).or_insert_with(|| Look::none(asked.at));
        let noted_since = look.noted > asked.count;
        look.since =
            if noted_since { look.since.min(answered.due_since) } else { answered.due_since };
        look.crowd_after = answered.crowd_after;
        look.whole &= !answered.goes_on;
        let mut charged = HashMap::new();
        if let Some(after) = &asked.look {
            let to = answered.looked_to;
            look.at = asked.at;
            if asked.all {
                look.all = (asked.at, answered.took);
            }
            look.whole |= to.is_none();
            look.after = to.clone().unwrap_or_default();
            known.lines.retain(|line, from| {
                let looked = line > after && to.as_ref().is_none_or(|to| line <= to);
                let stays = !looked
                    || !asked.all
                    || from.noted > asked.count
                    || names.binary_search(&line.name).is_err();
                if !stays {
                    charged.insert(line.clone(), (from.finish, from.visited));
                }
                stays
            });
        }
        for Told { line, place, some, charged: read } in answered.lines {
            match known.lines.get_mut(&line) {
                Some(from) => {
                    (from.finish, from.visited) = read.unwrap_or((from.finish, from.visited));
                    if from.noted > asked.count {
                        // Somebody of this handle put a job there meanwhile.
                        from.place = from.place.min(place);
                    } else {
                        (from.place, from.empty) = (place, !some);
                    }
                }
                None => {
                    let (finish, visited) =
                        read.or_else(|| charged.get(&line).copied()).unwrap_or_default();
                    let from = From { place, noted: 0, finish, visited, empty: !some };
                    known.lines.insert(line, from);
                }
            }
        }
    }

    /// This handle put a job in line whose priority, negated, and due time are these.
    pub fn note(&self, queue: &str, line: Line, (rank, due): (i16, i64)) {
        let mut inner = self.lock();
        inner.count += 1;
        let noted = inner.count;
        // A queue that nobody reserves from here is not known.
        let Some(known) = inner.queues.get_mut(queue) else { return };
        if known.looks.keys().any(|names| names.binary_search(&line.name).is_ok()) {
            let place = (rank, due, Uuid::nil());
            let new = From { place, noted, finish: 0, visited: 0, empty: false };
            let from = known.lines.entry(line).or_insert(new);
            (from.place, from.noted, from.empty) = (from.place.min(place), noted, false);
        }
    }

    /// This handle scheduled a job that is due at `due` or later.
    pub fn note_due(&self, queue: &str, name: &String, due: i64) {
        let mut inner = self.lock();
        inner.count += 1;
        let noted = inner.count;
        let Some(known) = inner.queues.get_mut(queue) else { return };
        for (names, look) in &mut known.looks {
            if names.binary_search(name).is_ok() {
                (look.since, look.noted) = (look.since.min(due), noted);
            }
        }
    }

    /// Everything is looked for again, because anything may have changed.
    pub fn forget(&self) {
        let mut inner = self.lock();
        inner.count += 1;
        inner.queues.clear();
    }

    /// Everything of one queue is looked for again, on from where its looks were: begun anew each time,
    /// those that somebody's steady pushes make would never see more lines than the first look does (R5).
    pub fn forget_queue(&self, queue: &str) {
        let mut inner = self.lock();
        inner.count += 1;
        let count = inner.count;
        let Some(known) = inner.queues.get_mut(queue) else { return };
        known.since = count;
        for look in known.looks.values_mut() {
            (look.whole, look.since) = (false, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: (i16, i64) = (0, 7);

    fn line(tenant: &str) -> Line {
        Line { name: "n".to_owned(), suspect: false, tenant: tenant.to_owned() }
    }

    fn ask(frontier: &Frontier) -> Asked {
        frontier.ask("q", &["n".to_owned()], 10)
    }

    fn answer(frontier: &Frontier, asked: &Asked, lines: &[(&str, bool)], to: Option<&str>) {
        let told = |(tenant, some): &(&str, bool)| Told {
            line: line(tenant),
            place: (0, 9, Uuid::nil()),
            some: *some,
            charged: None,
        };
        let lines = lines.iter().map(told).collect();
        let looked_to = to.map(line);
        let answered = Answered { lines, looked_to, ..Answered::default() };
        frontier.answered("q", &["n".to_owned()], asked, answered);
    }

    fn tenants(asked: &Asked) -> Vec<&str> {
        asked.lines.iter().map(|(line, _)| &*line.tenant).collect()
    }

    #[test]
    fn what_is_put_in_line_while_a_first_look_is_under_way_is_known() {
        let frontier = Frontier::default();
        let asked = ask(&frontier);
        frontier.note("q", line("b"), AT);
        answer(&frontier, &asked, &[("a", true)], None);
        let asked = ask(&frontier);
        assert_eq!((tenants(&asked), asked.look.clone()), (vec!["a", "b"], None));
    }

    #[test]
    fn what_wakes_while_a_look_is_under_way_is_looked_for_again() {
        let frontier = Frontier::default();
        for forget in [Frontier::forget, |frontier: &Frontier| frontier.forget_queue("q")] {
            answer(&frontier, &ask(&frontier), &[], None);
            let asked = ask(&frontier);
            assert!(asked.look.is_none());
            forget(&frontier);
            let asked = ask(&frontier);
            assert!(asked.look.is_some());
            forget(&frontier);
            answer(&frontier, &asked, &[], None);
            assert!(ask(&frontier).look.is_some());
        }
    }

    #[test]
    fn a_look_goes_on_where_it_ended_and_forgets_only_what_it_passed() {
        let frontier = Frontier::default();
        answer(&frontier, &ask(&frontier), &[("a", true), ("b", true)], Some("b"));
        let asked = ask(&frontier);
        assert_eq!(asked.look, Some(line("b")), "not yet around: at once, and on from there");
        answer(&frontier, &asked, &[("c", true)], None);
        let asked = ask(&frontier);
        assert_eq!((tenants(&asked), asked.look.clone()), (vec!["a", "b", "c"], None));
    }

    #[test]
    fn a_look_that_left_something_goes_on_at_once() {
        let frontier = Frontier::default();
        answer(&frontier, &ask(&frontier), &[("a", true)], None);
        let asked = ask(&frontier);
        assert!(asked.look.is_none(), "all is looked at");
        let (looked_to, goes_on) = (Some(line("b")), true);
        let answered = Answered { looked_to, goes_on, ..Answered::default() };
        frontier.answered("q", &["n".to_owned()], &asked, answered);
        assert!(ask(&frontier).look.is_some(), "but for what this one left");
    }

    #[test]
    fn wake_ups_do_not_begin_a_look_anew() {
        let frontier = Frontier::default();
        answer(&frontier, &ask(&frontier), &[("a", true), ("b", true)], Some("b"));
        frontier.forget_queue("q");
        let asked = ask(&frontier);
        assert_eq!((tenants(&asked), asked.look.clone()), (vec!["a", "b"], Some(line("b"))));
        assert!(asked.all && asked.due_since == 0, "what lies before a known place is looked for");
        // Nor one that comes while a look is under way.
        frontier.forget_queue("q");
        answer(&frontier, &asked, &[("c", true)], Some("c"));
        assert_eq!(ask(&frontier).look, Some(line("c")));
    }

    #[test]
    fn an_empty_line_is_kept_for_looks_that_step_over_it() {
        let frontier = Frontier::default();
        answer(&frontier, &ask(&frontier), &[("a", true), ("b", true)], None);
        answer(&frontier, &ask(&frontier), &[("a", false), ("b", true)], None);
        assert_eq!(tenants(&ask(&frontier)), ["b"]);
        frontier.note("q", line("a"), AT);
        assert_eq!(tenants(&ask(&frontier)), ["a", "b"]);
    }
}
