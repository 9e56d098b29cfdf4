//! Cases: what operators see when there are many lanes (A1, A2).

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use jobs_core::{
    Admin, Job, JobRef, Outcome, Settlement, State,
    ext::AdminExt,
    queue::{Delivery, Pushed},
    view::{COUNTED, Count, Lanes, List},
};

use super::list::reads;
use crate::{
    kit::{Kit, QUEUE, checked, job, operator, permit, push},
    ops::{LATER, from_queue, hold, lane},
};

super::cases![
    a1_idle_lanes_hide_no_waiting_one,
    a1_others_work_hides_no_tenant,
    a2_due_jobs_hide_no_scheduled_ones,
    a2_many_lanes_cost_a_page_nothing,
    a2_history_hides_no_ready_or_running_one,
];

async fn push_all(store: &dyn Admin, jobs: impl Iterator<Item = Job>) {
    for answer in store.enqueue(&jobs.map(checked).collect::<Vec<_>>()).await {
        assert_eq!(answer.expect("the store answers"), Pushed::Stored);
    }
}

/// 1,100 tenants that were here once, and behind them by name one that waits.
async fn a1_idle_lanes_hide_no_waiting_one(kit: &Kit) {
    let store = kit.handle().await;
    let grant = reads().await;
    let once: Vec<_> = (0..1100).map(|at| checked(job(&format!("idle-{at:04}")))).collect();
    for answer in store.enqueue(&once).await {
        assert_eq!(answer.expect("the store answers"), jobs_core::Pushed::Stored);
    }
    let held = hold(&*store, &from_queue(QUEUE, "suite", 1100), 1100).await;
    let done = |held: &Delivery| Settlement { claim: held.claim.clone(), outcome: Outcome::Done };
    let settlements: Vec<_> = held.iter().map(done).collect();
    store.settle(&settlements).await.expect("the store answers");
    let pending = async || store.pending(&grant, QUEUE).await.expect("the store answers");
    assert_eq!(pending().await, Count { number: 0, or_more: false });
    push(&*store, job("waits")).await;
    kit.age_secs(100).await;
    assert_eq!(pending().await, Count { number: 1, or_more: false });
    let oldest = store.oldest(&grant, QUEUE).await.expect("the store answers");
    assert!((100..120).contains(&oldest.as_secs()), "about 100 s, not {oldest:?}");
    let counts = store.counts_of(&grant, QUEUE).await.expect("the store answers");
    let lanes: Vec<_> = counts.lanes.iter().map(|lane| lane.tenant.as_str()).collect();
    assert_eq!((lanes, counts.complete), (vec!["waits"], true));
    // More lanes than are counted, all with jobs: those where one waits are among the counted.
    let later = (0..1100).map(|at| checked(job(&format!("later-{at:04}")).after(LATER)));
    for answer in store.enqueue(&later.collect::<Vec<_>>()).await {
        assert_eq!(answer.expect("the store answers"), jobs_core::Pushed::Stored);
    }
    let more = store.oldest(&grant, QUEUE).await.expect("the store answers");
    assert!(more >= oldest, "{more:?} after {oldest:?}");
    assert_eq!(pending().await, Count { number: 1, or_more: true }, "not all lanes are counted");
}

/// One tenant uses every priority under a hundred names, another has seven jobs behind them by name.
async fn a1_others_work_hides_no_tenant(kit: &Kit) {
    let store = kit.handle().await;
    let line = |at: i16| Job { name: format!("n{:03}", at / 201), ..job("first") };
    push_all(&*store, (0..20_501).map(|at| line(at).priority(at % 201 - 100))).await;
    push_all(&*store, (0..7).map(|_| Job { name: "z".into(), ..job("zz") })).await;
    kit.age_secs(100).await;
    let seven = Count { number: 7, or_more: false };
    for queue in [None, Some(QUEUE.to_owned())] {
        let lanes = Lanes { queue, tenant: Some("zz".into()) };
        for permit in [operator().await, permit("zz")] {
            let counts = store.counts(&permit, &lanes).await.expect("the store answers");
            let found: Vec<_> =
                counts.lanes.iter().map(|lane| (lane.tenant.as_str(), lane.waiting)).collect();
            assert_eq!((found, counts.complete), (vec![("zz", seven)], true), "{lanes:?}");
            let oldest = counts.lanes[0].oldest.as_secs();
            assert!((100..120).contains(&oldest), "about 100 s, not {oldest}");
        }
    }
    let all = store.counts(&operator().await, &Lanes::default()).await.expect("the store answers");
    let found = all.lanes.iter().any(|lane| lane.tenant == "zz");
    assert!(found || !all.complete, "who was not counted is not said to be: {:?}", all.lanes);
}

/// Jobs that came due, with nobody who promotes them, are waiting; the rest is exact to 10,000.
async fn a2_due_jobs_hide_no_scheduled_ones(kit: &Kit) {
    let store = kit.handle().await;
    let soon = LATER / 10;
    push_all(&*store, (0..30).map(|_| job("acme").after(soon))).await;
    push_all(&*store, (1..COUNTED).map(|_| job("acme").after(2 * LATER))).await;
    kit.age(2 * soon).await;
    let numbers = async || {
        let lane = lane(&*store, QUEUE, "acme").await;
        (lane.scheduled, lane.waiting)
    };
    let thirty = Count { number: 30, or_more: false };
    assert_eq!(numbers().await, (Count { number: COUNTED - 1, or_more: false }, thirty));
    push_all(&*store, (0..2).map(|_| job("acme").after(2 * LATER))).await;
    assert_eq!(numbers().await, (Count { number: COUNTED, or_more: true }, thirty));
}

