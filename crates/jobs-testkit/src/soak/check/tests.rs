//! Each check finds what it is for: a run in order, with exactly one thing out of place.

use jobs_core::{Claim, JobId, Key, KeyScope, Nonce, OutcomeKind, State, Timestamp, view::Attempt};

use super::*;
use crate::soak::{
    ledger::{Answer, Event, How, Line},
    schedule::Kind,
    store::{Kept, Offsets},
};

/// The machine's clock when a run begins, in milliseconds.
const BEGIN: i64 = 1_700_000_000_000;

/// A ledger and a store, as a run leaves them. Times are milliseconds from its beginning.
#[derive(Default)]
struct Scene {
    lines: Vec<Line>,
    store: Store,
    length: Duration,
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

fn attempt(fence: i64, from: i64, to: i64, outcome: OutcomeKind) -> Attempt {
    Attempt {
        number: 1,
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
        let (queue, name) = ("main".to_owned(), "quick".to_owned());
        let (job, sent) = (job.clone(), micros(at) - 500);
        self.say(at, "p", Event::Pushed { job, queue, name, key: None, sent, answer });
    }

    fn take(&mut self, job: &JobRef, at: i64, by: &str, fence: i64) {
        let claims = vec![Claim { job: job.clone(), fence, nonce: Nonce(7) }];
        self.say(at, by, Event::Taken { queue: "main".into(), sent: micros(at) - 500, claims });
    }

    fn run(&mut self, job: &JobRef, (from, to): (i64, i64), by: &str, fence: i64, how: How) {
        let (name, job) = ("quick".to_owned(), job.clone());
        self.say(from, by, Event::Start { job: job.clone(), name, attempt: 1, fence });
        self.say(to, by, Event::End { job, fence, how });
    }

    fn keep(&mut self, job: &JobRef, state: State, attempts: Vec<Attempt>) -> &mut Kept {
        let ended = attempts.last().map(|attempt| attempt.ended_at);
        let kept = Kept {
            state,
            key: None,
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

    fn verb(&mut self, job: &JobRef, at: i64, verb: &str, answer: Option<&str>) {
        let (verb, answer) = (verb.to_owned(), answer.map(str::to_owned));
        self.say(at, "coordinator", Event::Verb { verb, job: job.clone(), answer });
    }

    fn fault(&mut self, at: i64, kind: Kind, who: Option<&str>, over: bool) {
        let who = who.map(str::to_owned);
        self.say(at, "coordinator", Event::Fault { number: 0, kind, who, over });
    }

    fn found(self) -> Vec<String> {
        let ledger = Ledger::of(self.lines);
        let (danger, clock) = (Danger::new(&ledger), Offsets::new(&ledger));
        let store = Store { clock, ..self.store };
        let found = all(&Evidence { ledger, store, danger, length: self.length });
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

const ENDS: &str = "an acknowledged push ends once";
const ONE: &str = "one holder at a time";
const STALE: &str = "no stale write is accepted";
const TAKEN: &str = "a live job is not taken";
const KEY: &str = "a key has one live job";
const SOON: &str = "a newcomer is served soon";

#[test]
fn a_run_in_order_has_nothing_out_of_place() {
    scene(|_, _| {}).in_order();
}

#[test]
fn a_job_pushed_again_after_its_end_is_another() {
    let again = |s: &mut Scene, job: &JobRef| {
        s.verb(job, 30, "cancel", Some("[Cancelled]"));
        s.verb(job, 31, "delete", Some("[Deleted]"));
        s.push(job, 40, Answer::Stored);
        s.take(job, 50, "w0.1", 1);
        s.run(job, (53, 60), "w0.1", 1, How::Done);
        s.keep(job, State::Done, vec![attempt(1, 49, 62, OutcomeKind::Done)]);
    };
    scene(again).in_order();
}

#[test]
fn pushes_and_their_ends() {
    scene(|s, job| drop(s.store.jobs.remove(job))).finds(ENDS, "gone");
    let stranger = |s: &mut Scene, _: &JobRef| _ = s.keep(&job("acme"), State::Parked, Vec::new());
    scene(stranger).finds(ENDS, "nobody");
    scene(|s, _| s.push(&job("acme"), 2, Answer::Duplicate(State::Done))).finds(ENDS, "fresh id");
    scene(|s, _| s.push(&job("acme"), 2, Answer::Refused("no".into()))).finds(ENDS, "refused");
    let held = Answer::KeyHeld(JobId::new(), State::Parked);
    let refused = |s: &mut Scene, _: &JobRef| {
        let job = job("acme");
        s.push(&job, 2, held);
        s.keep(&job, State::Parked, vec![attempt(1, 3, 4, OutcomeKind::Lost)]);
        s.fault(3, Kind::Kill, Some("w0.1"), false);
    };
    scene(refused).finds(ENDS, "no push of it");
    let state = |state| scene(move |s, job| s.store.jobs.get_mut(job).unwrap().state = state);
    state(State::Ready).finds(ENDS, "on record as done");
    let parked = |cause| {
        scene(move |s, job| {
            s.lines.retain(|line| !matches!(line.event, Event::End { .. }));
            let (job, how) = (job.clone(), How::Failed);
            s.say(20, "w0.1", Event::End { job: job.clone(), fence: 1, how });
            let attempts = vec![attempt(1, 9, 22, OutcomeKind::Park)];
            s.keep(&job, State::Parked, attempts).has_cause = cause;
        })
    };
    parked(true).in_order();
    parked(false).finds(ENDS, "without a cause");
    scene(|s, job| s.store.jobs.get_mut(job).unwrap().attempts.clear()).finds(ENDS, "0 attempts");
    let cancelled = scene(|s, job| _ = s.keep(job, State::Cancelled, Vec::new()));
    cancelled.finds(ENDS, "nobody asked");
    scene(|s, job| s.verb(job, 5, "cancel", Some("[Cancelled]"))).finds(ENDS, "after it was");
    scene(|s, job| s.verb(job, 30, "delete", Some("[Deleted]"))).finds(ENDS, "it is there");
}

#[test]
fn what_an_operator_did_is_in_order() {
    let deleted = |s: &mut Scene, job: &JobRef| {
        s.verb(job, 30, "delete", Some("[Deleted]"));
        s.store.jobs.remove(job);
    };
    scene(deleted).in_order();
    let cancelled = |s: &mut Scene, job: &JobRef| {
        s.verb(job, 5, "cancel", Some("[Cancelled]"));
        s.keep(job, State::Cancelled, Vec::new());
    };
    scene(cancelled).in_order();
}

/// The first attempt, lost at `lost` with its process killed, and a second.
fn twice(s: &mut Scene, job: &JobRef, excuse: bool) {
    s.lines.clear();
    s.push(job, 1, Answer::Stored);
    s.take(job, 10, "w0.1", 1);
    s.run(job, (11, 9000), "w0.1", 1, How::Done);
    if excuse {
        s.fault(12, Kind::Stop, Some("w0.1"), false);
        s.fault(9000, Kind::Stop, Some("w0.1"), true);
    }
    s.take(job, 4000, "w0.2", 2);
    s.run(job, (4001, 4010), "w0.2", 2, How::Done);
    let second = attempt(2, 3999, 4012, OutcomeKind::Done);
    let second = Attempt { worker: "w0.2:11".into(), ..second };
    s.keep(job, State::Done, vec![attempt(1, 9, 3000, OutcomeKind::Lost), second]);
}

#[test]
fn holders() {
    scene(|s, job| twice(s, job, true)).in_order();
    let meet = |s: &mut Scene, job: &JobRef| {
        twice(s, job, true);
        s.store.jobs.get_mut(job).unwrap().attempts[0].ended_at = stored_at(4005);
    };
    scene(meet).finds(ONE, "on record meet");
    scene(|s, job| s.take(job, 11, "w1.1", 1)).finds(ONE, "delivered to w0.1 and to w1.1");
    let again = |s: &mut Scene, job: &JobRef| s.run(job, (21, 22), "w0.1", 1, How::Done);
    scene(again).finds(ONE, "run twice");
    let at_once = |s: &mut Scene, job: &JobRef| {
        twice(s, job, true);
        s.store.jobs.get_mut(job).unwrap().attempts.remove(0);
    };
    scene(at_once).finds(ONE, "two handlers ran at once");
}

#[test]
fn stale_writes() {
    let late = |accepted| {
        scene(move |s, job| {
            let (job, answer) = (job.clone(), "?".to_owned());
            s.say(30, "w0.1", Event::Late { job, fence: 1, answer, accepted });
        })
    };
    late(false).in_order();
    late(true).finds(STALE, "long over");
    let nobody = scene(|s, _| s.lines.retain(|l| !matches!(l.event, Event::Start { .. })));
    nobody.finds(STALE, "no handler ran it");
    let other =
        scene(|s, job| s.store.jobs.get_mut(job).unwrap().attempts[0].worker = "w9.9:1".into());
    other.finds(STALE, "not its worker");
    let how = |to, how| {
        scene(move |s, job| {
            s.lines.retain(|line| !matches!(line.event, Event::Start { .. }));
            s.run(job, (13, to), "w0.1", 1, how);
        })
    };
    how(21, How::Failed).finds(STALE, "otherwise, or later");
    how(5000, How::Done).finds(STALE, "otherwise, or later");
}

#[test]
fn lost_leases() {
    scene(|s, job| twice(s, job, false)).finds(TAKEN, "nothing disturbed");
    // A blocked runtime is no excuse, and neither is what happened to another worker.
    for (kind, who) in [(Kind::Block, None), (Kind::Stop, Some("w3.1")), (Kind::Cut, Some("w0.1"))]
    {
        let scene = scene(|s, job| {
            twice(s, job, false);
            s.fault(100, kind, who, false);
            s.fault(200, kind, who, true);
        });
        scene.finds(TAKEN, "nothing disturbed");
    }
    let told = |s: &mut Scene, job: &JobRef| {
        s.say(18, "w0.1", Event::Lost { job: job.clone(), fence: 1, call: "renew".into() });
    };
    scene(told).finds(TAKEN, "answered lost");
    let call = |s: &mut Scene, job: &JobRef| {
        told(s, job);
        let (call, trouble) = ("renew".to_owned(), "slow".to_owned());
        s.say(17, "w0.1", Event::Call { call, sent: micros(14), trouble });
    };
    scene(call).in_order();
    let jump = |s: &mut Scene, job: &JobRef| {
        twice(s, job, false);
        s.say(100, "w2.2", Event::Up { cut: None, clock: 60_000 });
    };
    scene(jump).in_order();
}

fn keyed(s: &mut Scene, scope: KeyScope, state: State, at: i64) -> JobRef {
    let job = job("acme");
    s.push(&job, at, Answer::Stored);
    let attempts = match state {
        State::Parked => vec![attempt(1, at, at + 1, OutcomeKind::Lost)],
        _ => Vec::new(),
    };
    let kept = s.keep(&job, state, attempts);
    kept.key = Some(Key { text: "k1".into(), scope });
    kept.pushed_at = stored_at(at);
    s.fault(at, Kind::Kill, Some("w0.1"), false);
    job
}

#[test]
fn keys() {
    use KeyScope::{UntilFinished, UntilStarted};
    let both = scene(|s, _| {
        keyed(s, UntilFinished, State::Parked, 100);
        keyed(s, UntilFinished, State::Parked, 200);
    });
    both.finds(KEY, "while it held that");
    // The first one's end, before or after the second one's push.
    let ended = |end| {
        scene(move |s, _| {
            let first = keyed(s, UntilFinished, State::Cancelled, 100);
            s.store.jobs.get_mut(&first).unwrap().finished_at = Some(stored_at(end));
            s.verb(&first, 500, "cancel", None);
            s.verb(&first, 500, "cancel", Some("[Cancelled]"));
            keyed(s, UntilFinished, State::Parked, 200);
        })
    };
    ended(150).in_order();
    let held = scene(|s, first| {
        let kept = s.store.jobs.get_mut(first).unwrap();
        kept.key = Some(Key { text: "k1".into(), scope: UntilFinished });
        keyed(s, UntilFinished, State::Parked, 10);
    });
    held.finds(KEY, "while it held that");
    let started = |at| {
        scene(move |s, first| {
            let kept = s.store.jobs.get_mut(first).unwrap();
            kept.key = Some(Key { text: "k1".into(), scope: UntilStarted });
            keyed(s, UntilFinished, State::Parked, at);
        })
    };
    started(5).finds(KEY, "while it held that");
    started(15).in_order();
    let seen = scene(|s, first| {
        let (job, other) = (first.clone(), job("acme"));
        s.say(7, "coordinator", Event::TwoKeys { job, other, key: "k1".into() });
    });
    seen.finds(KEY, "also held by");
}

/// A newcomer behind a backlog, of which `before` are delivered first.
fn newcomer(before: i64, waiting: u64) -> Scene {
    scene(|s, _| {
        let probe = job("n1");
        s.say(99, "coordinator", Event::Probe { job: probe.clone(), waiting });
        s.push(&probe, 100, Answer::Stored);
        for at in 0..before {
            let other = job("acme");
            s.push(&other, 50, Answer::Stored);
            s.take(&other, 101 + at, "w0.1", 1);
            s.run(&other, (101 + at, 102 + at), "w0.1", 1, How::Done);
            s.keep(&other, State::Done, vec![attempt(1, 100 + at, 103 + at, OutcomeKind::Done)]);
        }
        s.take(&probe, 500, "w0.1", 1);
        s.run(&probe, (501, 502), "w0.1", 1, How::Done);
        s.keep(&probe, State::Done, vec![attempt(1, 499, 503, OutcomeKind::Done)]);
    })
}

#[test]
fn fairness_has_a_bound_and_a_proof() {
    // Two tenants: 2·2·8.
    newcomer(32, 1000).in_order();
    newcomer(33, 1000).finds(SOON, "33 deliveries before its own, the bound is 32");
    newcomer(33, 10).in_order();
    let mut disturbed = newcomer(33, 1000);
    disturbed.fault(300, Kind::Kill, Some("w1.1"), false);
    disturbed.in_order();
    let minute = |probe: Scene| Scene { length: Duration::from_secs(20), ..probe };
    minute(newcomer(3, 1000)).in_order();
    minute(newcomer(3, 10)).finds(SOON, "unproven: 0 probes");
}

#[test]
fn what_is_paused_reached_and_told() {
    let paused = |lane: &'static str| {
        scene(move |s, _| {
            let job = job("s1");
            s.push(&job, 900, Answer::Stored);
            s.fault(1000, Kind::Pause, Some(lane), false);
            s.take(&job, 2000, "w0.1", 1);
            s.run(&job, (2001, 2002), "w0.1", 1, How::Done);
            s.fault(3000, Kind::Pause, Some(lane), true);
            s.keep(&job, State::Done, vec![attempt(1, 1999, 2003, OutcomeKind::Done)]);
        })
    };
    paused("main/s2").in_order();
    paused("main/s1").finds("a paused lane delivers nothing", "w0.1 got it");
    paused("main/*").finds("a paused lane delivers nothing", "w0.1 got it");
    let unfinished = scene(|s, _| s.store.unfinished.push("main/s1".into()));
    unfinished.finds("everything ends", "main/s1");
    scene(|s, job| s.store.unreachable.push(job.clone())).finds("no job is unreachable", "acme");
    let finding = |s: &mut Scene| s.store.findings.push("the clock is wrong".into());
    scene(|s, _| finding(s)).finds("the store is sound", "clock");
    let fast = |s: &mut Scene, _: &JobRef| {
        finding(s);
        s.say(100, "w2.2", Event::Up { cut: None, clock: 60_000 });
    };
    scene(fast).in_order();
    let gone = |clean| {
        scene(move |s, _| {
            let (who, status) = ("w5.1".to_owned(), "1".to_owned());
            s.say(40, "coordinator", Event::Gone { who, status, clean });
        })
    };
    gone(true).in_order();
    gone(false).finds("a process ends as it is told", "w5.1");
}

#[test]
fn a_clock_that_jumps_is_followed() {
    let mut scene = Scene::default();
    for (at, millis) in [(0, 0), (400, 0), (800, 60_000), (1200, 60_000)] {
        scene.say(at, "coordinator", Event::Ahead { millis });
    }
    let clock = Offsets::new(&Ledger::of(scene.lines));
    for (store, machine) in [(300, 300), (60_900, 900), (99_000, 39_000), (30_000, 800)] {
        assert_eq!(clock.machine(stored_at(store)), micros(machine), "{store}");
    }
}
