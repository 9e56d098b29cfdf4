//! Cases: lanes, workers and health (A4, A6, A7).

use std::time::Duration;

use jobs_core::{
    Admin, Outcome, State,
    admin::{LaneChange, LaneRef, Pause, Tuned},
    permit::Read,
    queue::Worker,
    view::WorkerView,
};

use crate::{
    kit::{Kit, QUEUE, job, operator, permit, push, take, take_one, wants},
    ops::{LAPSE, LATER, from_queue, hold, lane, nothing, record, retry, settle, sweep_all},
};

super::cases![
    a4_workers_come_and_go,
    a6_a_pause_ends,
    a6_a_paused_lane_is_swept,
    a6_a_queues_pause_covers_newcomers,
    a6_settings_have_bounds,
    a7_a_fresh_store_is_sound,
];

/// Listed from the first announcement on, until goodbye or a minute of silence.
async fn a4_workers_come_and_go(kit: &Kit) {
    let store = kit.handle().await;
    let worker = |label: &str| Worker {
        id: uuid::Uuid::new_v4(),
        label: label.into(),
        queues: vec![QUEUE.into(), "mail".into()],
        names: vec!["noop".into(), "other".into()],
        slots: 4,
        busy: 0,
        stuck: 0,
        leaving: false,
    };
    let alive = async || {
        let mut alive = store.workers(&operator().await).await.expect("the store answers");
        alive.sort_unstable_by_key(|view| view.since);
        alive
    };
    assert!(alive().await.is_empty());
    // Two replicas share a label; their identity is their own.
    let [one, two] = [worker("replica"), worker("replica")];
    store.announce(&one).await.expect("the store answers");
    kit.age_secs(20).await;
    store.announce(&two).await.expect("the store answers");
    let both = alive().await;
    let shown: Vec<_> = both.iter().map(|view| &view.worker).collect();
    assert_eq!(shown, [&one, &two]);

    kit.age_secs(20).await;
    let busy = Worker { busy: 3, stuck: 1, ..one.clone() };
    store.announce(&busy).await.expect("the store answers");
    let both = alive().await;
    let WorkerView { worker, since, seen } = &both[0];
    assert_eq!((worker, both.len()), (&busy, 2), "the newest word of each");
    assert!((40..60).contains(&seen.duration_since(*since).as_secs()), "since the first");
    let tenants = store.workers(&permit::<Read>("acme")).await.expect("the store answers");
    assert!(tenants.iter().all(|view| view.worker.label.is_empty()), "a label is the operator's");

    kit.age_secs(45).await;
    let left: Vec<_> = alive().await.into_iter().map(|view| view.worker).collect();
    assert_eq!(left, std::slice::from_ref(&busy), "silent for a minute");
    let leaving = Worker { leaving: true, ..busy };
    store.announce(&leaving).await.expect("the store answers");
    assert!(alive().await.is_empty());
    store.announce(&two).await.expect("the store answers");
    assert_eq!(alive().await.len(), 1, "it was only silent");
}

fn of(queue: &str, tenant: Option<&str>) -> LaneRef {
    LaneRef { queue: queue.into(), tenant: tenant.map(str::to_owned) }
}

async fn tune(store: &dyn Admin, lane: LaneRef, change: LaneChange) -> Tuned {
    store.set_lane(&operator().await, &lane, change).await.expect("the store answers")
}

async fn pause(store: &dyn Admin, lane: LaneRef, pause: Pause) {
    let change = LaneChange { pause: Some(pause), ..LaneChange::default() };
    assert_eq!(tune(store, lane, change).await, Tuned::Tuned);
}

/// At its deadline by itself, or by a resume; without either it stays. The jobs keep their place.
async fn a6_a_pause_ends(kit: &Kit) {
    let store = kit.handle().await;
    for tenant in [Some("acme"), None] {
        push(&*store, job("acme")).await;
        let lane_ref = || of(QUEUE, tenant);
        pause(&*store, lane_ref(), Pause::For(Duration::from_secs(60))).await;
        nothing(&*store, &wants(10)).await;
        let shown = lane(&*store, QUEUE, "acme").await;
        assert!(shown.settings.paused_until.is_some(), "a pause is shown");
        assert_eq!(shown.waiting.number, 1, "a paused job waits");
        kit.age_secs(40).await;
        nothing(&*store, &wants(10)).await;
        kit.age_secs(25).await;
        let held = take_one(&*store).await;
        settle(&*store, &held.claim, Outcome::Release).await;

        pause(&*store, lane_ref(), Pause::On).await;
        kit.age_secs(30 * 24 * 3600).await;
        nothing(&*store, &wants(10)).await;
        push(&*store, job("acme").priority(100)).await;
        nothing(&*store, &wants(10)).await;
        // A change of something else leaves the pause alone.
        let weight = LaneChange { weight: Some(3), ..LaneChange::default() };
        assert_eq!(tune(&*store, lane_ref(), weight).await, Tuned::Tuned);
        nothing(&*store, &wants(10)).await;
        pause(&*store, lane_ref(), Pause::Off).await;
        let shown = lane(&*store, QUEUE, "acme").await;
        assert_eq!(shown.settings.paused_until, None);
        assert_eq!(shown.settings.weight, 3, "and the pause leaves the weight alone");
        for held in hold(&*store, &wants(2), 2).await {
            settle(&*store, &held.claim, Outcome::Done).await;
        }
    }
}

