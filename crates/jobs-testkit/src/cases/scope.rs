//! G6: a tenant's permit ends at the tenant, an operator's does not, and both are on record.

use std::time::Duration;

use jobs_core::{
    Admin, AdminExt, Cause, Job, JobId, JobRef, QueueExt, State,
    admin::{Cancelled, Deleted, LaneChange, LaneRef, Pause, Retried, Tuned},
    grant::grant_without_user,
    permit::{Cancel, Delete, Permit, Read, Retry, Tune},
    queue::Worker,
    view::{Cursor, Lanes, List},
};

use super::stage::{cancel, known, retry, stage, state_of, take_from};
use crate::{
    kit::{Kit, QUEUE, job, operator, permit, push, take, take_one},
    ops::lane,
};

super::cases![
    g6_a_foreign_id_is_an_unknown_id,
    g6_lists_and_counts_are_scoped,
    g6_a_tenant_tunes_only_its_own_pause,
    g6_an_operator_sees_all,
    g6_who_did_it_is_recorded,
];

/// What the three verbs answer to `jobs` under `tenant`'s permits.
async fn verbs(
    store: &dyn Admin,
    tenant: &str,
    jobs: &[JobRef],
) -> (Vec<Retried>, Vec<Cancelled>, Vec<Deleted>) {
    (
        store.retry(&permit::<Retry>(tenant), jobs).await.expect("the store answers"),
        store.cancel(&permit::<Cancel>(tenant), jobs).await.expect("the store answers"),
        store.delete(&permit::<Delete>(tenant), jobs).await.expect("the store answers"),
    )
}

async fn g6_a_foreign_id_is_an_unknown_id(kit: &Kit) {
    let store = kit.handle().await;
    let unknown = |tenant: &str| JobRef { tenant: tenant.to_owned(), id: JobId::new() };
    for state in State::ALL {
        let (theirs, delivery) = stage(&*store, job("acme").on(state.as_str()), state).await;
        let theirs = theirs.job_ref();
        let before = known(&*store, &theirs).await;
        // By its own name, under globex's name, and two that nobody has.
        let claimed = JobRef { tenant: "globex".to_owned(), id: theirs.id };
        let asked = [theirs.clone(), unknown("acme"), claimed, unknown("globex")];
        for job in &asked {
            let found = store.get(&permit::<Read>("globex"), job).await.expect("it answers");
            assert!(found.is_none(), "{state}: {job} is shown to globex");
        }
        let (retried, cancelled, deleted) = verbs(&*store, "globex", &asked).await;
        assert_eq!(retried, [Retried::Unknown; 4], "{state}");
        assert_eq!(cancelled, [Cancelled::Unknown; 4], "{state}");
        assert_eq!(deleted, [Deleted::Unknown; 4], "{state}");
        assert_eq!(known(&*store, &theirs).await, before, "{state} was changed by a foreigner");
        if state == State::Running {
            // Not even a flag: the holder is not asked to stop.
            let claim = delivery.expect("it runs").claim;
            let lease = jobs_core::queue::Lease::default();
            let renewed = store.renew(lease, &[claim]).await.expect("the store answers");
            assert_eq!(renewed, [jobs_core::queue::Renewed::Held]);
        }
    }
    // Own, foreign and unknown in one call, and equal ids: each is judged by itself.
    let (parked, _) = stage(&*store, job("acme").on("mixed"), State::Parked).await;
    let mine = Job { id: parked.id, ..job("globex").on("mixed") };
    let (mine, _) = stage(&*store, mine, State::Parked).await;
    let asked = [parked.job_ref(), mine.job_ref(), unknown("globex")];
    let (retried, cancelled, deleted) = verbs(&*store, "globex", &asked).await;
    assert_eq!(retried, [Retried::Unknown, Retried::Retried, Retried::Unknown]);
    assert_eq!(cancelled, [Cancelled::Unknown, Cancelled::Cancelled, Cancelled::Unknown]);
    assert_eq!(deleted, [Deleted::Unknown, Deleted::Deleted, Deleted::Unknown]);
    assert_eq!(state_of(&*store, &parked.job_ref()).await, State::Parked);
}

