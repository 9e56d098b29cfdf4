//! R1–R4: who gets which job, once.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::{Duration, Instant},
};

use jobs_core::{
    Admin, Cause, Job, Nonce, QueueExt, Timestamp,
    permit::{Read, Retry},
    queue::{Delivery, Reserve},
};
use tokio::sync::Mutex;

use super::stage::{FRESHNESS, cancel, drain, no_dearer, race, take_from, take_one_from};
use crate::kit::{Kit, NAME, QUEUE, checked, job, permit, push, take, take_one, wants};

super::cases![
    r1_only_that_queue,
    r1_only_known_names,
    r1_none_asked_none_given,
    r1_unknown_names_cost_nothing,
    r2_concurrent_reserves_are_disjoint,
    r2_the_fence_grows,
    r3_repeating_a_reserve,
    r4_order_within_a_tenant,
];

async fn reserve(store: &dyn Admin, request: &Reserve) -> Vec<Delivery> {
    let reserved = store.reserve(request).await.expect("the store answers");
    assert!(reserved.deliveries.len() <= request.most(), "more than asked");
    reserved.deliveries
}

fn named(tenant: &str, name: &str) -> Job {
    Job { name: name.to_owned(), ..job(tenant) }
}

async fn r1_only_that_queue(kit: &Kit) {
    let store = kit.handle().await;
    let queues = ["work", "work2", "wor", "work:2", "work-2", "default"];
    for queue in queues {
        push(&*store, job("acme").on(queue)).await;
        push(&*store, job("globex").on(queue)).await;
        push(&*store, job("globex").on(queue)).await;
    }
    assert!(take_from(&*store, "nobody", 100).await.is_empty());
    for queue in queues {
        // Up to the asked number, and what there is when it is less.
        assert_eq!(take_from(&*store, queue, 2).await.len(), 2, "{queue}");
        let rest = take_from(&*store, queue, 100).await;
        assert_eq!(rest.len(), 1, "{queue}");
        assert_eq!(rest[0].job.queue, queue);
        assert!(take_from(&*store, queue, 100).await.is_empty());
    }
}

async fn r1_only_known_names(kit: &Kit) {
    let store = kit.handle().await;
    for name in ["a", "a.b", "a:b", "ab", "b", "a-b"] {
        push(&*store, named("acme", name).priority(50)).await;
        push(&*store, named("globex", name)).await;
        // Future ones beside them: whichever condition comes first, both are asked.
        push(&*store, named("globex", name).after(Duration::from_secs(3600))).await;
    }
    let known = |names: &'static [&'static str]| {
        let request = Reserve::new(QUEUE, names.iter().copied(), "suite").expect("legal");
        request.slots(100)
    };
    for names in [&["zzz", "a.c", "a.b.c"][..], &["a.b"], &["a", "b"]] {
        let found = reserve(&*store, &known(names)).await;
        let found: Vec<_> = found.iter().map(|delivery| delivery.job.name.as_str()).collect();
        let expected = if names[0] == "zzz" { 0 } else { names.len() * 2 };
        assert_eq!(found.len(), expected, "{names:?}: {found:?}");
        assert!(found.iter().all(|name| names.contains(name)), "{names:?}: {found:?}");
    }
    // What nobody knew is left in line for a worker that does, unspent.
    let rest = reserve(&*store, &known(&["a", "b", "ab", "a:b", "a-b"])).await;
    assert_eq!(rest.len(), 6);
    assert!(rest.iter().all(|delivery| delivery.attempt == 1));
}

async fn r1_none_asked_none_given(kit: &Kit) {
    let store = kit.handle().await;
    push(&*store, job("acme")).await;
    let nobody = Reserve::new(QUEUE, Vec::<String>::new(), "suite").expect("legal").slots(9);
    let nothing_quick = wants(0).ahead(9, ["other"]);
    for request in [wants(0), nobody, nothing_quick] {
        assert!(reserve(&*store, &request).await.is_empty(), "{request:?}");
    }
    let (settled, reserved) =
        store.settle_and_reserve(&[], &wants(0)).await.expect("the store answers");
    assert!(settled.is_empty() && reserved.deliveries.is_empty());
    assert_eq!(take_one(&*store).await.attempt, 1, "it was touched");
}