/// Its holder may settle; a silent one loses its job, which then stays where it is.
async fn a6_a_paused_lane_is_swept(kit: &Kit) {
    let store = kit.handle().await;
    let jobs = [push(&*store, job("acme")).await, push(&*store, job("acme")).await];
    let held = hold(&*store, &wants(2), 2).await;
    pause(&*store, of(QUEUE, Some("acme")), Pause::On).await;
    let done = settle(&*store, &held[0].claim, Outcome::Done).await;
    assert_eq!(done, jobs_core::Settled::Applied(State::Done), "a pause ends no run");
    kit.age(LAPSE).await;
    let lost = sweep_all(&*store).await;
    assert_eq!(lost.len(), 1);
    assert_eq!((&lost[0].job, lost[0].state), (&held[1].claim.job, State::Ready));
    nothing(&*store, &wants(10)).await;
    // What comes back by a delay or an operator does not slip through either.
    push(&*store, job("acme").after(LATER)).await;
    let parked = held[1].claim.job.clone();
    crate::ops::cancel(&*store, &parked).await;
    retry(&*store, &parked).await;
    kit.age(LATER + LAPSE).await;
    sweep_all(&*store).await;
    nothing(&*store, &wants(10)).await;
    pause(&*store, of(QUEUE, Some("acme")), Pause::Off).await;
    assert_eq!(hold(&*store, &wants(2), 2).await.len(), jobs.len());
    assert_eq!(record(&*store, &parked).await.view.state, State::Running);
}

/// Of that queue only, whichever tenants it has now and later.
async fn a6_a_queues_pause_covers_newcomers(kit: &Kit) {
    let store = kit.handle().await;
    push(&*store, job("here")).await;
    pause(&*store, of(QUEUE, None), Pause::On).await;
    push(&*store, job("newcomer")).await;
    push(&*store, job("newcomer").on("elsewhere")).await;
    nothing(&*store, &wants(10)).await;
    hold(&*store, &from_queue("elsewhere", "suite", 1), 1).await;
    pause(&*store, of(QUEUE, None), Pause::Off).await;
    let mut tenants: Vec<_> =
        hold(&*store, &wants(2), 2).await.into_iter().map(|held| held.job.tenant).collect();
    tenants.sort_unstable();
    assert_eq!(tenants, ["here", "newcomer"]);

    // A lane's pause is that lane's.
    pause(&*store, of(QUEUE, Some("here")), Pause::On).await;
    push(&*store, job("here")).await;
    push(&*store, job("newcomer")).await;
    let held = take(&*store, 10).await;
    assert_eq!(held.iter().map(|held| &held.job.tenant).collect::<Vec<_>>(), ["newcomer"]);
}

/// Nothing changes by what is out of bounds, not even the half of it that is within.
async fn a6_settings_have_bounds(kit: &Kit) {
    let store = kit.handle().await;
    push(&*store, job("acme")).await;
    for weight in [0, 101, u32::MAX] {
        let change = LaneChange { weight: Some(weight), pause: Some(Pause::On) };
        let lanes = [of(QUEUE, Some("acme")), of(QUEUE, None)];
        for lane_ref in lanes {
            assert_eq!(tune(&*store, lane_ref, change).await, Tuned::OutOfBounds, "{weight}");
        }
    }
    let fine = LaneChange { weight: Some(100), pause: Some(Pause::Off) };
    for lane_ref in [of("", None), of("Not a name", None), of(QUEUE, Some("Not a tenant"))] {
        assert_eq!(tune(&*store, lane_ref, fine).await, Tuned::OutOfBounds);
    }
    assert_eq!(lane(&*store, QUEUE, "acme").await.settings, Default::default());
    take_one(&*store).await;
    assert_eq!(tune(&*store, of(QUEUE, Some("acme")), fine).await, Tuned::Tuned);
    assert_eq!(lane(&*store, QUEUE, "acme").await.settings.weight, 100);
}

/// Nothing to report, and its own clock beside it.
async fn a7_a_fresh_store_is_sound(kit: &Kit) {
    let store = kit.handle().await;
    let check = store.check(&operator().await).await.expect("the store answers");
    assert!(check.findings.is_empty(), "{:?}", check.findings);
    assert!(!check.store.is_empty() && check.schema > 0, "{check:?}");
    let job = push(&*store, job("acme")).await.job_ref();
    let later = record(&*store, &job).await.now;
    let apart = later.duration_since(check.now).as_secs_f64();
    assert!((0.0..60.0).contains(&apart), "one clock: {check:?} and {later}");
    let again = store.check(&operator().await).await.expect("the store answers");
    assert!(again.findings.is_empty(), "{:?}", again.findings);
}