async fn g6_lists_and_counts_are_scoped(kit: &Kit) {
    let store = kit.handle().await;
    let mut theirs = Vec::new();
    for state in State::ALL {
        theirs.push(stage(&*store, job("acme").on(state.as_str()), state).await.0);
        if state != State::Cancelled {
            stage(&*store, job("globex").on(state.as_str()), state).await;
        }
    }
    push(&*store, job("acme-2")).await;
    let read: Permit<Read> = permit("globex");
    let list = |list: List| {
        let (store, read) = (&store, &read);
        async move { store.list(read, &list).await.expect("the store answers").jobs }
    };
    let all = list(List::default()).await;
    assert_eq!(all.len(), 5);
    assert!(all.iter().all(|view| view.job.tenant == "globex"), "a foreign job is listed");
    for tenant in ["acme", "acme-2", "nobody", "globex2", "%", ""] {
        let asked = List { tenant: Some(tenant.to_owned()), ..List::default() };
        let lanes = Lanes { tenant: asked.tenant.clone(), ..Lanes::default() };
        assert!(list(asked).await.is_empty(), "{tenant:?}");
        let counts = store.counts(&read, &lanes).await.expect("the store answers");
        assert!(counts.lanes.is_empty() && counts.minutes.is_empty(), "{tenant:?}: {counts:?}");
    }
    for view in &theirs {
        let by_id = List { id: Some(view.id), ..List::default() };
        assert!(list(by_id.clone()).await.is_empty());
        let by_both = List { tenant: Some("acme".to_owned()), ..by_id };
        assert!(list(by_both).await.is_empty());
    }
    let by_state = List { state: Some(State::Cancelled), ..List::default() };
    assert!(list(by_state).await.is_empty());
    let own = List { tenant: Some("globex".to_owned()), ..List::default() };
    assert_eq!(list(own).await.len(), 5);
    // A cursor is data from outside: one that names a foreign job opens nothing.
    let foreign = theirs.iter().map(|job| job.job_ref());
    let last = JobRef { tenant: "zzz".to_owned(), id: JobId(uuid::Uuid::from_u128(u128::MAX)) };
    for at in foreign.chain([last]) {
        let after = List { after: Some(Cursor(at)), ..List::default() };
        assert!(list(after).await.iter().all(|view| view.job.tenant == "globex"));
    }

    let counts = store.counts(&read, &Lanes::default()).await.expect("the store answers");
    assert!(counts.lanes.iter().all(|lane| lane.tenant == "globex"), "{counts:?}");
    assert!(counts.minutes.iter().all(|minute| minute.tenant == "globex"), "{counts:?}");
    let finished: u64 = counts.minutes.iter().map(|minute| minute.finished).sum();
    assert_eq!(finished, 1, "acme's finished job is not globex's");
    for _ in 0..3 {
        push(&*store, job("acme").on("ready")).await;
    }
    kit.age_secs(100).await;
    push(&*store, job("globex").on("fresh")).await;
    push(&*store, job("acme").on("fresh")).await;
    kit.age_secs(5).await;
    let grant = grant_without_user("suite", "jobs.read", "globex").expect("legal");
    let pending = |queue| store.pending(&grant, queue);
    assert_eq!(pending("ready").await.expect("it answers").number, 1);
    assert_eq!(pending("fresh").await.expect("it answers").number, 1);
    assert_eq!(pending("cancelled").await.expect("it answers").number, 0);
    let oldest = store.oldest(&grant, "fresh").await.expect("it answers");
    assert!(oldest < Duration::from_secs(60), "acme's oldest is told: {oldest:?}");
    let parked = store.parked(&grant, "parked", 9).await.expect("it answers");
    assert!(parked.len() == 1 && parked[0].job.tenant == "globex");
    assert!(store.parked(&grant, "ready", 9).await.expect("it answers").is_empty());

    let worker = Worker {
        id: uuid::Uuid::from_u128(7),
        label: "host-of-somebody".to_owned(),
        queues: vec![QUEUE.to_owned()],
        names: vec!["noop".to_owned()],
        slots: 4,
        busy: 1,
        stuck: 0,
        leaving: false,
    };
    store.announce(&worker).await.expect("the store answers");
    let seen = store.workers(&read).await.expect("the store answers");
    assert!(seen.iter().all(|view| view.worker.label.is_empty()), "a tenant sees a label");
    let seen = store.workers(&operator().await).await.expect("the store answers");
    assert!(seen.iter().any(|view| view.worker == worker), "an operator does: {seen:?}");
}

