//! Cases: what operators see of many jobs: counts (A1) and lists (A2).

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use jobs_core::{
    Admin, Grant, Job, JobId, JobRef, Outcome, Policy, State,
    ext::AdminExt,
    queue::Pushed,
    view::{COUNTED, Count, Cursor, List},
};

use crate::{
    kit::{Kit, NAME, Open, QUEUE, checked, job, operator, push, take, take_one},
    ops::{LAPSE, LATER, cancel, from_queue, hold, lane, settle, sweep_all, walk},
};

super::cases![
    a1_waiting_and_running,
    a1_oldest,
    a2_a_page_has_a_budget,
    a2_filters_combine,
    a2_a_walk_sees_each_job_once,
    a2_counts_are_capped,
    a2_minutes,
];

pub(super) async fn reads() -> Grant {
    Open.authorize_operator("ops", "jobs.read").await.expect("the policy is open")
}

/// Scheduled, waiting, running, parked.
async fn numbers(store: &dyn Admin) -> [u64; 4] {
    let lane = lane(store, QUEUE, "acme").await;
    let numbers = [lane.scheduled, lane.waiting, lane.running, lane.parked];
    assert!(numbers.iter().all(|count| !count.or_more));
    numbers.map(|count| count.number)
}

/// By time and not by state: what came due waits though nobody promoted it, and an expired lease
/// waits though nobody swept it.
async fn a1_waiting_and_running(kit: &Kit) {
    let store = kit.handle().await;
    assert_eq!(numbers(&*store).await, [0; 4]);
    for _ in 0..4 {
        push(&*store, job("acme")).await;
    }
    push(&*store, job("acme").after(LATER)).await;
    push(&*store, job("other")).await;
    push(&*store, job("acme").on("elsewhere")).await;
    assert_eq!(numbers(&*store).await, [1, 4, 0, 0]);
    // All five of the queue, so that which tenant comes first does not matter.
    let held: Vec<_> = hold(&*store, &from_queue(QUEUE, "suite", 5), 5).await;
    let mut mine: Vec<_> = held.iter().filter(|held| held.job.tenant == "acme").collect();
    assert_eq!(numbers(&*store).await, [1, 0, 4, 0]);
    let park = mine.pop().expect("four");
    settle(&*store, &park.claim, Outcome::Park { cause: "no".into() }).await;
    let back = mine.pop().expect("three");
    settle(&*store, &back.claim, Outcome::Release).await;
    let later = mine.pop().expect("two");
    let retry = Outcome::Retry { after: LATER, cause: "no".into() };
    settle(&*store, &later.claim, retry).await;
    assert_eq!(numbers(&*store).await, [2, 1, 1, 1]);
    kit.age(LAPSE).await;
    assert_eq!(numbers(&*store).await, [2, 2, 0, 1], "an expired lease waits");
    let pending = store.pending(&reads().await, QUEUE).await.expect("the store answers");
    assert_eq!(pending, Count { number: 3, or_more: false }, "with the other tenant's");
    kit.age(LATER).await;
    assert_eq!(numbers(&*store).await, [0, 4, 0, 1], "what came due waits");
    let late = mine.pop().expect("one");
    settle(&*store, &late.claim, Outcome::Done).await;
    assert_eq!(numbers(&*store).await, [0, 3, 0, 1], "the late settlement ended it");
    crate::invariants::hold(&*store).await;
}

/// How long the longest-waiting has been due.
async fn a1_oldest(kit: &Kit) {
    let store = kit.handle().await;
    let grant = reads().await;
    let oldest = async || {
        let oldest = store.oldest(&grant, QUEUE).await.expect("the store answers");
        let lanes = [lane(&*store, QUEUE, "acme").await, lane(&*store, QUEUE, "other").await];
        let most = lanes.iter().map(|lane| lane.oldest).max().expect("two");
        assert!(most >= oldest && most < oldest + Duration::from_secs(5));
        oldest
    };
    let about = |oldest: Duration, secs: u64| {
        let fits = (secs..secs + 20).contains(&oldest.as_secs());
        assert!(fits, "about {secs} s, not {oldest:?}");
    };
    assert_eq!(oldest().await, Duration::ZERO, "nothing is there");
    push(&*store, job("acme").after(Duration::from_secs(60))).await;
    assert_eq!(oldest().await, Duration::ZERO, "nothing is due");
    kit.age_secs(100).await;
    about(oldest().await, 40);
    push(&*store, job("other")).await;
    kit.age_secs(100).await;
    about(oldest().await, 140);
    assert_eq!(lane(&*store, QUEUE, "other").await.oldest.as_secs() / 20, 5, "100 s");
    let held = hold(&*store, &from_queue(QUEUE, "suite", 2), 2).await;
    assert_eq!(oldest().await, Duration::ZERO, "all are running");
    let of = |tenant| held.iter().find(|held| held.job.tenant == tenant).expect("held");
    settle(&*store, &of("other").claim, Outcome::Release).await;
    about(oldest().await, 100);
    settle(&*store, &of("acme").claim, Outcome::Park { cause: "no".into() }).await;
    about(oldest().await, 100);
    // The lease of a dead worker: its job waits, although nobody sweeps.
    take_one(&*store).await;
    assert_eq!(oldest().await, Duration::ZERO);
    kit.age(LAPSE).await;
    assert!(oldest().await > Duration::ZERO);
}

