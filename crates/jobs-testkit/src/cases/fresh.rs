//! R6–R8: when a job is delivered, how often, and when it is not.

use std::time::{Duration, Instant};

use jobs_core::{
    Admin, Cause, Job, QueueExt, Settled, State,
    admin::{LaneChange, LaneRef, Pause, Retried, Tuned},
    permit::Tune,
    queue::{Delivery, LANE_BATCH, Reserve},
};

use super::stage::{FRESHNESS, cancel, retry, stage, state_of, take_from, take_one_from};
use crate::kit::{Kit, NAME, QUEUE, checked, job, operator, push, take, take_one, wants};

super::cases![
    r6_own_pushes_are_visible,
    r6_other_handles_pushes_are_visible,
    r6_a_scheduled_job_comes_due,
    r6_a_crowd_comes_due_at_once,
    r6_next_due_is_told,
    r7_n_attempts_are_n_deliveries,
    r7_a_suspect_is_never_held_ahead,
    r8_never_future_running_or_parked,
    r8_a_paused_lane_delivers_nothing,
];

async fn r6_own_pushes_are_visible(kit: &Kit) {
    let store = kit.handle().await;
    for i in 0..60 {
        let mine = push(&*store, job(["acme", "globex", "initech"][i % 3])).await;
        let delivery = take_one(&*store).await;
        assert_eq!(delivery.job.id, mine.id, "round {i}");
        // An operator's retry is as visible as a push, and so is a release.
        store.park(&delivery.claim, Cause::default()).await.expect("the store answers");
        assert_eq!(retry(&*store, &mine.job_ref()).await, Retried::Retried);
        let delivery = take_one(&*store).await;
        store.release(&delivery.claim).await.expect("the store answers");
        let delivery = take_one(&*store).await;
        assert_eq!(delivery.job.id, mine.id, "round {i}");
        store.ack(&delivery.claim).await.expect("the store answers");
        assert!(take(&*store, 9).await.is_empty(), "an empty reserve in between hides nothing");
    }
}

async fn r6_other_handles_pushes_are_visible(kit: &Kit) {
    let (producer, worker) = (kit.handle().await, kit.handle().await);
    for round in 0..12 {
        // A worker that has just seen nothing, and a lane that it has never seen.
        assert!(take(&*worker, 9).await.is_empty());
        let mine = push(&*producer, job(&format!("tenant-{}", round % 8))).await;
        let delivery = seen_within_f(&*worker).await;
        assert_eq!(delivery.job.id, mine.id);
        worker.park(&delivery.claim, Cause::default()).await.expect("the store answers");
        assert_eq!(retry(&*producer, &mine.job_ref()).await, Retried::Retried);
        let delivery = seen_within_f(&*worker).await;
        worker.ack(&delivery.claim).await.expect("the store answers");
    }
}

