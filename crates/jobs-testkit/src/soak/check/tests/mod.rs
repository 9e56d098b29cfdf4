//! Each check finds what it is for: a run in order, with exactly one thing out of place.

mod claims;
mod ends;
mod keys;
mod leases;
mod own;
mod pushes;
mod runs;

use jobs_core::{Claim, JobId, Key, KeyScope, Nonce, OutcomeKind, State, Timestamp, view::Attempt};

use super::*;
use crate::soak::{
    ledger::{Answer, Event, How, Line, Told},
    schedule::Kind,
    store::{Kept, Offsets},
};

/// The machine's clock when a run begins, in milliseconds.
const BEGIN: i64 = 1_700_000_000_000;

/// A ledger and a store, as a run leaves them. Times are milliseconds from its beginning.
struct Scene {
    lines: Vec<Line>,
    store: Store,
    length: Duration,
    has: Faults,
    scheduled: Vec<Kind>,
}

impl Default for Scene {
    fn default() -> Self {
        let has = Faults { cut: true, clock: true, hold: true, restart: false };
        let (lines, scheduled) = (Vec::new(), Vec::new());
        Self { lines, store: Store::default(), length: Duration::ZERO, has, scheduled }
    }
}

fn micros(at: i64) -> i64 {
    (BEGIN + at) * 1000
}

fn stored_at(at: i64) -> Timestamp {
    Timestamp::from_millisecond(BEGIN + at).unwrap()
}

fn job(tenant: &str) -> JobRef {
    JobRef { tenant: tenant.into(), id: JobId::new() }
}

/// The attempt that its fence says, by w0.1.
fn attempt(fence: i64, from: i64, to: i64, outcome: OutcomeKind) -> Attempt {
    Attempt {
        number: u32::try_from(fence).unwrap(),
        fence,
        worker: "w0.1:8c5d".into(),
        started_at: stored_at(from),
        ended_at: stored_at(to),
        outcome,
        cause: None,
    }
}

impl Scene {
    fn say(&mut self, at: i64, by: &str, event: Event) {
        self.lines.push(Line { at: micros(at), by: by.into(), event });
    }

    fn push(&mut self, job: &JobRef, at: i64, answer: Answer) {
        self.push_as(job, at, ("quick", None), answer);
    }

    /// With a name and a key.
    fn push_as(&mut self, job: &JobRef, at: i64, (name, key): (&str, Option<Key>), answer: Answer) {
        let (queue, name) = ("main".to_owned(), name.to_owned());
        let (job, sent) = (job.clone(), micros(at) - 500);
        self.say(at, "p", Event::Pushed { job, queue, name, key, sent, answer });
    }

    fn take(&mut self, job: &JobRef, at: i64, by: &str, fence: i64) {
        let claims = vec![Claim { job: job.clone(), fence, nonce: Nonce(7) }];
        self.say(at, by, Event::Taken { queue: "main".into(), sent: micros(at) - 500, claims });
    }

    fn run(&mut self, job: &JobRef, (from, to): (i64, i64), by: &str, fence: i64, how: How) {
        let attempt = u32::try_from(fence).unwrap();
        self.start(job, (from, by), "quick", attempt, fence);
        self.end(job, (to, by), fence, how);
    }

    fn start(&mut self, job: &JobRef, (at, by): (i64, &str), name: &str, attempt: u32, fence: i64) {
        let (queue, name, payload) = ("main".to_owned(), name.to_owned(), job.id.to_string());
        let job = job.clone();
        self.say(at, by, Event::Start { job, queue, name, payload, attempt, fence });
    }

    fn end(&mut self, job: &JobRef, (at, by): (i64, &str), fence: i64, how: How) {
        self.say(at, by, Event::End { job: job.clone(), fence, how });
    }

    fn keep(&mut self, job: &JobRef, state: State, attempts: Vec<Attempt>) -> &mut Kept {
        let ended = attempts.last().map(|attempt| attempt.ended_at);
        let kept = Kept {
            state,
            queue: "main".into(),
            name: "quick".into(),
            payload: job.id.to_string(),
            key: None,
            // Whoever is parked has spent all.
            max_attempts: match (state, attempts.last()) {
                (State::Parked, Some(last)) => last.number,
                _ => 12,
            },
            pushed_at: stored_at(0),
            finished_at: ended.filter(|_| !state.is_live()),
            attempts,
            given_back: 0,
            has_cause: true,
        };
        self.store.jobs.insert(job.clone(), kept);
        self.store.jobs.get_mut(job).unwrap()
    }

