//! R5: however long anybody's line, a newcomer's first job is soon among the deliveries.

use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, Instant},
};

use jobs_core::{
    Admin,
    admin::{LaneChange, LaneRef, Tuned},
    permit::Tune,
    queue::{Delivery, LANE_BATCH},
};
use tokio::sync::Mutex;

use super::stage::{FRESHNESS, no_dearer, race, take_from};
use crate::kit::{Kit, checked, job, operator, push};

super::cases![
    r5_a_newcomer_behind_100_000,
    r5_fair_under_concurrent_reservers,
    r5_a_lone_tenant_gets_everything,
    r5_small_lanes_leave_the_rest_shared,
    r5_weights_three_to_one,
    r5_idleness_earns_no_credit,
    r5_drained_and_paused_lanes_cost_nothing,
];

/// Newcomers of one run.
const NEWCOMERS: usize = 50;

/// Pushes `count` jobs of `tenant` at `priority`, 10,000 per call.
async fn pile(store: &dyn Admin, tenant: &str, queue: &str, priority: i16, count: usize) {
    for start in (0..count).step_by(10_000) {
        let size = (count - start).min(10_000);
        let one = || checked(job(tenant).on(queue).priority(priority));
        let jobs: Vec<_> = (0..size).map(|_| one()).collect();
        let answers = store.enqueue(&jobs).await;
        assert!(answers.iter().all(Result::is_ok), "{:?}", answers.iter().find(|a| a.is_err()));
    }
}

/// One answered reserve.
struct Answer {
    began: Instant,
    ended: Instant,
    deliveries: Vec<Delivery>,
}

/// Reserves in a loop, from several tasks over `handles`, until `wanted` lanes had their job or
/// `most` was delivered; answers in the order in which the answers came.
async fn reservers(
    handles: &[Arc<dyn Admin>],
    queue: &str,
    tasks: usize,
    batch: usize,
    wanted: usize,
    most: usize,
) -> Vec<Answer> {
    #[derive(Default)]
    struct Log {
        answers: Vec<Answer>,
        newcomers: usize,
        delivered: usize,
    }
    let log: Arc<Mutex<Log>> = Arc::default();
    race(tasks, |task| {
        let (store, log) = (handles[task % handles.len()].clone(), log.clone());
        let queue = queue.to_owned();
        async move {
            loop {
                let began = Instant::now();
                let deliveries = take_from(&*store, &queue, batch).await;
                let ended = Instant::now();
                let mut log = log.lock().await;
                log.delivered += deliveries.len();
                log.newcomers += deliveries.iter().filter(|d| d.job.tenant != "big").count();
                let last = deliveries.is_empty();
                log.answers.push(Answer { began, ended, deliveries });
                if last || log.newcomers >= wanted || log.delivered >= most {
                    return;
                }
            }
        }
    })
    .await;
    let mut log = log.lock().await;
    log.answers.sort_by_key(|answer| answer.ended);
    std::mem::take(&mut log.answers)
}

/// For each newcomer, how many deliveries of the queue certainly came before its own: those of the
/// answers that were there before the call that delivered it began. With one reserver that is
/// exact; among many, calls that ran beside it may have been served after it.
fn deliveries_before(answers: &[Answer]) -> HashMap<String, usize> {
    let mut before = HashMap::new();
    for answer in answers {
        for delivery in answer.deliveries.iter().filter(|d| d.job.tenant != "big") {
            let earlier = answers.iter().filter(|other| other.ended <= answer.began);
            let count = earlier.map(|other| other.deliveries.len()).sum();
            let again = before.insert(delivery.job.tenant.clone(), count);
            assert!(again.is_none(), "{} was delivered twice", delivery.job.tenant);
        }
    }
    before
}