/// The one job that another handle has just committed: a reserve that began 250 ms later sees it.
async fn seen_within_f(worker: &dyn Admin) -> Delivery {
    let committed = Instant::now();
    loop {
        let began = committed.elapsed();
        if let Some(delivery) = take(worker, 1).await.pop() {
            return delivery;
        }
        assert!(began < FRESHNESS, "not seen by a reserve that began {began:?} after the commit");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

async fn r6_a_scheduled_job_comes_due(kit: &Kit) {
    let store = kit.handle().await;
    let minute = push(&*store, job("acme").after(Duration::from_secs(60))).await;
    let failed = push(&*store, job("globex")).await;
    let delivery = take_one(&*store).await;
    let delay = Duration::from_secs(60);
    store.fail(&delivery.claim, delay, Cause::from("no")).await.expect("the store answers");
    assert!(take(&*store, 9).await.is_empty());
    kit.age_secs(50).await;
    assert!(take(&*store, 9).await.is_empty(), "ten seconds early");
    // Nobody sweeps: being due is enough.
    kit.age_secs(11).await;
    let mut due: Vec<_> = take(&*store, 9).await.iter().map(|delivery| delivery.job.id).collect();
    due.sort_unstable();
    let mut expected = [minute.id, failed.id];
    expected.sort_unstable();
    assert_eq!(due, expected);

    // And by the clock on the wall: never early, and due jobs are there for who asks.
    let (start, delay) = (Instant::now(), Duration::from_millis(300));
    push(&*store, job("acme").on("soon").after(delay)).await;
    let pushed = Instant::now();
    loop {
        let began = pushed.elapsed();
        if !take_from(&*store, "soon", 1).await.is_empty() {
            let waited = start.elapsed() + Duration::from_millis(2);
            assert!(waited >= delay, "delivered after {waited:?}, early");
            return;
        }
        assert!(began < delay + FRESHNESS, "a reserve {began:?} after the push found nothing");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

async fn r6_a_crowd_comes_due_at_once(kit: &Kit) {
    let store = kit.handle().await;
    // One tenant schedules its all for nine o'clock, another one job for a moment later.
    let hour = Duration::from_secs(3600);
    for _ in 0..10 {
        let crowd = || checked(job("big").priority(100).after(hour));
        let jobs: Vec<_> = (0..10_000).map(|_| crowd()).collect();
        assert!(store.enqueue(&jobs).await.iter().all(Result::is_ok));
    }
    let mine = push(&*store, job("acme").priority(-100).after(hour)).await;
    kit.age(hour * 2).await;
    let (due, mut before) = (Instant::now(), 0);
    loop {
        let began = due.elapsed();
        let deliveries = take(&*store, 1).await;
        if deliveries.iter().any(|delivery| delivery.job.id == mine.id) {
            break;
        }
        before += deliveries.len();
        // Within the bound of two lanes, and within a second: each alone.
        let late = before >= 4 * LANE_BATCH || began > Duration::from_secs(1);
        assert!(!late, "due for {began:?} and behind {before} others");
    }
    // The crowd itself is not held up: there is always enough of it in line.
    for size in [1000, 100, 1, 1000] {
        assert_eq!(take(&*store, size).await.len(), size);
    }
}

async fn r6_next_due_is_told(kit: &Kit) {
    let store = kit.handle().await;
    let next_due = || async {
        let reserved = store.reserve(&wants(9)).await.expect("the store answers");
        assert!(reserved.deliveries.is_empty());
        reserved.next_due
    };
    assert_eq!(next_due().await, None, "nothing is scheduled");
    let hour = Duration::from_secs(3600);
    push(&*store, job("acme").on("elsewhere").after(Duration::from_secs(5))).await;
    assert_eq!(next_due().await, None, "nothing is scheduled here");
    // Jobs that nobody here knows may hide a later one, but not that there is something to ask for.
    let unknown = || {
        let job = job("acme").on("rolling").after(Duration::from_secs(600));
        checked(Job { name: "unknown".to_owned(), ..job })
    };
    let jobs: Vec<_> = (0..500).map(|_| unknown()).collect();
    assert!(store.enqueue(&jobs).await.iter().all(Result::is_ok));
    push(&*store, job("acme").on("rolling").after(Duration::from_secs(1200))).await;
    let request = Reserve::new("rolling", [NAME], "suite").expect("legal");
    let told = store.reserve(&request).await.expect("the store answers").next_due;
    let window = Duration::from_secs(500)..=Duration::from_secs(1200);
    assert!(told.is_some_and(|wait| window.contains(&wait)), "behind unknown ones: {told:?}");
    push(&*store, job("acme").after(hour * 5)).await;
    let told = next_due().await;
    assert!(told.is_none_or(|wait| wait <= hour), "longer than an hour: {told:?}");
    push(&*store, job("globex").after(Duration::from_secs(1800))).await;
    push(&*store, job("acme").after(Duration::from_secs(120))).await;
    let told = next_due().await.expect("a job is due in two minutes");
    let window = Duration::from_secs(60)..=Duration::from_secs(120);
    assert!(window.contains(&told), "{told:?}");
    kit.age_secs(100).await;
    let told = next_due().await.expect("a job is due in twenty seconds");
    assert!(told <= Duration::from_secs(20) && told >= Duration::from_secs(5), "{told:?}");
    // With a job at hand the rest of the slots still learn when to ask again.
    push(&*store, job("acme")).await;
    let reserved = store.reserve(&wants(9)).await.expect("the store answers");
    assert_eq!(reserved.deliveries.len(), 1);
    assert!(reserved.next_due.is_some_and(|wait| wait <= Duration::from_secs(20)));
}

/// Loses the lease of the only job on [`QUEUE`] and says where the sweep put it.
async fn lose(kit: &Kit, store: &dyn Admin) -> State {
    kit.age_secs(30).await;
    let swept = store.sweep().await.expect("the store answers").lost;
    assert_eq!(swept.len(), 1, "one lease is over");
    swept[0].state
}

async fn r7_n_attempts_are_n_deliveries(kit: &Kit) {
    let store = kit.handle().await;
    for (limit, deliveries) in [(None, 5), (Some(1), 1), (Some(3), 3)] {
        let mine = push(&*store, Job { max_attempts: limit, ..job("acme") }).await;
        for attempt in 1..=deliveries {
            // Given back, it is delivered again under the same number.
            let delivery = take_one(&*store).await;
            assert_eq!(delivery.attempt, attempt);
            store.release(&delivery.claim).await.expect("the store answers");
            let delivery = take_one(&*store).await;
            assert_eq!(delivery.attempt, attempt, "after a release");
            store.snooze(&delivery.claim, Duration::ZERO).await.expect("the store answers");
            let delivery = take_one(&*store).await;
            assert_eq!(delivery.attempt, attempt, "after a snooze");
            assert_eq!(delivery.job.max_attempts, Some(deliveries));
            let last = attempt == deliveries;
            if attempt == 2 && !last {
                // A failure spends one as a lost lease does.
                let failed = store.fail(&delivery.claim, Duration::ZERO, Cause::from("no")).await;
                assert_eq!(failed.expect("it answers"), Settled::Applied(State::Scheduled));
            } else {
                let state = if last { State::Parked } else { State::Ready };
                assert_eq!(lose(kit, &*store).await, state, "attempt {attempt} of {deliveries}");
            }
        }
        assert!(take(&*store, 9).await.is_empty(), "delivered more than {deliveries} times");
        assert_eq!(state_of(&*store, &mine.job_ref()).await, State::Parked);
        assert_eq!(retry(&*store, &mine.job_ref()).await, Retried::Retried);
        let delivery = take_one(&*store).await;
        assert_eq!(delivery.attempt, 1, "an operator's retry starts again");
        store.ack(&delivery.claim).await.expect("the store answers");
    }
}

/// How many of the deliveries are suspect.
fn suspects(deliveries: &[Delivery]) -> usize {
    deliveries.iter().filter(|delivery| delivery.suspect).count()
}

async fn r7_a_suspect_is_never_held_ahead(kit: &Kit) {
    let store = kit.handle().await;
    let mut lost = Vec::new();
    for i in 0..4 {
        lost.push(push(&*store, job(["acme", "globex"][i % 2]).priority(100)).await.id);
    }
    let first = take(&*store, 9).await;
    assert!(first.len() == 4 && suspects(&first) == 0);
    kit.age_secs(30).await;
    assert_eq!(store.sweep().await.expect("the store answers").lost.len(), 4);
    for i in 0..6 {
        push(&*store, job(["acme", "globex"][i % 2])).await;
        push(&*store, Job { name: "slow".to_owned(), ..job("acme").priority(50) }).await;
    }
    let ahead = |slots: usize, ahead: usize| {
        let request = Reserve::new(QUEUE, [NAME, "slow"], "suite").expect("legal");
        request.slots(slots).ahead(ahead, [NAME])
    };
    // Held only: of the quick name, none suspect, although suspects are first in line.
    let held = store.reserve(&ahead(0, 3)).await.expect("the store answers").deliveries;
    assert_eq!(held.len(), 3, "clean jobs behind suspects are found");
    assert!(held.iter().all(|delivery| !delivery.suspect && delivery.job.name == NAME));
    // One slot: one of anything, and the rest as above.
    let mixed = store.reserve(&ahead(1, 2)).await.expect("the store answers").deliveries;
    assert!(mixed.len() <= 3 && !mixed.is_empty());
    let odd = mixed.iter().filter(|delivery| delivery.suspect || delivery.job.name != NAME);
    assert!(odd.count() <= 1, "more than one slot's worth: {mixed:?}");
    for delivery in held.iter().chain(&mixed) {
        assert_eq!(delivery.suspect, lost.contains(&delivery.job.id));
        store.release(&delivery.claim).await.expect("the store answers");
    }
    // In free slots they all go, marked, and a release does not clear them: nothing was shown.
    for _ in 0..2 {
        let slots = store.reserve(&wants(100)).await.expect("the store answers").deliveries;
        assert_eq!((slots.len(), suspects(&slots)), (10, 4));
        for delivery in &slots {
            assert_eq!(delivery.suspect, lost.contains(&delivery.job.id));
            assert_eq!(delivery.attempt, if delivery.suspect { 2 } else { 1 });
            store.release(&delivery.claim).await.expect("the store answers");
        }
    }
    // A run that failed in the open is no suspect any more.
    for delivery in take(&*store, 100).await {
        let failed = store.fail(&delivery.claim, Duration::ZERO, Cause::from("no")).await;
        assert_eq!(failed.expect("the store answers"), Settled::Applied(State::Scheduled));
    }
    let clean = store.reserve(&ahead(0, 100)).await.expect("the store answers").deliveries;
    assert_eq!((clean.len(), suspects(&clean)), (10, 0));
}

async fn r8_never_future_running_or_parked(kit: &Kit) {
    let store = kit.handle().await;
    for state in [State::Running, State::Parked, State::Done, State::Cancelled, State::Scheduled] {
        for priority in [-100, 0, 100] {
            stage(&*store, job("acme").priority(priority), state).await;
        }
    }
    let failed = push(&*store, job("acme")).await;
    let delivery = take_one(&*store).await;
    let minute = Duration::from_secs(60);
    store.fail(&delivery.claim, minute, Cause::from("no")).await.expect("the store answers");
    let snoozed = push(&*store, job("acme")).await;
    let delivery = take_one(&*store).await;
    store.snooze(&delivery.claim, minute).await.expect("the store answers");
    let asked = push(&*store, job("acme")).await;
    take_one(&*store).await;
    cancel(&*store, &asked.job_ref()).await;
    for _ in 0..3 {
        let found = take(&*store, 100).await;
        assert!(found.is_empty(), "{found:?}");
        let found = store.reserve(&wants(0).ahead(9, [NAME])).await.expect("the store answers");
        assert!(found.deliveries.is_empty(), "{found:?}");
        store.sweep().await.expect("the store answers");
    }
    // All of them among ready ones, and only those come.
    let ready = push(&*store, job("acme").priority(-100)).await;
    let found: Vec<_> = take(&*store, 100).await.iter().map(|d| d.job.id).collect();
    assert_eq!(found, [ready.id]);
    for job in [failed, snoozed] {
        assert_eq!(state_of(&*store, &job.job_ref()).await, State::Scheduled);
    }
}

async fn r8_a_paused_lane_delivers_nothing(kit: &Kit) {
    let store = kit.handle().await;
    let lane = |tenant: Option<&str>| LaneRef {
        queue: QUEUE.to_owned(),
        tenant: tenant.map(str::to_owned),
    };
    let set = |tenant: Option<&'static str>, pause: Pause| {
        let (store, lane) = (store.clone(), lane(tenant));
        async move {
            let change = LaneChange { pause: Some(pause), ..LaneChange::default() };
            let tuned = store.set_lane(&operator::<Tune>().await, &lane, change).await;
            assert_eq!(tuned.expect("the store answers"), Tuned::Tuned);
        }
    };
    let held = push(&*store, job("acme").priority(100)).await;
    let delivery = take_one(&*store).await;
    for i in 0..3 {
        push(&*store, job("acme").priority(100 - i)).await;
    }
    set(Some("acme"), Pause::On).await;
    // Whatever reaches a paused lane waits there: pushes, retries, releases, lost leases, due jobs.
    push(&*store, job("acme")).await;
    push(&*store, job("acme").after(Duration::from_secs(10))).await;
    push(&*store, job("acme").on("other")).await;
    let open = push(&*store, job("globex")).await;
    let found: Vec<_> = take(&*store, 100).await.iter().map(|d| d.job.id).collect();
    assert_eq!(found, [open.id], "the others go on");
    let other = take_one_from(&*store, "other").await;
    assert_eq!(other.job.tenant, "acme", "and so do its other lanes");
    store.ack(&other.claim).await.expect("the store answers");
    store.release(&delivery.claim).await.expect("its runs may end");
    assert!(take(&*store, 100).await.is_empty());
    kit.age_secs(60).await;
    store.sweep().await.expect("the store answers");
    let rest = take(&*store, 100).await;
    assert!(rest.iter().all(|d| d.job.tenant == "globex"), "{rest:?}");
    // Nor does it keep anybody busy.
    let idle = store.reserve(&wants(9)).await.expect("the store answers");
    assert!(idle.deliveries.is_empty());
    let at_once = idle.next_due.is_some_and(|wait| wait < Duration::from_millis(500));
    assert!(!at_once, "a paused lane asks to come back in {:?}", idle.next_due);
    // Nor a whole queue, in which a job comes due.
    store
        .set_lane(
            &operator::<Tune>().await,
            &LaneRef { queue: "shut".to_owned(), tenant: None },
            LaneChange { pause: Some(Pause::On), ..LaneChange::default() },
        )
        .await
        .expect("the store answers");
    push(&*store, job("acme").on("shut").after(Duration::from_secs(10))).await;
    kit.age_secs(60).await;
    let shut = || Reserve::new("shut", [NAME], "suite").expect("legal");
    for _ in 0..2 {
        let idle = store.reserve(&shut()).await.expect("the store answers");
        assert!(idle.deliveries.is_empty());
        let at_once = idle.next_due.is_some_and(|wait| wait < Duration::from_millis(500));
        assert!(!at_once, "a paused queue asks to come back in {:?}", idle.next_due);
    }
    set(Some("acme"), Pause::Off).await;
    let resumed = take(&*store, 100).await;
    assert_eq!(resumed.len(), 6);
    assert_eq!(resumed[0].job.id, held.id, "in order");

    // A pause of the queue is a pause of every lane, and not of another queue.
    push(&*store, job("acme")).await;
    push(&*store, job("globex")).await;
    push(&*store, job("acme").on("other")).await;
    set(None, Pause::On).await;
    assert!(take(&*store, 100).await.is_empty());
    push(&*store, job("initech")).await;
    assert!(take(&*store, 100).await.is_empty());
    assert_eq!(take_from(&*store, "other", 9).await.len(), 1);
    set(None, Pause::Off).await;
    assert_eq!(take(&*store, 100).await.len(), 3);
}
