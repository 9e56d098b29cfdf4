//! Holders, and what excuses a lease that was lost.

use super::*;

const ONE: &str = "one holder at a time";
const TAKEN: &str = "a live job is not taken";
const KEPT: &str = "nothing kept its worker from renewing";

/// The first attempt, lost at 3 s by w0.1, which notices; and a second, by w0.2.
fn twice(s: &mut Scene, job: &JobRef) {
    s.lines.clear();
    s.push(job, 1, Answer::Stored);
    s.take(job, 10, "w0.1", 1);
    s.run(job, (11, 1600), "w0.1", 1, How::Dropped);
    s.take(job, 4000, "w0.2", 2);
    s.run(job, (4001, 4010), "w0.2", 2, How::Done);
    let second = attempt(2, 3999, 4012, OutcomeKind::Done);
    let second = Attempt { worker: "w0.2:11".into(), ..second };
    s.keep(job, State::Done, vec![attempt(1, 9, 3000, OutcomeKind::Lost), second]);
}

/// The same, with w0.1 stopped until 9 s and its handler running on until then.
fn stopped(s: &mut Scene, job: &JobRef) {
    twice(s, job);
    s.lines.retain(|line| line.by != "w0.1" || !matches!(line.event, Event::End { .. }));
    s.fault(12, Kind::Stop, Some("w0.1"), false);
    s.say(9000, "w0.1", Event::End { job: job.clone(), fence: 1, how: How::Done });
    s.fault(9000, Kind::Stop, Some("w0.1"), true);
}

#[test]
fn holders() {
    scene(stopped).in_order();
    let meet = |s: &mut Scene, job: &JobRef| {
        stopped(s, job);
        s.store.jobs.get_mut(job).unwrap().attempts[0].ended_at = stored_at(4005);
    };
    scene(meet).finds(ONE, "on record meet");
    scene(|s, job| s.take(job, 11, "w1.1", 1)).finds(ONE, "delivered to w0.1 and to w1.1");
    let again = |s: &mut Scene, job: &JobRef| s.run(job, (21, 22), "w0.1", 1, How::Done);
    scene(again).finds(ONE, "run twice");
    let at_once = |s: &mut Scene, job: &JobRef| {
        stopped(s, job);
        s.store.jobs.get_mut(job).unwrap().attempts[0].outcome = OutcomeKind::Cancelled;
    };
    let at_once = |s: &mut Scene, job: &JobRef| {
        at_once(s, job);
        s.verb(job, 15, "cancel", Some("[Requested]"));
        s.verb(job, 3500, "retry", Some("[Retried]"));
    };
    scene(at_once).finds(ONE, "two handlers ran at once");
}

/// `twice`, and what happened to w0.1.
fn lost(happened: impl FnOnce(&mut Scene, &JobRef)) -> Scene {
    scene(|s, job| {
        twice(s, job);
        happened(s, job);
    })
}

const TWO: [(i64, i64); 2] = [(510, 1177), (1302, 1969)];

#[test]
fn a_handler_ends_with_its_lease() {
    let until = |end: i64| {
        lost(move |s, job| {
            s.lines.retain(|line| line.by != "w0.1" || !matches!(line.event, Event::End { .. }));
            TWO.into_iter().for_each(|span| s.fail("renew", span));
            s.say(end, "w0.1", Event::End { job: job.clone(), fence: 1, how: How::Dropped });
        })
    };
    until(1700).in_order();
    until(3900).finds(ONE, "outlived its lease's trust by 2390 ms");
    // Into its successor's run, or never.
    until(4005).finds(ONE, "outlived its lease's trust");
    let mut helpless = until(3900);
    let (stopped, over) = (Kind::Stop, [(1500, false), (3800, true)]);
    over.iter().for_each(|(at, over)| helpless.fault(*at, stopped, Some("w0.1"), *over));
    helpless.in_order();
    // Another handler keeps its runtime from dropping it.
    let mut blocked = until(3900);
    let other = job("s0");
    blocked.push_as(&other, 1, ("blocks", None), Answer::Stored);
    blocked.take(&other, 800, "w0.1", 1);
    blocked.start(&other, (801, "w0.1"), "blocks", 1, 1);
    (1..6).for_each(|at| blocked.renew(&other, 500 * at + 400, 1));
    blocked.end(&other, (3801, "w0.1"), 1, How::Done);
    let done = vec![attempt(1, 799, 3810, OutcomeKind::Done)];
    blocked.keep(&other, State::Done, done).name = "blocks".into();
    blocked.in_order();
}

