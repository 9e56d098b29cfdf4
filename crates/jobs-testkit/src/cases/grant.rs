//! G3 and G5 on a store: what is refused leaves nothing, what is legal comes back.

use std::time::Duration;

use jobs_core::{
    Grant, Job, JobId, Payload, Policy, PushError, QueueExt,
    authorized::{MAX_PRIORITY, MAX_TIMEOUT},
    grant::grant_without_user,
    job::{RunAt, Timeout},
    permit::Read,
    queue::{Pushed, Reserve},
    time::{MAX_MILLIS, from_millis},
    view::{Lanes, List},
};

use super::stage::{known, take_from, take_one_from};
use crate::kit::{ACTION, Kit, NAME, Open, QUEUE, grant, job, operator, push};

super::cases![
    g3_a_refused_push_stores_nothing,
    g5_the_largest_legal_job_round_trips,
    g5_no_key_built_from_names_is_ambiguous,
];

async fn g3_a_refused_push_stores_nothing(kit: &Kit) {
    let store = kit.handle().await;
    let operators = Open.authorize_operator("ops", ACTION).await.expect("the policy is open");
    let large = Payload::encode(&"x".repeat(64 * 1024)).expect("JSON");
    let acme = grant("acme");
    let refused: [(&Grant, Job); 8] = [
        (&operators, job("acme")),
        (&acme, Job { name: String::new(), ..job("acme") }),
        (&acme, job("acme").priority(101)),
        (&acme, job("acme").on("a b")),
        (&acme, job("globex")),
        (&acme, Job { action: "work.other".to_owned(), ..job("acme") }),
        (&acme, Job { authorized_by: "mallory".to_owned(), ..job("acme") }),
        (&acme, Job { payload: large, ..job("acme") }),
    ];
    for (grant, job) in &refused {
        let answer = store.push(grant, job.clone()).await;
        assert!(matches!(answer, Err(PushError::Refused(_))), "{answer:?}");
    }
    let all = List::default();
    let page = store.list(&operator::<Read>().await, &all).await.expect("the store answers");
    assert!(page.jobs.is_empty(), "{:?}", page.jobs);
    let lanes = Lanes::default();
    let counts = store.counts(&operator::<Read>().await, &lanes).await.expect("the store answers");
    assert!(counts.lanes.iter().all(|lane| lane.waiting.number + lane.scheduled.number == 0));
    assert!(take_from(&*store, QUEUE, 9).await.is_empty());
    // Refused ids are as good as new, and refused ones do not stop the others of a bulk push.
    let [_, _, (_, over), _, (_, foreign), ..] = refused;
    let mixed = [job("acme"), over.clone(), job("acme"), foreign, over.priority(0)];
    let answers = store.push_many(&acme, mixed.clone()).await;
    let stored = answers.iter().map(|answer| match answer {
        Ok(Pushed::Stored) => true,
        Err(PushError::Refused(_)) => false,
        other => panic!("{other:?}"),
    });
    assert_eq!(stored.collect::<Vec<_>>(), [true, false, true, false, true]);
    assert_eq!(take_from(&*store, QUEUE, 9).await.len(), 3);
}

