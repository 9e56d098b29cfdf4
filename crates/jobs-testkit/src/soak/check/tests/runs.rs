//! The run as a whole: fairness, pauses, what is left, and what it has been through.

use super::*;

const SOON: &str = "a newcomer is served soon";
const PAUSED: &str = "a paused lane delivers nothing";
const COVERED: &str = "the run has been through what it is for";

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
    // Not before or after the disturbance: the bound holds from any moment on.
    let mut early = newcomer(34, 1000);
    early.fault(1200, Kind::Kill, Some("w1.1"), false);
    early.finds(SOON, "34 deliveries before its own");
    let failed = |call: &str| {
        let mut scene = newcomer(33, 1000);
        scene.fail(call, (300, 310));
        scene
    };
    failed("settle_and_reserve").in_order();
    failed("renew").finds(SOON, "33 deliveries");
    // Some in each minute.
    let proves = |probe: Scene| {
        let found = Scene { length: Duration::from_secs(60), ..probe }.found();
        !found.iter().any(|found| found.starts_with(SOON) && found.contains("unproven: 0 probes"))
    };
    assert!(proves(newcomer(3, 1000)));
    assert!(!proves(newcomer(3, 10)));
}

/// A job that w0.1 lost when it was killed.
fn parked_by_a_kill() -> Scene {
    scene(|s, _| {
        let job = job("acme");
        s.push(&job, 2, Answer::Stored);
        s.keep(&job, State::Parked, vec![attempt(1, 3, 4, OutcomeKind::Lost)]);
        s.fault(3, Kind::Kill, Some("w0.1"), false);
    })
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
    let differs = scene(|s, job| s.store.differs.push((Some(job.clone()), "not listed".into())));
    differs.finds("no job is unreachable", "not listed");
    let finding = |s: &mut Scene| s.store.findings.push("the clock is wrong".into());
    scene(|s, _| finding(s)).finds("the store is sound", "clock");
    let fast = |s: &mut Scene, _: &JobRef| {
        finding(s);
        s.say(100, "w2.2", Event::Up { cut: None, clock: 60_000 });
    };
    scene(fast).finds("the store is sound", "clock");
    let jumped = |s: &mut Scene, job: &JobRef| {
        fast(s, job);
        [(200, 0), (600, 60_000)].into_iter().for_each(|(at, ahead)| s.ahead(at, ahead));
    };
    scene(jumped).in_order();
    let gone = |clean| {
        scene(move |s, _| {
            let (who, status) = ("w5.1".to_owned(), "1".to_owned());
            s.say(40, "coordinator", Event::Gone { who, status, clean, left: false });
        })
    };
    gone(true).in_order();
    let left = |who: &'static str| {
        let mut scene = parked_by_a_kill();
        let (who, status, clean) = (who.to_owned(), "3".to_owned(), true);
        scene.say(40, "coordinator", Event::Gone { who, status, clean, left: true });
        scene
    };
    left("w0.1").in_order();
    // It lost one long ago.
    let mut before = parked_by_a_kill();
    let (who, status, clean) = ("w0.1".to_owned(), "3".to_owned(), true);
    before.say(30_000, "coordinator", Event::Gone { who, status, clean, left: true });
    before.finds("a process ends as it is told", "w0.1 left something, and lost no lease lately");
    let open = scene(|s, _| s.say(40, "w5.1", Event::Closed { left: vec!["left open: 3".into()] }));
    open.finds("nothing is left", "w5.1 left open: 3");
    let refused = scene(|s, _| {
        let (call, error) = ("renew".to_owned(), "Corrupt: no database".to_owned());
        s.say(40, "w5.1", Event::Refused { call, error });
    });
    refused.finds("no call fails for good", "renew of w5.1: Corrupt");
    left("w5.1").finds("a process ends as it is told", "w5.1 left something, and lost no lease");
    gone(false).finds("a process ends as it is told", "w5.1");
}

#[test]
fn a_clock_that_jumps_is_followed() {
    let mut scene = Scene::default();
    for (at, millis) in [(0, 0), (400, 0), (800, 60_000), (1200, 60_000)] {
        scene.say(at, "coordinator", Event::Ahead { millis, within: 1 });
    }
    let clock = Offsets::new(&Ledger::of(scene.lines));
    for (store, machine) in [(300, 300), (60_900, 900), (99_000, 39_000), (30_000, 800)] {
        assert_eq!(clock.machine(stored_at(store)), micros(machine), "{store}");
    }
}