/// A page finds them at once behind whatever has finished since, by queue and tenant too.
async fn a2_history_hides_no_ready_or_running_one(kit: &Kit) {
    let store = kit.handle().await;
    let known = |name: &str| Job { name: name.into(), ..job("acme") };
    // Of a name that nobody asks for, so it stays where it is.
    let ready = push(&*store, known("unknown")).await.job_ref();
    let running = push(&*store, job("acme")).await.job_ref();
    hold(&*store, &from_queue(QUEUE, "suite", 1), 1).await;
    push_all(&*store, (0..2500).map(|_| job("acme"))).await;
    let done = |held: &Delivery| Settlement { claim: held.claim.clone(), outcome: Outcome::Done };
    for _ in 0..5 {
        let held = hold(&*store, &from_queue(QUEUE, "suite", 500), 500).await;
        let settlements: Vec<_> = held.iter().map(done).collect();
        store.settle(&settlements).await.expect("the store answers");
    }
    let permit = operator().await;
    for (state, job) in [(State::Ready, &ready), (State::Running, &running)] {
        for asked in 0..8u8 {
            let list = List {
                queue: (asked & 1 > 0).then(|| QUEUE.to_owned()),
                tenant: (asked & 2 > 0).then(|| "acme".to_owned()),
                id: (asked & 4 > 0).then_some(job.id),
                state: Some(state),
                ..List::default()
            };
            let page = store.list(&permit, &list).await.expect("the store answers");
            let found: Vec<_> = page.jobs.iter().map(|view| view.job.job_ref()).collect();
            assert_eq!(found, std::slice::from_ref(job), "{list:?}");
            assert!(page.complete && page.next.is_none(), "{list:?} is answered by an index");
        }
    }
}

/// Pages of a state and of a queue's are as short and as fast at 200 lanes, with other tenants'
/// newer jobs in the way.
async fn a2_many_lanes_cost_a_page_nothing(kit: &Kit) {
    let store = kit.handle().await;
    let jobs = (0..5000).map(|at| checked(job(&format!("t{:03}", at % 200))));
    for answer in store.enqueue(&jobs.collect::<Vec<_>>()).await {
        assert_eq!(answer.expect("the store answers"), jobs_core::Pushed::Stored);
    }
    let park = |held: &Delivery| Settlement {
        claim: held.claim.clone(),
        outcome: Outcome::Park { cause: "no".into() },
    };
    let mut parked = BTreeSet::new();
    while parked.len() < 5000 {
        let held = hold(&*store, &from_queue(QUEUE, "suite", 1000), 1000).await;
        let settlements: Vec<_> = held.iter().map(park).collect();
        store.settle(&settlements).await.expect("the store answers");
        parked.extend(held.into_iter().map(|held| held.claim.job));
    }
    let noise = (0..3000).map(|at| checked(job(&format!("t{:03}", at % 200)).on("elsewhere")));
    for answer in store.enqueue(&noise.collect::<Vec<_>>()).await {
        assert_eq!(answer.expect("the store answers"), jobs_core::Pushed::Stored);
    }
    let permit = operator().await;
    for asked in 0..4u8 {
        let mine = |job: &&JobRef| asked & 1 == 0 || job.tenant == "t007";
        let mut list = List {
            queue: (asked & 2 > 0).then(|| QUEUE.to_owned()),
            tenant: (asked & 1 > 0).then(|| "t007".to_owned()),
            state: Some(State::Parked),
            ..List::default()
        };
        let mut found = Vec::new();
        loop {
            let since = Instant::now();
            let page = store.list(&permit, &list).await.expect("the store answers");
            let took = since.elapsed();
            assert!(took < Duration::from_secs(1), "{list:?} took {took:?}");
            assert!(!page.jobs.is_empty() || page.next.is_none(), "{list:?} is indexed");
            found.extend(page.jobs.into_iter().map(|view| view.job.job_ref()));
            list.after = page.next;
            if list.after.is_none() {
                break;
            }
        }
        let mut expected: Vec<_> = parked.iter().filter(mine).cloned().collect();
        expected.sort_by(|a, b| (b.id, &b.tenant).cmp(&(a.id, &a.tenant)));
        assert!(found == expected, "{list:?}: {} of {}", found.len(), expected.len());
    }
    for state in [State::Running, State::Done, State::Cancelled, State::Scheduled] {
        let since = Instant::now();
        let list = List { queue: Some(QUEUE.into()), state: Some(state), ..List::default() };
        let page = store.list(&permit, &list).await.expect("the store answers");
        assert!(page.jobs.is_empty(), "nothing is {state}");
        assert!(page.complete || page.next.is_some());
        assert!(since.elapsed() < Duration::from_secs(1), "{state} took {:?}", since.elapsed());
    }
}