/// A filter that an index cannot answer ends the page after 1,000 rows, saying where to go on; one
/// that it can costs no row looked at.
async fn a2_a_page_has_a_budget(kit: &Kit) {
    let store = kit.handle().await;
    let wanted = Job { name: "wanted".into(), ..job("acme").on("busy") };
    let wanted = push(&*store, wanted).await.job_ref();
    let rare = push(&*store, job("rare").on("rare")).await.job_ref();
    assert_eq!(cancel(&*store, &rare).await, jobs_core::admin::Cancelled::Cancelled);
    let noise: Vec<_> = (0..2500).map(|_| checked(job("acme").on("busy"))).collect();
    for answer in store.enqueue(&noise).await {
        assert_eq!(answer.expect("the store answers"), Pushed::Stored);
    }
    let permit = operator().await;
    let filters = [
        List { name: Some("wanted".into()), ..List::default() },
        List { id: Some(wanted.id), ..List::default() },
    ];
    for mut list in filters {
        let first = store.list(&permit, &list).await.expect("the store answers");
        assert!(first.jobs.is_empty(), "within 1,000 rows there is none");
        assert!(!first.complete && first.next.is_some(), "{list:?} looked at everything");
        let (mut pages, mut found) = (1, Vec::new());
        list.after = first.next;
        while list.after.is_some() {
            let page = store.list(&permit, &list).await.expect("the store answers");
            found.extend(page.jobs.iter().map(|view| view.job.job_ref()));
            list.after = page.next;
            pages += 1;
            assert!(pages < 2500, "a page that moves on by less than a row");
        }
        assert!(pages >= 3, "2,502 rows in {pages} pages of at most 1,000");
        assert_eq!(found, std::slice::from_ref(&wanted), "{list:?}");
    }
    for indexed in 1..8u8 {
        let list = List {
            queue: (indexed & 1 > 0).then(|| "rare".to_owned()),
            tenant: (indexed & 2 > 0).then(|| "rare".to_owned()),
            state: (indexed & 4 > 0).then_some(State::Cancelled),
            ..List::default()
        };
        let page = store.list(&permit, &list).await.expect("the store answers");
        let found: Vec<_> = page.jobs.iter().map(|view| view.job.job_ref()).collect();
        assert_eq!(found, std::slice::from_ref(&rare), "{list:?} is answered by an index");
    }
}