/// The median time of a reserve that takes one job, over jobs of its own.
async fn median(store: &dyn Admin) -> Duration {
    let mut times = Vec::new();
    for _ in 0..15 {
        let mine = push(store, job("acme")).await;
        let start = Instant::now();
        let delivery = take_one(store).await;
        times.push(start.elapsed());
        assert_eq!(delivery.job.id, mine.id);
        store.ack(&delivery.claim).await.expect("the store answers");
    }
    times.sort_unstable();
    times[times.len() / 2]
}

async fn r1_unknown_names_cost_nothing(kit: &Kit) {
    let store = kit.handle().await;
    let before = median(&*store).await;
    for batch in 0..10 {
        let unknown = |i: usize| {
            // In the same lane, in hundreds of others, of several names, all of top priority.
            let tenant =
                if i.is_multiple_of(2) { "acme".to_owned() } else { format!("t{}", i % 600) };
            checked(named(&tenant, &format!("new.{}", i % 7)).priority(100))
        };
        let jobs: Vec<_> = (0..10_000).map(|i| unknown(i + batch)).collect();
        let answers = store.enqueue(&jobs).await;
        assert!(answers.iter().all(Result::is_ok), "{:?}", answers.iter().find(|a| a.is_err()));
    }
    no_dearer(before, "behind 100,000 unknown jobs", || median(&*store)).await;
    // No worker is kept busy by what it cannot run.
    let reserved = store.reserve(&wants(10)).await.expect("the store answers");
    assert!(reserved.deliveries.is_empty());
    let at_once = reserved.next_due.is_some_and(|wait| wait < Duration::from_millis(500));
    assert!(!at_once, "asked to come back in {:?}", reserved.next_due);
    let known = Reserve::new(QUEUE, ["new.3"], "suite").expect("legal").slots(10);
    assert_eq!(reserve(&*store, &known).await.len(), 10, "they wait for who knows them");
}