async fn g6_a_tenant_tunes_only_its_own_pause(kit: &Kit) {
    let store = kit.handle().await;
    push(&*store, job("acme")).await;
    push(&*store, job("globex")).await;
    let lane = |tenant: Option<&str>| LaneRef {
        queue: QUEUE.to_owned(),
        tenant: tenant.map(str::to_owned),
    };
    let weight = LaneChange { weight: Some(50), pause: None };
    let paused = LaneChange { weight: None, pause: Some(Pause::On) };
    let both = LaneChange { weight: Some(50), pause: Some(Pause::On) };
    let tune: Permit<Tune> = permit("globex");
    for tenant in [None, Some("globex"), Some("acme")] {
        for change in [weight, both] {
            let tuned = store.set_lane(&tune, &lane(tenant), change).await;
            assert_eq!(tuned.expect("the store answers"), Tuned::NotAllowed, "{change:?}");
        }
    }
    let mut delivered = take(&*store, 9).await;
    assert_eq!(delivered.len(), 2, "what was not allowed changed something");
    for delivery in delivered.drain(..) {
        store.release(&delivery.claim).await.expect("the store answers");
    }
    // Whatever lane it names, it means its own: never acme's, never the queue's.
    for tenant in [Some("acme"), None, Some("globex")] {
        let tuned = store.set_lane(&tune, &lane(tenant), paused).await;
        assert_eq!(tuned.expect("the store answers"), Tuned::Tuned);
        let delivered = take(&*store, 9).await;
        let tenants: Vec<_> = delivered.iter().map(|d| d.job.tenant.as_str()).collect();
        assert_eq!(tenants, ["acme"], "a pause of {tenant:?} by globex");
        store.release(&delivered[0].claim).await.expect("the store answers");
        let off = LaneChange { weight: None, pause: Some(Pause::Off) };
        let tuned = store.set_lane(&tune, &lane(tenant), off).await;
        assert_eq!(tuned.expect("the store answers"), Tuned::Tuned);
        let delivered = take(&*store, 9).await;
        assert_eq!(delivered.len(), 2, "resumed");
        for delivery in delivered {
            store.release(&delivery.claim).await.expect("the store answers");
        }
    }
    // Nor does it lift a pause that an operator laid on the whole queue.
    let ops: Permit<Tune> = operator().await;
    store.set_lane(&ops, &lane(None), paused).await.expect("the store answers");
    let off = LaneChange { weight: None, pause: Some(Pause::Off) };
    store.set_lane(&tune, &lane(None), off).await.expect("the store answers");
    assert!(take(&*store, 9).await.is_empty(), "a tenant resumed the queue");
    store.set_lane(&ops, &lane(None), off).await.expect("the store answers");
    for (weight, expected) in
        [(0, Tuned::OutOfBounds), (101, Tuned::OutOfBounds), (1, Tuned::Tuned), (100, Tuned::Tuned)]
    {
        let change = LaneChange { weight: Some(weight), pause: None };
        let tuned = store.set_lane(&ops, &lane(Some("acme")), change).await;
        assert_eq!(tuned.expect("the store answers"), expected, "weight {weight}");
    }
    for (queue, tenant) in
        [("a b", "acme"), ("", "acme"), ("\0", "acme"), (QUEUE, "A"), (QUEUE, "")]
    {
        let lane = LaneRef { queue: queue.to_owned(), tenant: Some(tenant.to_owned()) };
        let tuned = store.set_lane(&ops, &lane, paused).await;
        assert_eq!(tuned.expect("the store answers"), Tuned::OutOfBounds, "{queue:?} {tenant:?}");
    }
    assert_eq!(take(&*store, 9).await.len(), 2, "what was out of bounds changed something");
}

async fn g6_an_operator_sees_all(kit: &Kit) {
    let store = kit.handle().await;
    let mut jobs = Vec::new();
    for tenant in ["acme", "globex", "initech"] {
        jobs.push(stage(&*store, job(tenant).on("parked"), State::Parked).await.0);
        push(&*store, job(tenant)).await;
    }
    let read: Permit<Read> = operator().await;
    let page = store.list(&read, &List::default()).await.expect("the store answers");
    assert_eq!(page.jobs.len(), 6);
    let one = List { tenant: Some("globex".to_owned()), ..List::default() };
    let page = store.list(&read, &one).await.expect("the store answers");
    assert!(page.jobs.len() == 2 && page.jobs.iter().all(|view| view.job.tenant == "globex"));
    let lanes = Lanes { queue: Some(QUEUE.to_owned()), tenant: None };
    let counts = store.counts(&read, &lanes).await.expect("the store answers");
    let waiting = counts.lanes.iter().map(|lane| (lane.tenant.as_str(), lane.waiting.number));
    assert_eq!(waiting.collect::<Vec<_>>(), [("acme", 1), ("globex", 1), ("initech", 1)]);
    let refs: Vec<_> = jobs.iter().map(Job::job_ref).collect();
    for job in &refs {
        assert!(store.get(&read, job).await.expect("the store answers").is_some());
        // Ids are a tenant's own, for an operator too.
        let elsewhere = JobRef { tenant: "nobody".to_owned(), id: job.id };
        assert!(store.get(&read, &elsewhere).await.expect("the store answers").is_none());
    }
    let retried = store.retry(&operator::<Retry>().await, &refs).await;
    assert_eq!(retried.expect("the store answers"), [Retried::Retried; 3]);
    assert_eq!(take_from(&*store, "parked", 9).await.len(), 3);
    let cancelled = store.cancel(&operator::<Cancel>().await, &refs).await;
    assert_eq!(cancelled.expect("the store answers"), [Cancelled::Requested; 3]);
    let deleted = store.delete(&operator::<Delete>().await, &refs).await;
    assert_eq!(deleted.expect("the store answers"), [Deleted::Running; 3]);
    kit.age_secs(60).await;
    let deleted = store.delete(&operator::<Delete>().await, &refs).await;
    assert_eq!(deleted.expect("the store answers"), [Deleted::Deleted; 3]);
}

