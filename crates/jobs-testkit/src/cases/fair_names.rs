//! R5 and R1 where workers of one queue know different names.

use std::time::{Duration, Instant};

use jobs_core::{
    Admin, Job,
    queue::{Delivery, LANE_BATCH, Reserve},
};

use super::{
    fair::weigh,
    stage::{no_dearer, take_from},
};
use crate::kit::{Kit, checked, job, push};

super::cases![r1_a_tenants_many_names_cost_nothing, r5_workers_with_different_names];

fn named(tenant: &str, queue: &str, name: &str) -> Job {
    Job { name: name.to_owned(), ..job(tenant).on(queue) }
}

async fn pile(store: &dyn Admin, tenant: &str, queue: &str, name: &str, count: usize) {
    let jobs: Vec<_> = (0..count).map(|_| checked(named(tenant, queue, name))).collect();
    assert!(store.enqueue(&jobs).await.iter().all(Result::is_ok));
}

async fn take(store: &dyn Admin, queue: &str, names: &[&str], slots: usize) -> Vec<Delivery> {
    let request = Reserve::new(queue, names.iter().copied(), "suite").expect("legal");
    store.reserve(&request.slots(slots)).await.expect("the store answers").deliveries
}

/// The median time of a push and reserve of one job, and of the reserve alone.
async fn median(store: &dyn Admin, queue: &str) -> Duration {
    let mut times = Vec::new();
    for _ in 0..15 {
        push(store, job("acme").on(queue)).await;
        let start = Instant::now();
        assert_eq!(take_from(store, queue, 1).await.len(), 1);
        times.push(start.elapsed());
    }
    times.sort_unstable();
    times[times.len() / 2]
}

async fn r1_a_tenants_many_names_cost_nothing(kit: &Kit) {
    let store = kit.handle().await;
    let before = median(&*store, "names").await;
    let invented = |i: usize| checked(named("acme", "names", &format!("invented.{i}")));
    let jobs: Vec<_> = (0..5_000).map(invented).collect();
    assert!(store.enqueue(&jobs).await.iter().all(Result::is_ok));
    no_dearer(before, "beside 5,000 names of the tenant", || median(&*store, "names")).await;
}

async fn r5_workers_with_different_names(kit: &Kit) {
    let store = kit.handle().await;
    let store = &*store;
    // One fleet knows only x, the other also or only y. However much the other serves `both`, its x
    // is soon among the deliveries to workers that know x. Other names never are where `others` have
    // no work of them, so nobody but `endless` is in the way.
    let fleets: [(&[&str], &[&str]); 4] = [
        (&["x"], &["y"]),
        (&["x", "y"], &["y"]),
        (&["x"], &["x", "y"]),
        (&["x", "z"], &["y", "z"]),
    ];
    for (at, (ours, theirs)) in fleets.into_iter().enumerate() {
        for (mine, others) in [(1, 1), (1, 8), (8, 1)] {
            let queue = &format!("starve-{at}-{mine}-{others}");
            pile(store, "endless", queue, "x", 600).await;
            pile(store, "beside", queue, "y", 600).await;
            for round in 0..4 {
                // `both` has been served y for a while when its x comes.
                pile(store, "both", queue, "y", others).await;
                take(store, queue, theirs, 2 * others).await;
                take(store, queue, ours, mine).await;
                push(store, named("both", queue, "x").priority(100)).await;
                let mut before = 0;
                loop {
                    pile(store, "both", queue, "y", others).await;
                    let mut found = take(store, queue, theirs, others).await;
                    if !theirs.contains(&"x") {
                        found.clear();
                    }
                    found.extend(take(store, queue, ours, mine).await);
                    if found.iter().any(|d| d.job.tenant == "both" && d.job.name == "x") {
                        break;
                    }
                    before += found.len();
                    let bound = 2 * 3 * LANE_BATCH;
                    assert!(before < bound, "{queue}, round {round}: behind {before} others");
                }
            }
        }
    }
    // Weights are of the fleet's own deliveries, whatever another fleet drains.
    for other in [1, 10] {
        let queue = &format!("weights-{other}");
        weigh(store, queue, "three", 3).await;
        for tenant in ["three", "one"] {
            pile(store, tenant, queue, "x", 700).await;
        }
        pile(store, "drained", queue, "y", 4_000).await;
        pile(store, "drained", queue, "x", 1).await;
        let (mut three, mut one) = (0, 0);
        for _ in 0..400 {
            take(store, queue, &["y"], other).await;
            for delivery in take(store, queue, &["x"], 1).await {
                three += usize::from(delivery.job.tenant == "three");
                one += usize::from(delivery.job.tenant == "one");
            }
        }
        let fair = three * 10 >= one * 27 && three * 10 <= one * 33;
        assert!(fair, "beside {other} of another name: {three} to {one} is not 3 to 1");
    }
    // And lanes of different names that one fleet knows share by weight.
    let queue = "several";
    weigh(store, queue, "three", 3).await;
    pile(store, "three", queue, "x", 700).await;
    pile(store, "one", queue, "y", 700).await;
    let mut three = 0;
    for _ in 0..80 {
        let found = take(store, queue, &["x", "y"], 10).await;
        three += found.iter().filter(|delivery| delivery.job.tenant == "three").count();
    }
    assert!((580..=620).contains(&three), "{three} of 800 for three, the rest for one");
}