#[test]
fn one_failed_renewal_is_not_a_loss() {
    lost(|_, _| {}).finds(TAKEN, KEPT);
    lost(|s, _| s.fail("renew", TWO[0])).finds(TAKEN, KEPT);
    lost(|s, _| TWO.into_iter().for_each(|span| s.fail("renew", span))).in_order();
    // Two that fail at once leave the time for a third.
    let at_once = [(510, 520), (645, 655)];
    lost(|s, _| at_once.into_iter().for_each(|span| s.fail("renew", span))).finds(TAKEN, KEPT);
    // The second one is answered, when its worker has given up.
    lost(|s, job| {
        s.fail("renew", TWO[0]);
        let (sent, claims) = (micros(1302), vec![(job.clone(), 1)]);
        s.say(1600, "w0.1", Event::Renewed { sent, claims });
        s.store.jobs.get_mut(job).unwrap().attempts[0].ended_at = stored_at(3400);
    })
    .in_order();
    // One, by a worker that was starved as well.
    lost(|s, _| {
        s.fail("renew", TWO[0]);
        s.say(1500, "w0.1", Event::Stall { since: micros(1200) });
    })
    .in_order();
    // Its calls were slow and answered: each of them renewed.
    let slow = lost(|s, job| {
        for sent in [510, 700, 1000] {
            s.renew(job, sent, 1);
            let (call, trouble) = ("renew".to_owned(), "slow".to_owned());
            s.say(sent + 5, "w0.1", Event::Call { call, sent: micros(sent), trouble });
        }
    });
    slow.finds(TAKEN, KEPT);
    // Whatever failed before the last answered renewal.
    let earlier = lost(|s, job| {
        TWO.into_iter().for_each(|(from, to)| s.fail("renew", (from - 500, to - 500)));
        s.renew(job, 1480, 1);
        s.store.jobs.get_mut(job).unwrap().attempts[0].ended_at = stored_at(3500);
    });
    earlier.finds(TAKEN, KEPT);
}

#[test]
fn what_happened_to_others_is_no_excuse() {
    // Nor is a blocked runtime, or a store that was slow and answered all the same.
    let kinds = [
        (Kind::Block, None),
        (Kind::Stop, Some("w3.1")),
        (Kind::Cut, Some("w0.1")),
        (Kind::Hold, None),
    ];
    for (kind, who) in kinds {
        let faulty = lost(|s, _| {
            s.fault(100, kind, who, false);
            s.fault(1400, kind, who, true);
        });
        faulty.finds(TAKEN, KEPT);
    }
    for (at, excused) in [(12, false), (-7700, true)] {
        let told = lost(|s, _| s.say(at, "coordinator", Event::Told { who: "w0.1".into() }));
        // Only past its grace it leaves a job to its lease.
        if excused { told.in_order() } else { told.finds(TAKEN, KEPT) }
    }
    let gone = |at| {
        lost(move |s, _| {
            let (who, status, clean) = ("w0.1".to_owned(), "0".to_owned(), true);
            s.say(at, "coordinator", Event::Gone { who, status, clean, left: false });
        })
    };
    gone(500).in_order();
    gone(1500).in_order();
    gone(1600).finds(TAKEN, KEPT);
    gone(2900).finds(TAKEN, KEPT);
    // Its second renewal was under way.
    let mut killed = gone(1600);
    killed.fail("renew", TWO[0]);
    killed.in_order();
}

#[test]
fn a_lease_is_as_long_as_it_is() {
    // Its worker was killed, which makes no lease shorter.
    let killed = |at: i64| {
        lost(move |s, job| {
            s.lines.retain(|line| line.by != "w0.1" || !matches!(line.event, Event::End { .. }));
            s.fault(400, Kind::Kill, Some("w0.1"), false);
            s.say(401, "coordinator", gone("w0.1"));
            s.store.jobs.get_mut(job).unwrap().attempts[0].ended_at = stored_at(at);
        })
    };
    killed(2100).in_order();
    killed(1200).finds(TAKEN, "its lease was over 809 ms before its end");
    // Without a word on record: deleted meanwhile, or given back by nobody.
    let taken = |at: i64, what: fn(&mut Scene, &JobRef)| {
        scene(move |s, job| {
            s.lines.retain(|l| !matches!(l.event, Event::End { .. }));
            s.end(job, (at - 2, "w0.1"), 1, How::Dropped);
            s.take(job, at, "w0.2", 2);
            s.run(job, (at + 1, at + 2), "w0.2", 2, How::Done);
            let worker = "w0.2:11".to_owned();
            let done =
                Attempt { worker, number: 1, ..attempt(2, at - 1, at + 3, OutcomeKind::Done) };
            s.keep(job, State::Done, vec![done]);
            s.lines.iter_mut().for_each(|line| {
                if let Event::Start { attempt, fence: 2, .. } = &mut line.event {
                    *attempt = 1;
                }
            });
            what(s, job);
        })
    };
    taken(1000, |_, _| {}).finds(TAKEN, "w0.2 got it 1009 ms before the lease of fence 1 ended");
    let released = |s: &mut Scene, job: &JobRef| {
        s.settle(job, (999, "w0.1"), 1, OutcomeKind::Release, None);
    };
    taken(1000, released).in_order();
    taken(1000, |s, _| s.fault(999, Kind::Kill, Some("w0.1"), false)).in_order();
}