    /// A job that was pushed, run once by w0.1 and done.
    fn done(&mut self, job: &JobRef) {
        self.push(job, 1, Answer::Stored);
        self.take(job, 10, "w0.1", 1);
        self.run(job, (13, 20), "w0.1", 1, How::Done);
        self.keep(job, State::Done, vec![attempt(1, 9, 22, OutcomeKind::Done)]);
    }

    /// A verb that is asked for, or its answer; that is of one asked for at once, if none was.
    fn verb(&mut self, job: &JobRef, at: i64, verb: &str, answer: Option<&str>) {
        let own = |line: &&Line| matches!(&line.event, Event::Verb { job: of, verb: asked, .. } if of == job && asked == verb);
        let last = self.lines.iter().rev().find(own);
        let open = last.is_some_and(|line| matches!(line.event, Event::Verb { answer: None, .. }));
        let line = |answer: Option<&str>| {
            let (verb, answer) = (verb.to_owned(), answer.map(str::to_owned));
            Event::Verb { verb, job: job.clone(), answer }
        };
        if answer.is_some() && !open {
            self.say(at, "coordinator", line(None));
        }
        self.say(at, "coordinator", line(answer));
    }

    /// A renewal by w0.1, answered held 5 ms later.
    fn renew(&mut self, job: &JobRef, at: i64, fence: i64) {
        let (sent, claims) = (micros(at), vec![(job.clone(), fence)]);
        self.say(at + 5, "w0.1", Event::Renewed { sent, claims });
    }

    /// A call by w0.1 that had no answer.
    fn fail(&mut self, call: &str, (from, to): (i64, i64)) {
        let (call, trouble) = (call.to_owned(), "too late".to_owned());
        self.say(to, "w0.1", Event::Call { call, sent: micros(from), trouble });
    }

    /// A settlement by `by`, sent a millisecond before.
    fn settle(
        &mut self,
        job: &JobRef,
        (at, by): (i64, &str),
        fence: i64,
        outcome: OutcomeKind,
        told: Option<Told>,
    ) {
        let (job, sent) = (job.clone(), micros(at - 1));
        self.say(at, by, Event::Settled { job, fence, outcome, sent, told });
    }

    fn late(&mut self, job: &JobRef, at: i64, fence: i64, told: Told) {
        self.late_as(job, at, (Some(OutcomeKind::Done), false), (fence, told), None);
    }

    /// By what it is, and whether it has another nonce.
    fn late_as(
        &mut self,
        job: &JobRef,
        at: i64,
        (outcome, forged): (Option<OutcomeKind>, bool),
        (fence, told): (i64, Told),
        changed: Option<String>,
    ) {
        let (job, sent) = (job.clone(), micros(at) - 500);
        self.say(at, "w3.1", Event::Late { job, fence, outcome, forged, sent, told, changed });
    }

    /// How far the store's clock is ahead.
    fn ahead(&mut self, at: i64, millis: i64) {
        self.say(at, "coordinator", Event::Ahead { millis, within: 1 });
    }

    fn fault(&mut self, at: i64, kind: Kind, who: Option<&str>, over: bool) {
        let who = who.map(str::to_owned);
        self.say(at, "coordinator", Event::Fault { number: 0, kind, who, over });
    }

    fn found(self) -> Vec<String> {
        let ledger = Ledger::of(self.lines);
        let (danger, clock) = (Danger::new(&ledger), Offsets::new(&ledger));
        let store = Store { clock, ..self.store };
        let (length, has) = (self.length, self.has);
        let scheduled = self.scheduled.into_iter().collect();
        let found = all(&Evidence { ledger, store, danger, length, has, scheduled });
        found.into_iter().map(|violation| violation.to_string()).collect()
    }

    #[track_caller]
    fn in_order(self) {
        assert_eq!(self.found(), [""; 0]);
    }

    #[track_caller]
    fn finds(self, promise: &str, what: &str) {
        let found = self.found();
        let [only] = &found[..] else { panic!("one thing is out of place, not {found:#?}") };
        assert!(only.starts_with(promise) && only.contains(what), "{only}");
    }
}

/// A run in order, its job, and what is changed about it.
fn scene(change: impl FnOnce(&mut Scene, &JobRef)) -> Scene {
    let (mut scene, job) = (Scene::default(), job("acme"));
    scene.done(&job);
    change(&mut scene, &job);
    scene
}

#[test]
fn a_run_in_order_has_nothing_out_of_place() {
    scene(|_, _| {}).in_order();
}

/// The first job has the key as well.
fn key_of(s: &mut Scene, first: &JobRef, scope: KeyScope) {
    let own = Some(Key { text: "k1".into(), scope });
    for line in &mut s.lines {
        if let Event::Pushed { job, key, .. } = &mut line.event
            && job == first
        {
            *key = own.clone();
        }
    }
    s.store.jobs.get_mut(first).unwrap().key = own;
}