async fn r2_concurrent_reserves_are_disjoint(kit: &Kit) {
    let handles = [kit.handle().await, kit.handle().await, kit.handle().await];
    // One hot job and many hands.
    for round in 0..12 {
        let mine = push(&*handles[0], job("acme")).await;
        tokio::time::sleep(if round == 0 { FRESHNESS } else { Duration::ZERO }).await;
        let taken = race(32, |i| {
            let store = handles[i % 3].clone();
            async move { take(&*store, 1 + i % 4).await }
        });
        let mut taken: Vec<_> = taken.await.into_iter().flatten().collect();
        if taken.is_empty() {
            taken = drain(&*handles[0], QUEUE).await;
        }
        assert_eq!(taken.len(), 1, "round {round}");
        assert_eq!(taken[0].claim.job, mine.job_ref());
        handles[0].ack(&taken[0].claim).await.expect("the store answers");
    }
    // A thousand jobs of four tenants, until all are out.
    let jobs: Vec<_> = (0..1000)
        .map(|i| checked(job(["a", "b", "c", "d"][i % 4]).priority(i as i16 % 3)))
        .collect();
    assert!(handles[0].enqueue(&jobs).await.iter().all(Result::is_ok));
    let seen: Arc<Mutex<HashMap<_, u32>>> = Arc::default();
    race(48, |i| {
        let (store, seen) = (handles[i % 3].clone(), seen.clone());
        async move {
            let start = Instant::now();
            while seen.lock().await.len() < 1000 && start.elapsed() < Duration::from_secs(60) {
                let taken = take(&*store, 1 + i % 9).await;
                if taken.is_empty() {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
                let mut seen = seen.lock().await;
                for delivery in taken {
                    *seen.entry(delivery.claim.job).or_default() += 1;
                }
            }
        }
    })
    .await;
    let seen = seen.lock().await;
    assert_eq!(seen.len(), 1000, "all are delivered");
    let twice: Vec<_> = seen.iter().filter(|(_, times)| **times > 1).collect();
    assert!(twice.is_empty(), "two holders: {twice:?}");
}

async fn r2_the_fence_grows(kit: &Kit) {
    let store = kit.handle().await;
    let mine = push(&*store, job("acme").max_attempts(100)).await;
    let (mut fence, mut nonces) = (i64::MIN, HashSet::new());
    for round in 0..12 {
        let request = wants(1);
        let taken = reserve(&*store, &request).await;
        assert_eq!(taken.len(), 1, "round {round}");
        let claim = &taken[0].claim;
        assert!(claim.fence > fence, "round {round}: {} after {fence}", claim.fence);
        assert_eq!(claim.nonce, request.nonce_of());
        assert_eq!(claim.job, mine.job_ref());
        assert!(nonces.insert(claim.nonce));
        fence = claim.fence;
        let answered = match round % 6 {
            0 => store.release(claim).await.is_ok(),
            1 => store.fail(claim, Duration::ZERO, Cause::from("no")).await.is_ok(),
            2 => store.snooze(claim, Duration::ZERO).await.is_ok(),
            3 => {
                kit.age_secs(60).await;
                store.sweep().await.is_ok()
            }
            4 => {
                store.park(claim, Cause::default()).await.expect("the store answers");
                let read = permit::<Read>("acme");
                let parked = store.get(&read, &mine.job_ref()).await.expect("the store answers");
                assert!(parked.expect("it is stored").fence >= fence);
                store.retry(&permit::<Retry>("acme"), &[mine.job_ref()]).await.is_ok()
            }
            _ => {
                kit.age_secs(60).await;
                cancel(&*store, &mine.job_ref()).await;
                store.retry(&permit::<Retry>("acme"), &[mine.job_ref()]).await.is_ok()
            }
        };
        assert!(answered);
    }
    // One call has one nonce.
    for _ in 0..3 {
        push(&*store, job("globex").on("batch")).await;
    }
    let batch = take_from(&*store, "batch", 3).await;
    assert!(batch.len() == 3 && batch.iter().all(|d| d.claim.nonce == batch[0].claim.nonce));
}

async fn r3_repeating_a_reserve(kit: &Kit) {
    let store = kit.handle().await;
    for i in 0..9 {
        push(&*store, job(["acme", "globex"][i % 2])).await;
    }
    let request = wants(3).nonce(Nonce::random());
    let sorted = |mut deliveries: Vec<Delivery>| {
        deliveries.sort_by_key(|delivery| delivery.job.id);
        deliveries
    };
    let first = sorted(reserve(&*store, &request).await);
    assert_eq!(first.len(), 3);
    // The reply was lost: the same deliveries, unspent, and no others.
    let other = kit.handle().await;
    for store in [&store, &store, &other] {
        assert_eq!(sorted(reserve(&**store, &request).await), first);
    }
    // So it is when both are asked at once.
    let both = race(8, |i| {
        let (store, request) = ([&store, &other][i % 2].clone(), request.clone());
        async move { store.reserve(&request).await.expect("the store answers").deliveries }
    });
    for again in both.await {
        assert_eq!(sorted(again), first);
    }
    // What is settled is held no more, and nothing comes in its place.
    store.ack(&first[0].claim).await.expect("the store answers");
    assert_eq!(sorted(reserve(&*store, &request).await), first[1..]);
    store.release(&first[1].claim).await.expect("the store answers");
    assert_eq!(reserve(&*store, &request).await, first[2..]);
    // A lease that was lost is not answered by its old nonce, least of all when another holds it.
    kit.age_secs(60).await;
    store.sweep().await.expect("the store answers");
    let theirs = drain(&*store, QUEUE).await;
    assert_eq!(theirs.len(), 8);
    assert!(reserve(&*store, &request).await.is_empty(), "a claim of somebody else");
    for delivery in &theirs {
        let settled = store.ack(&delivery.claim).await.expect("the store answers");
        assert_eq!(settled, jobs_core::Settled::Applied(jobs_core::State::Done));
    }
    // A first call that took none is no call: its repetition takes.
    let empty = wants(2);
    assert!(reserve(&*store, &empty).await.is_empty());
    let late = push(&*store, job("acme")).await;
    let taken = reserve(&*store, &empty).await;
    assert!(taken.len() == 1 && taken[0].job.id == late.id && taken[0].attempt == 1);
    // Two first calls at once, as of a client that gave up on the first: one set of jobs.
    for round in 0..8 {
        for _ in 0..6 {
            push(&*store, job("acme").on("twice")).await;
        }
        let request = Reserve::new("twice", [NAME], "suite").expect("legal").slots(3);
        let both = race(4, |_| {
            let (store, request) = (store.clone(), request.clone());
            async move { store.reserve(&request).await.expect("the store answers").deliveries }
        });
        let jobs: HashSet<_> = both.await.into_iter().flatten().map(|d| d.claim).collect();
        assert_eq!(jobs.len(), 3, "round {round}");
        drain(&*store, "twice").await;
    }
}

async fn r4_order_within_a_tenant(kit: &Kit) {
    let store = kit.handle().await;
    let read = permit::<Read>("acme");
    let base = store.check(&read).await.expect("the store answers").now.as_millisecond();
    let at = |seconds: i64| Timestamp::from_millisecond(base + seconds * 1000).expect("a time");
    let mut jobs = Vec::new();
    for i in 0..60_u32 {
        // Equal due times among them, so that the id decides.
        let due = [300, 100, 200, 100][i as usize % 4];
        let priority = [0, 5, -100, 5, 100][i as usize % 5];
        jobs.push((priority, due, job("acme").priority(priority).at(at(due))));
    }
    let mut pushed = jobs.clone();
    fastrand::Rng::with_seed(7).shuffle(&mut pushed);
    for (.., job) in &pushed {
        push(&*store, job.clone()).await;
    }
    kit.age_secs(400).await;
    // What was pushed at once competes by the same order, without a sweep in between.
    for priority in [0, 100, -100] {
        jobs.push((priority, 1000, push(&*store, job("acme").priority(priority)).await));
    }
    jobs.sort_by_key(|(priority, due, job)| (-priority, *due, job.id));
    let expected: Vec<_> = jobs.iter().map(|(.., job)| job.id).collect();
    let mut found = Vec::new();
    for slots in [1, 1, 1, 2, 5, 10, 1, 1000] {
        found.extend(take(&*store, slots).await.iter().map(|delivery| delivery.job.id));
    }
    assert_eq!(found, expected);

    // A job given back keeps its place, and one that failed goes by its new due time.
    let early = push(&*store, job("acme").on("back")).await;
    tokio::time::sleep(Duration::from_millis(3)).await;
    let late = push(&*store, job("acme").on("back")).await;
    let delivery = take_one_from(&*store, "back").await;
    assert_eq!(delivery.job.id, early.id);
    store.release(&delivery.claim).await.expect("the store answers");
    let delivery = take_one_from(&*store, "back").await;
    assert_eq!(delivery.job.id, early.id, "a release keeps the due time");
    let after = Duration::from_millis(1);
    store.fail(&delivery.claim, after, Cause::from("no")).await.expect("the store answers");
    kit.age_secs(1).await;
    assert_eq!(take_one_from(&*store, "back").await.job.id, late.id);
    let again = take_one_from(&*store, "back").await;
    assert_eq!((again.job.id, again.attempt), (early.id, 2));
}