/// Newcomers with one job each, behind whatever stands in `queue`, are within the bound.
async fn newcomers_are_served(
    handles: &[Arc<dyn Admin>],
    queue: &str,
    tasks: usize,
    batch: usize,
    count: usize,
) {
    for newcomer in 0..count {
        // Names on both sides of the big one's, so that no order of names helps.
        let tenant = format!("{}{newcomer}", if newcomer % 2 == 0 { "a" } else { "z" });
        push(&*handles[0], job(&tenant).on(queue).priority(-100)).await;
    }
    if handles.len() > 1 {
        // The bound counts from visibility, which for another process may be F later.
        tokio::time::sleep(FRESHNESS).await;
    }
    let bound = 2 * (count + 1) * LANE_BATCH;
    let answers =
        reservers(handles, queue, tasks, batch, count, bound * 2 + tasks * batch * 2).await;
    let before = deliveries_before(&answers);
    let about = format!("{tasks} reservers of {batch}, {count} newcomers");
    assert_eq!(before.len(), count, "{about}: after twice the bound {} were served", before.len());
    let worst = before.values().max().expect("at least one newcomer");
    assert!(*worst < bound, "{about}: one came after {worst} deliveries, the bound is {bound}");
}

/// The median time of a reserve of one job.
async fn median(store: &dyn Admin, queue: &str) -> Duration {
    let mut times = Vec::new();
    for _ in 0..15 {
        let start = Instant::now();
        assert_eq!(take_from(store, queue, 1).await.len(), 1);
        times.push(start.elapsed());
    }
    times.sort_unstable();
    times[times.len() / 2]
}

async fn r5_a_newcomer_behind_100_000(kit: &Kit) {
    let store = kit.handle().await;
    pile(&*store, "big", "small", 100, 100).await;
    let short = median(&*store, "small").await;
    pile(&*store, "big", "behind", 100, 100_000).await;
    no_dearer(short, "with 100,000 in line", || median(&*store, "behind")).await;
    // One reserver: the count is exact. Alone against the big one, and fifty at once.
    let handles = [store.clone()];
    for (round, batch) in [1, 10, 100].into_iter().enumerate() {
        newcomers_are_served(&handles, "behind", 1, batch, 1).await;
        newcomers_are_served(&handles, "behind", 1, batch, 1 + round).await;
        newcomers_are_served(&handles, "behind", 1, batch, NEWCOMERS).await;
    }
    // A lane that was served before is as new when it returns: many times in a row.
    for _ in 0..5 {
        newcomers_are_served(&handles, "behind", 1, 8, 1).await;
    }
    // And one that comes while others of the same priority and of a higher one have a line, too.
    pile(&*store, "large", "behind", 100, 2_000).await;
    for (batch, tenant) in [(1, "late"), (8, "later"), (100, "latest")] {
        push(&*store, job(tenant).on("behind").priority(-100)).await;
        let mut before = 0;
        loop {
            let deliveries = take_from(&*store, "behind", batch).await;
            if deliveries.iter().any(|delivery| delivery.job.tenant == tenant) {
                break;
            }
            before += deliveries.len();
            assert!(before < 2 * 3 * LANE_BATCH, "{tenant} comes after {before} of three lanes");
        }
    }
}

async fn r5_fair_under_concurrent_reservers(kit: &Kit) {
    let handles = [kit.handle().await, kit.handle().await];
    for tasks in [1, 8, 32] {
        for batch in [1, 10, 100] {
            let queue = format!("q{tasks}-{batch}");
            // Enough to outlast the bound and every call in flight, so that a store that serves the
            // big one first is still at it when the count is over.
            let bound = 2 * (NEWCOMERS + 1) * LANE_BATCH;
            let backlog = (bound * 3 + tasks * batch * 3).max(5_000);
            pile(&*handles[0], "big", &queue, 100, backlog).await;
            // Everybody has been at it for a while when the newcomers come.
            tokio::time::sleep(FRESHNESS).await;
            reservers(&handles, &queue, tasks, batch, 1, tasks * batch / 4).await;
            newcomers_are_served(&handles, &queue, tasks, batch, NEWCOMERS).await;
        }
    }
}