#[test]
fn only_a_reserve_without_an_answer_may_come_again_in_a_pause() {
    let after = |call: &'static str| {
        scene(move |s, _| {
            let job = job("s1");
            s.push(&job, 900, Answer::Stored);
            s.fail(call, (950, 1900));
            s.fault(1000, Kind::Pause, Some("main/s1"), false);
            s.take(&job, 2000, "w0.1", 1);
            s.run(&job, (2001, 2002), "w0.1", 1, How::Done);
            s.fault(3000, Kind::Pause, Some("main/s1"), true);
            s.keep(&job, State::Done, vec![attempt(1, 1999, 2003, OutcomeKind::Done)]);
        })
    };
    after("settle_and_reserve").in_order();
    after("renew").finds(PAUSED, "w0.1 got it");
}

#[test]
fn whoever_resumes_a_lane_ends_every_pause_of_it() {
    let taken = |at: i64| {
        scene(move |s, _| {
            let job = job("s1");
            s.push(&job, 900, Answer::Stored);
            let mut pause = |number, at, over| {
                let (kind, who) = (Kind::Pause, Some("main/s1".to_owned()));
                s.say(at, "coordinator", Event::Fault { number, kind, who, over });
            };
            pause(0, 1000, false);
            pause(1, 2000, false);
            pause(0, 3000, true);
            pause(1, 5000, true);
            s.take(&job, at, "w0.1", 1);
            s.run(&job, (at + 1, at + 2), "w0.1", 1, How::Done);
            s.keep(&job, State::Done, vec![attempt(1, at - 1, at + 3, OutcomeKind::Done)]);
        })
    };
    taken(4000).in_order();
    assert!(taken(2900).found().iter().all(|found| found.starts_with(PAUSED)));
    assert_eq!(taken(2900).found().len(), 2, "of both pauses");
}

#[test]
fn the_store_is_asked_all_along() {
    let looked = |findings: &'static [&'static str]| {
        scene(move |s, _| {
            let findings = findings.iter().map(|&finding| finding.to_owned()).collect();
            s.say(50, "coordinator", Event::Looked { findings });
        })
    };
    looked(&[]).in_order();
    looked(&["a job is nowhere"])
        .finds("the store is sound", "nowhere, seen while the run went on");
}

/// A run that has been through everything.
fn full(length: u64) -> Scene {
    let mut scene = newcomer(3, 1000);
    scene.length = Duration::from_secs(length);
    scene
}

#[test]
fn what_did_not_happen_is_not_proven() {
    full(0).in_order();
    let scheduled = |length| Scene { scheduled: vec![Kind::Stop], ..full(length) };
    // One of a run of seconds may find no worker free.
    scheduled(0).in_order();
    let lacks = |scene: Scene, what: &str| scene.found().iter().any(|found| found.contains(what));
    assert!(lacks(scheduled(60), "no Stop was in force"));
    let mut stopped = scheduled(60);
    stopped.fault(300, Kind::Stop, Some("w1.1"), false);
    assert!(!lacks(stopped, "no Stop was in force"));
    // A hold that was asked for and never in force is none.
    let mut held = full(60);
    held.scheduled = vec![Kind::Hold];
    assert!(lacks(held, "no Hold was in force"));
    let lacking = |length| {
        let found = full(length).found();
        found.into_iter().filter(|found| found.starts_with(COVERED)).collect::<Vec<_>>()
    };
    let (none, some, more, all) = (lacking(19), lacking(25), lacking(60), lacking(180));
    assert!(none.is_empty() && some.len() < more.len() && more.len() < all.len());
    let says = |found: &[String], what: &str| found.iter().any(|found| found.contains(what));
    assert!(says(&some, "pushes answered key_held: none in 25 s"));
    assert!(!says(&some, "verbs answered") && says(&more, "verbs answered retry [Retried]"));
    assert!(!says(&more, "no Kill") && says(&all, "no Kill was in force"));
    assert!(!says(&all, "no Restart"), "the store has no server");
    assert!(!says(&all, "runs that ended done"), "they did");
}