/// Who did which verb to it last.
async fn last(store: &dyn Admin, job: &JobRef) -> Option<(String, String)> {
    let record = known(store, job).await.expect("it is stored");
    record.last_verb.map(|verb| (verb.verb, verb.by))
}

async fn g6_who_did_it_is_recorded(kit: &Kit) {
    let store = kit.handle().await;
    let did = |verb: &str, by: &str| Some((verb.to_owned(), by.to_owned()));
    let mine = push(&*store, job("acme")).await.job_ref();
    assert_eq!(last(&*store, &mine).await, None, "nobody did anything");
    let ops: Permit<Cancel> = operator().await;
    store.cancel(&ops, std::slice::from_ref(&mine)).await.expect("the store answers");
    assert_eq!(last(&*store, &mine).await, did("cancel", "ops"));
    // What was refused was not done.
    assert_eq!(cancel(&*store, &mine).await, Cancelled::NotLive(State::Cancelled));
    assert_eq!(last(&*store, &mine).await, did("cancel", "ops"));
    assert_eq!(retry(&*store, &mine).await, Retried::Retried);
    assert_eq!(last(&*store, &mine).await, did("retry", "system:suite"));
    let record = known(&*store, &mine).await.expect("it is stored");
    let read = permit::<Read>("acme");
    let now = store.check(&read).await.expect("the store answers").now;
    let at = record.last_verb.expect("just seen").at;
    assert!((record.view.pushed_at..=now).contains(&at), "at {at}, now {now}");
    // Asking a running job to end is a change too, and it outlives the run.
    let delivery = take_one(&*store).await;
    store.cancel(&ops, std::slice::from_ref(&mine)).await.expect("the store answers");
    assert_eq!(last(&*store, &mine).await, did("cancel", "ops"));
    store.park(&delivery.claim, Cause::from("stopped")).await.expect("the store answers");
    assert_eq!(state_of(&*store, &mine).await, State::Cancelled);
    assert_eq!(last(&*store, &mine).await, did("cancel", "ops"));
    let by_retry: Permit<Retry> = operator().await;
    store.retry(&by_retry, std::slice::from_ref(&mine)).await.expect("the store answers");
    assert_eq!(last(&*store, &mine).await, did("retry", "ops"));
    // A lane's settings say it too, the lane's own change or its queue's, whichever is newer.
    let of = |tenant: Option<&str>| LaneRef { queue: QUEUE.into(), tenant: tenant.map(Into::into) };
    let changed = async || {
        let changed = lane(&*store, QUEUE, "acme").await.settings.changed;
        changed.map(|change| (change.verb, change.by))
    };
    assert_eq!(changed().await, None);
    let (tune, pause) = (permit::<Tune>("acme"), Some(Pause::On));
    let paused = LaneChange { weight: None, pause };
    store.set_lane(&tune, &of(None), paused).await.expect("the store answers");
    assert_eq!(changed().await, did("pause", "system:suite"));
    kit.age_secs(1).await;
    let ops: Permit<Tune> = operator().await;
    let weighed = LaneChange { weight: Some(3), pause: None };
    store.set_lane(&ops, &of(None), weighed).await.expect("the store answers");
    assert_eq!(changed().await, did("weigh", "ops"), "the queue's is newer");
    kit.age_secs(1).await;
    let nothing = LaneChange::default();
    store.set_lane(&tune, &of(None), nothing).await.expect("the store answers");
    assert_eq!(changed().await, did("weigh", "ops"), "nothing was changed");
    let resumed = LaneChange { weight: None, pause: Some(Pause::Off) };
    store.set_lane(&tune, &of(None), resumed).await.expect("the store answers");
    assert_eq!(changed().await, did("resume", "system:suite"));
    // A resume of what nobody knows leaves no trace.
    let unknown = LaneRef { queue: "unheard-of".into(), tenant: None };
    let tuned = store.set_lane(&tune, &unknown, resumed).await;
    assert_eq!(tuned.expect("the store answers"), Tuned::Tuned);
    let counts = store.counts(&operator().await, &Lanes::default()).await;
    let counts = counts.expect("the store answers");
    assert!(counts.lanes.iter().all(|lane| lane.queue == QUEUE), "{counts:?}");
}