/// Every combination of queue, tenant, state, name and text finds what it says, newest id first.
async fn a2_filters_combine(kit: &Kit) {
    let store = kit.handle().await;
    let mut all = BTreeMap::new();
    let causes = ["100%_sure 'quoted' \\ [a-z]*", "another thing"];
    for queue in ["one", "two"] {
        for tenant in ["acme", "other"] {
            for name in [NAME, "mail"] {
                for (at, state) in [State::Ready, State::Scheduled, State::Parked, State::Cancelled]
                    .into_iter()
                    .enumerate()
                {
                    let pushed = Job { name: name.into(), ..job(tenant).on(queue) };
                    let pushed = push(&*store, pushed).await;
                    let cause = causes[at % 2];
                    let outcome = match state {
                        State::Ready => Outcome::Release,
                        State::Scheduled => Outcome::Retry { after: LATER, cause: cause.into() },
                        State::Parked => Outcome::Park { cause: cause.into() },
                        _ => Outcome::Cancelled { cause: cause.into() },
                    };
                    // Only the parked, the scheduled and the cancelled ran and have a cause.
                    if state != State::Ready {
                        let request = jobs_core::queue::Reserve::new(queue, [name], "suite");
                        let request = request.expect("legal").slots(100);
                        for held in hold_until(&*store, &request, &pushed.job_ref()).await {
                            let mine = held.claim.job == pushed.job_ref();
                            let outcome = if mine { outcome.clone() } else { Outcome::Release };
                            settle(&*store, &held.claim, outcome).await;
                        }
                    }
                    let cause = (state != State::Ready).then_some(cause);
                    all.insert(pushed.id, (pushed, state, cause));
                }
            }
        }
    }
    for mask in 0..32u8 {
        for of in all.values() {
            let (pushed, state, cause) = of;
            let list = List {
                queue: (mask & 1 > 0).then(|| pushed.queue.clone()),
                tenant: (mask & 2 > 0).then(|| pushed.tenant.clone()),
                state: (mask & 4 > 0).then_some(*state),
                name: (mask & 8 > 0).then(|| pushed.name.clone()),
                cause: (mask & 16 > 0).then(|| cause.map_or("%_", |cause| &cause[3..9]).to_owned()),
                ..List::default()
            };
            let fits = |(job, at, why): &&(Job, State, Option<&str>)| {
                list.queue.as_ref().is_none_or(|queue| *queue == job.queue)
                    && list.tenant.as_ref().is_none_or(|tenant| *tenant == job.tenant)
                    && list.state.is_none_or(|state| state == *at)
                    && list.name.as_ref().is_none_or(|name| *name == job.name)
                    && list
                        .cause
                        .as_ref()
                        .is_none_or(|text| why.is_some_and(|why| why.contains(text.as_str())))
            };
            let expected: Vec<_> = all.values().rev().filter(fits).map(|of| of.0.id).collect();
            let found: Vec<_> = walk(&*store, &list).await.iter().map(|v| v.job.id).collect();
            assert_eq!(found, expected, "{list:?}");
        }
    }
    let id = *all.keys().next().expect("some");
    let by_id =
        |tenant: &str| List { id: Some(id), tenant: Some(tenant.to_owned()), ..List::default() };
    let mine = &all[&id].0.tenant;
    let found = walk(&*store, &by_id(mine)).await;
    assert_eq!(found.iter().map(|view| view.job.id).collect::<Vec<_>>(), [id]);
    assert!(walk(&*store, &by_id("nobody")).await.is_empty());
}

async fn hold_until(
    store: &dyn Admin,
    request: &jobs_core::queue::Reserve,
    job: &JobRef,
) -> Vec<jobs_core::queue::Delivery> {
    let mut held = Vec::new();
    while !held.iter().any(|held: &jobs_core::queue::Delivery| held.claim.job == *job) {
        held.extend(hold(store, request, 1).await);
    }
    held
}

/// Pages of seven while others are pushed, taken, settled and deleted; equal ids of two tenants
/// are two jobs.
async fn a2_a_walk_sees_each_job_once(kit: &Kit) {
    let store = kit.handle().await;
    let mut stable = BTreeSet::new();
    let mut doomed = Vec::new();
    for at in 0..60 {
        let id = JobId::new();
        for tenant in ["acme", "other", "third"] {
            // Far in the future, so that no reserve of this case moves them.
            let kept = Job { id, ..job(tenant).after(LATER) };
            stable.insert(push(&*store, kept).await.job_ref());
        }
        if at % 2 == 0 {
            doomed.push(push(&*store, job("acme")).await.job_ref());
        }
    }
    let permit = operator().await;
    let walks = [
        List { page: 7, ..List::default() },
        List { page: 1, ..List::default() },
        List { page: 7, queue: Some(QUEUE.into()), ..List::default() },
        List { page: 7, state: Some(State::Scheduled), ..List::default() },
    ];
    for mut list in walks {
        let mut seen = BTreeSet::new();
        let mut last: Option<JobId> = None;
        loop {
            let page = store.list(&permit, &list).await.expect("the store answers");
            assert!(page.jobs.len() <= list.page);
            for view in &page.jobs {
                let job = view.job.job_ref();
                assert!(last.is_none_or(|last| last >= job.id), "newest id first");
                last = Some(job.id);
                assert!(seen.insert(job.clone()), "{job} is listed twice");
            }
            list.after = page.next.map(|next| {
                let text = next.to_string();
                text.parse::<Cursor>().expect("a cursor survives a URL")
            });
            if list.after.is_none() {
                break;
            }
            // Newer and older ones come and go behind and before the cursor, its own job too.
            push(&*store, job("acme")).await;
            for held in take(&*store, 2).await {
                settle(&*store, &held.claim, Outcome::Done).await;
            }
            if let Some(job) = doomed.pop() {
                crate::ops::delete(&*store, &job).await;
            }
        }
        let missed: Vec<_> = stable.difference(&seen).collect();
        assert!(missed.is_empty(), "{list:?} missed {missed:?}");
    }
}