async fn g5_the_largest_legal_job_round_trips(kit: &Kit) {
    let store = kit.handle().await;
    let fill = |letter: &str| letter.repeat(64);
    let subject = format!("{}\u{1}\u{10ffff}'\"\\", "é".repeat(96));
    assert_eq!(subject.len(), 200);
    let action = format!("a{}", ".:_-".repeat(15) + "zz9");
    for (priority, tenant) in
        [(MAX_PRIORITY, fill("t")), (-MAX_PRIORITY, format!("0{}", "_-".repeat(31)))]
    {
        let grant = Open.authorize(&subject, &action, &tenant).await.expect("legal");
        let text = format!("\"{}\"", "💥".repeat((64 * 1024 - 2) / 4) + "xx");
        let meta = |job: Job, i: usize| job.meta(format!("{i:02}"), "é".repeat(127));
        let largest = Job {
            id: JobId(uuid::Uuid::from_u128(u128::MAX)),
            name: fill("n"),
            payload: Payload::from_json(text).expect("JSON"),
            max_attempts: Some(1000),
            timeout: Timeout::After(MAX_TIMEOUT),
            ..Job::new(&grant, NAME, &()).expect("JSON")
        };
        let largest = largest.on(fill("q")).priority(priority).key("é".repeat(128));
        let largest = (0..16).fold(largest, meta);
        assert_eq!(largest.payload.as_str().len(), 64 * 1024);
        let pushed = store.push(&grant, largest.clone()).await.expect("all of it is legal");
        assert_eq!(pushed, Pushed::Stored);
        let found = known(&*store, &largest.job_ref()).await.expect("it is stored").view.job;
        let request = Reserve::new(fill("q"), [fill("n")], "w".repeat(200)).expect("legal");
        let taken = store.reserve(&request).await.expect("the store answers").deliveries;
        assert_eq!(taken.len(), 1);
        for job in [&found, &taken[0].job] {
            assert_eq!(&Job { run_at: RunAt::Now, ..job.clone() }, &largest);
        }
        store.ack(&taken[0].claim).await.expect("the store answers");
    }
    // The last instant and the longest delay are stored, and ordinary jobs overtake them.
    let last = push(&*store, job("acme").at(from_millis(MAX_MILLIS)).priority(100)).await;
    let long = Duration::from_millis(u64::try_from(MAX_MILLIS).expect("positive") - 1);
    let long = push(&*store, job("acme").after(long).priority(100)).await;
    let first = push(&*store, job("acme").priority(-100)).await;
    for job in [last, long] {
        let found = known(&*store, &job.job_ref()).await.expect("it is stored").view.job;
        assert_eq!(found.run_at, RunAt::At(from_millis(MAX_MILLIS)), "a delay ends in 2200");
    }
    let delivered = take_from(&*store, QUEUE, 9).await;
    assert_eq!(delivered.iter().map(|d| d.job.id).collect::<Vec<_>>(), [first.id]);
}

async fn g5_no_key_built_from_names_is_ambiguous(kit: &Kit) {
    let store = kit.handle().await;
    // (tenant, queue, name): joined by any letter that a name may have, several of them are equal.
    let mut places = Vec::new();
    for joint in ["-", "_", ".", ":", "::", "-0"] {
        let (ab, bc) = (format!("a{joint}b"), format!("b{joint}c"));
        places.push(("a".to_owned(), ab.clone(), "c".to_owned()));
        places.push(("a".to_owned(), "a".to_owned(), bc.clone()));
        places.push(("a".to_owned(), ab.clone(), bc.clone()));
        if !joint.contains(['.', ':']) {
            places.push((ab.clone(), "c".to_owned(), "c".to_owned()));
            places.push((ab, bc, "c".to_owned()));
        }
    }
    for (tenant, queue, name) in &places {
        let grant = grant_without_user("suite", ACTION, tenant).expect("legal");
        let mine = Job { name: name.clone(), ..job(tenant) }.on(queue);
        assert_eq!(store.push(&grant, mine).await.expect("legal"), Pushed::Stored);
    }
    for (tenant, queue, name) in &places {
        let request = Reserve::new(queue, [name], "suite").expect("legal").slots(100);
        let found = store.reserve(&request).await.expect("the store answers").deliveries;
        for delivery in &found {
            let job = &delivery.job;
            assert_eq!((&job.queue, &job.name), (queue, name), "another place's job");
            store.release(&delivery.claim).await.expect("the store answers");
        }
        let here = places.iter().filter(|place| (&place.1, &place.2) == (queue, name)).count();
        assert_eq!(found.len(), here, "{tenant} {queue} {name}");
    }
    push(&*store, job("a")).await;
    take_one_from(&*store, QUEUE).await;
}