/// What lanes with less than a visit leave of a large wish is still shared visit by visit.
async fn r5_small_lanes_leave_the_rest_shared(kit: &Kit) {
    let store = kit.handle().await;
    let queue = "small";
    for large in ["a", "z"] {
        pile(&*store, large, queue, 0, 400).await;
    }
    for small in 0..20 {
        push(&*store, job(&format!("s{small}")).on(queue)).await;
    }
    let deliveries = take_from(&*store, queue, 178).await;
    assert_eq!(deliveries.len(), 178, "all that was wanted is there");
    let of = |tenant: &str| deliveries.iter().filter(|d| d.job.tenant == tenant).count();
    let (one, other) = (of("a"), of("z"));
    assert!(one.abs_diff(other) <= LANE_BATCH, "{one} of one, {other} of the other");
    assert_eq!(deliveries.len() - one - other, 20, "each small one has its turn");
}

async fn r5_a_lone_tenant_gets_everything(kit: &Kit) {
    let store = kit.handle().await;
    // Lanes that had work and have none, or are paused, or have only names nobody knows, do not
    // count: the one that has gets all of the batch.
    let queue = "lone";
    for tenant in ["before", "paused", "unknown"] {
        push(&*store, job(tenant).on(queue)).await;
    }
    assert_eq!(take_from(&*store, queue, 9).await.len(), 3);
    pile(&*store, "big", queue, 0, 450).await;
    pile(&*store, "paused", queue, 100, 20).await;
    let unknown = jobs_core::Job { name: "unknown".to_owned(), ..job("unknown").on(queue) };
    push(&*store, unknown.priority(100)).await;
    let lane = LaneRef { queue: queue.to_owned(), tenant: Some("paused".to_owned()) };
    let pause = Some(jobs_core::admin::Pause::On);
    let change = LaneChange { weight: None, pause };
    let tuned = store.set_lane(&operator::<Tune>().await, &lane, change).await;
    assert_eq!(tuned.expect("the store answers"), Tuned::Tuned);
    for size in [100, 1, 7, 9, 33, 200] {
        let deliveries = take_from(&*store, queue, size).await;
        assert_eq!(deliveries.len(), size);
        assert!(deliveries.iter().all(|delivery| delivery.job.tenant == "big"));
    }
    assert_eq!(take_from(&*store, queue, 200).await.len(), 100, "down to the last one");
    // Several lanes with work fill a batch together, however short some of them are.
    for (tenant, count) in [("big", 500), ("b", 3), ("c", 40), ("d", 1)] {
        pile(&*store, tenant, "several", 0, count).await;
    }
    let deliveries = take_from(&*store, "several", 300).await;
    assert_eq!(deliveries.len(), 300);
    let short = deliveries.iter().filter(|delivery| delivery.job.tenant != "big").count();
    assert_eq!(short, 44, "the short lanes are through");
}

/// Gives a lane its weight.
pub(super) async fn weigh(store: &dyn Admin, queue: &str, tenant: &str, weight: u32) {
    let lane = LaneRef { queue: queue.to_owned(), tenant: Some(tenant.to_owned()) };
    let change = LaneChange { weight: Some(weight), pause: None };
    let tuned = store.set_lane(&operator::<Tune>().await, &lane, change).await;
    assert_eq!(tuned.expect("the store answers"), Tuned::Tuned);
}

/// Of `count` deliveries in batches of `batch`, how many each tenant got.
async fn shares(
    store: &dyn Admin,
    queue: &str,
    batch: usize,
    count: usize,
) -> HashMap<String, usize> {
    let mut shares: HashMap<_, usize> = HashMap::new();
    let mut left = count;
    while left > 0 {
        let deliveries = take_from(store, queue, batch.min(left)).await;
        assert_eq!(deliveries.len(), batch.min(left), "all lanes have work");
        left -= deliveries.len();
        for delivery in deliveries {
            *shares.entry(delivery.job.tenant).or_default() += 1;
        }
    }
    shares
}