/// 10,000 are 10,000, one more is 10,000 and more; waiting is one number, whatever it is made of.
async fn a2_counts_are_capped(kit: &Kit) {
    let store = kit.handle().await;
    let jobs: Vec<_> = (0..COUNTED).map(|_| checked(job("acme"))).collect();
    for answer in store.enqueue(&jobs).await {
        assert_eq!(answer.expect("the store answers"), Pushed::Stored);
    }
    let waiting = async || lane(&*store, QUEUE, "acme").await.waiting;
    assert_eq!(waiting().await, Count { number: COUNTED, or_more: false });
    take_one(&*store).await;
    assert_eq!(waiting().await, Count { number: COUNTED - 1, or_more: false });
    kit.age(LAPSE).await;
    assert_eq!(waiting().await, Count { number: COUNTED, or_more: false });
    let one_more = push(&*store, job("acme")).await.job_ref();
    let more = Count { number: COUNTED, or_more: true };
    assert_eq!(waiting().await, more, "ready and expired together");
    let pending = store.pending(&reads().await, QUEUE).await.expect("the store answers");
    assert_eq!(pending, more);
    cancel(&*store, &one_more).await;
    assert_eq!(waiting().await, Count { number: COUNTED, or_more: false });
}

/// Done, and failed in any way, minute by minute for an hour, by lane.
async fn a2_minutes(kit: &Kit) {
    let store = kit.handle().await;
    let minutes = async || {
        let grant = reads().await;
        store.counts_of(&grant, QUEUE).await.expect("the store answers").minutes
    };
    let sum = |minutes: &[jobs_core::view::Minute], tenant: &str| {
        let of = minutes.iter().filter(|minute| minute.tenant == tenant);
        of.fold((0, 0), |(done, failed), m| (done + m.finished, failed + m.failed))
    };
    assert!(minutes().await.is_empty());
    for outcome in crate::ops::outcomes() {
        push(&*store, job("acme").on(QUEUE)).await;
        let held = take_one(&*store).await;
        settle(&*store, &held.claim, outcome.clone()).await;
        if outcome == Outcome::Release {
            settle(&*store, &take_one(&*store).await.claim, Outcome::Done).await;
        }
    }
    // One that an operator asked to end ends as cancelled, whatever its holder says.
    let asked = push(&*store, job("acme").priority(50)).await.job_ref();
    let held = take_one(&*store).await;
    assert_eq!(cancel(&*store, &asked).await, jobs_core::admin::Cancelled::Requested);
    settle(&*store, &held.claim, Outcome::Park { cause: "no".into() }).await;
    // Done twice; retried and parked; snoozed, released and cancelled are neither.
    assert_eq!(sum(&minutes().await, "acme"), (2, 2));
    push(&*store, job("other")).await;
    take_one(&*store).await;
    kit.age(LAPSE).await;
    sweep_all(&*store).await;
    assert_eq!(sum(&minutes().await, "other"), (0, 1), "a lost attempt failed");
    assert_eq!(sum(&minutes().await, "acme"), (2, 2), "another tenant's");

    kit.age_secs(20 * 60).await;
    let held = hold(&*store, &from_queue(QUEUE, "suite", 1), 1).await.remove(0);
    settle(&*store, &held.claim, Outcome::Done).await;
    let both = minutes().await;
    assert!(both.windows(2).all(|pair| pair[0].at <= pair[1].at), "oldest first: {both:?}");
    let apart = both.last().expect("two").at.duration_since(both[0].at).as_mins();
    assert!((19..=22).contains(&apart), "the earlier ones are 20 minutes old: {both:?}");
    assert!(both.iter().all(|minute| minute.finished + minute.failed > 0), "{both:?}");
    kit.age_secs(45 * 60).await;
    let left = minutes().await;
    let (acme, other) = (sum(&left, "acme"), sum(&left, "other"));
    assert_eq!((acme.0 + other.0, acme.1 + other.1), (1, 0), "the last hour: {left:?}");
}