fn gone(who: &str) -> Event {
    let (who, status) = (who.to_owned(), "killed".to_owned());
    Event::Gone { who, status, clean: true, left: false }
}

#[test]
fn a_lost_job_runs_again_soon() {
    let found = |at: i64, held: Option<i64>| {
        lost(move |s, job| {
            TWO.into_iter().for_each(|span| s.fail("renew", span));
            s.lines.retain(|line| line.by != "w0.2");
            let attempts = &mut s.store.jobs.get_mut(job).unwrap().attempts;
            attempts[0].ended_at = stored_at(at);
            (attempts[1].started_at, attempts[1].ended_at) = (stored_at(at + 1), stored_at(at + 9));
            s.take(job, at + 2, "w0.2", 2);
            s.run(job, (at + 3, at + 8), "w0.2", 2, How::Done);
            held.into_iter().for_each(|until| {
                s.fault(1000, Kind::Hold, None, false);
                s.fault(until, Kind::Hold, None, true);
            });
        })
    };
    found(14_000, None).in_order();
    found(14_100, None).finds("a lost job runs again soon", "12090 ms after its lease's end");
    found(14_100, Some(3000)).in_order();
}

#[test]
fn a_lease_that_nobody_saw_taken() {
    let unseen = |span| {
        lost(move |s, _| {
            let of = |line: &Line| line.by == "w0.1";
            s.lines.retain(|line| !of(line));
            s.fail("settle_and_reserve", span);
        })
    };
    unseen((5, 700)).in_order();
    unseen((2100, 2800)).finds(TAKEN, KEPT);
}

#[test]
fn only_a_jump_of_the_stores_clock_ends_leases() {
    let fast = |s: &mut Scene| s.say(100, "w2.2", Event::Up { cut: None, clock: 60_000 });
    lost(|s, _| fast(s)).finds(TAKEN, KEPT);
    // The clock was that far ahead before.
    let before = lost(|s, job| {
        [-400, 0, 400, 800].into_iter().for_each(|at| s.ahead(at, 60_000));
        moved(s, job, 0);
        fast(s);
    });
    before.finds(TAKEN, KEPT);
    let jumped = |at: i64, renewed: Option<i64>| {
        lost(move |s, job| {
            s.ahead(at - 800, 0);
            s.ahead(at - 400, 0);
            s.ahead(at, 60_000);
            s.ahead(at + 400, 60_000);
            renewed.into_iter().for_each(|at| s.renew(job, at, 1));
            moved(s, job, at);
            fast(s);
        })
    };
    jumped(800, None).in_order();
    // Too late to be why, or outlived by a renewal.
    jumped(2900, None).finds(TAKEN, KEPT);
    jumped(800, Some(1000)).finds(TAKEN, KEPT);
}

/// What was stored from `at` on was stored a minute later by the store's clock.
fn moved(s: &mut Scene, job: &JobRef, at: i64) {
    let minute = Duration::from_secs(60);
    let kept = s.store.jobs.get_mut(job).unwrap();
    let instants = kept.attempts.iter_mut().flat_map(|a| [&mut a.started_at, &mut a.ended_at]);
    for instant in instants.chain(&mut kept.finished_at).filter(|i| **i >= stored_at(at)) {
        *instant += minute;
    }
}

#[test]
fn a_claim_that_was_answered_lost() {
    let told = |call: &str, by: &str| Event::Lost { job: job(by), fence: 1, call: call.to_owned() };
    let lost = |s: &mut Scene, job: &JobRef, call: &str| {
        let Event::Lost { fence, call, .. } = told(call, "acme") else { return };
        s.say(18, "w0.1", Event::Lost { job: job.clone(), fence, call });
    };
    scene(|s, job| lost(s, job, "renew"))
        .finds(TAKEN, "renew of fence 1 by w0.1 was answered lost");
    // It was settled by a call of which the worker, killed, heard no more.
    scene(|s, job| {
        lost(s, job, "renew");
        s.say(19, "main", gone("w0.1"));
    })
    .in_order();
    // It was settled meanwhile.
    let settled = |told| {
        scene(move |s, job| {
            s.settle(job, (16, "w0.1"), 1, OutcomeKind::Done, told);
            lost(s, job, "renew");
        })
    };
    settled(Some(Told::Applied(State::Done))).in_order();
    scene(|s, job| lost(s, job, "settle")).finds(TAKEN, "settle of fence 1");
    // An operator's verb takes nothing from a holder that renews.
    let touched = |s: &mut Scene, job: &JobRef| {
        s.verb(job, 15, "cancel", None);
        s.verb(job, 15, "cancel", Some("[Requested]"));
        lost(s, job, "settle");
    };
    scene(touched).finds(TAKEN, "settle of fence 1");
    // The repetition of one that had no answer.
    let repeated = |s: &mut Scene, job: &JobRef| {
        s.settle(job, (16, "w0.1"), 1, OutcomeKind::Done, None);
        lost(s, job, "settle");
    };
    scene(repeated).in_order();
}