async fn r5_weights_three_to_one(kit: &Kit) {
    let store = kit.handle().await;
    for batch in [1, 10, 100] {
        let queue = format!("weights-{batch}");
        // Set before the lane exists for one, after for the other; priority gives no share.
        weigh(&*store, &queue, "three", 3).await;
        pile(&*store, "three", &queue, -100, 1_000).await;
        pile(&*store, "one", &queue, 100, 1_000).await;
        weigh(&*store, &queue, "one", 1).await;
        let shares = shares(&*store, &queue, batch, 800).await;
        let (three, one) = (shares["three"], shares["one"]);
        let fair = three * 10 >= one * 27 && three * 10 <= one * 33;
        assert!(fair, "batches of {batch}: {three} to {one} is not 3 to 1 within 10 %");
    }
    // Without weights all have the same, and a weight counts from when it is set.
    let queue = "even";
    for (tenant, priority) in [("one", 100), ("two", -100), ("three", 0)] {
        pile(&*store, tenant, queue, priority, 1_000).await;
    }
    let even = shares(&*store, queue, 10, 600).await;
    assert!(even.values().all(|share| (180..=220).contains(share)), "{even:?}");
    weigh(&*store, queue, "two", 2).await;
    let double = shares(&*store, queue, 10, 800).await;
    let two = double["two"];
    assert!((360..=440).contains(&two), "half of 800 within 10 %: {double:?}");
}

async fn r5_idleness_earns_no_credit(kit: &Kit) {
    let store = kit.handle().await;
    let queue = "credit";
    pile(&*store, "big", queue, 0, 4_000).await;
    push(&*store, job("back").on(queue)).await;
    // It is served, then idle while the other one is served a thousand times.
    let first = shares(&*store, queue, 8, 1_000).await;
    assert_eq!(first["back"], 1);
    for returns in 0..3 {
        pile(&*store, "back", queue, 100, 200).await;
        // One that never was there has no more to claim than one that was.
        let newcomer = format!("new-{returns}");
        pile(&*store, &newcomer, queue, 100, 200).await;
        let next = shares(&*store, queue, 8, 240).await;
        for tenant in ["back", "big", newcomer.as_str()] {
            let share = next.get(tenant).copied().unwrap_or_default();
            assert!((64..=96).contains(&share), "a third of 240, not {share}: {next:?}");
        }
        // All of it goes, and then it is idle again for a while.
        shares(&*store, queue, 100, 240 + 300).await;
    }
}

async fn r5_drained_and_paused_lanes_cost_nothing(kit: &Kit) {
    let store = kit.handle().await;
    pile(&*store, "big", "few", 0, 50).await;
    let few = median(&*store, "few").await;
    // Hundreds of tenants were here, and some still have a line, but a paused one.
    let lane = |i: usize| checked(job(&format!("t{i}")).on("many"));
    let jobs: Vec<_> = (0..600).map(lane).collect();
    assert!(store.enqueue(&jobs).await.iter().all(Result::is_ok));
    assert_eq!(take_from(&*store, "many", 1000).await.len(), 600);
    let jobs: Vec<_> = (0..100).map(lane).collect();
    for i in 0..100 {
        let lane = LaneRef { queue: "many".to_owned(), tenant: Some(format!("t{i}")) };
        let pause = Some(jobs_core::admin::Pause::On);
        let change = LaneChange { weight: None, pause };
        let tuned = store.set_lane(&operator::<Tune>().await, &lane, change).await;
        assert_eq!(tuned.expect("the store answers"), Tuned::Tuned);
    }
    assert!(store.enqueue(&jobs).await.iter().all(Result::is_ok));
    pile(&*store, "big", "many", 0, 50).await;
    no_dearer(few, "beside 600 idle lanes", || median(&*store, "many")).await;
}
