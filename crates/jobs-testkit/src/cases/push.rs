//! P1, P4, P5 and what holds of every handle: a job comes back as it was pushed.

use std::{sync::Arc, time::Duration};

use jobs_core::{
    Admin, AuthorizedJob, Job, JobId, Payload, Queue, QueueExt, Refusal, Timestamp, authorized,
    ext::PushError,
    grant::grant_without_user,
    job::{RunAt, Timeout},
    permit::Read,
    queue::{Pushed, Reserve},
};

use super::stage::{drain, known, race, try_push};
use crate::kit::{ACTION, Kit, NAME, QUEUE, checked, grant, job, permit, push, take, take_one};

super::cases![
    p1_every_field_round_trips,
    p1_payloads_byte_for_byte,
    p1_run_at_rounds_up,
    p4_the_past_means_now,
    p5_bulk_answers_in_order,
    p5_each_of_a_bulk_keeps_its_own,
    p5_a_bulk_of_large_payloads,
    p5_payload_limit_is_exact,
    q0_any_wrapping_is_the_same_queue,
    q0_open_own_is_the_same_store,
];

/// The store's clock.
async fn now(store: &dyn Admin) -> Timestamp {
    store.check(&permit::<Read>("acme")).await.expect("the store answers").now
}

/// The two jobs are equal but for when they are due.
fn same_but_due(found: &Job, pushed: &Job) {
    let pushed = checked(pushed.clone()).into_job();
    assert_eq!(Job { run_at: RunAt::Now, ..found.clone() }, Job { run_at: RunAt::Now, ..pushed });
}

fn due(job: &Job) -> Timestamp {
    match job.run_at {
        RunAt::At(time) => time,
        other => panic!("a stored job says when it is due, not {other:?}"),
    }
}

async fn p1_every_field_round_trips(kit: &Kit) {
    let store = kit.handle().await;
    let before = now(&*store).await;
    let later = Timestamp::from_millisecond(before.as_millisecond() + 3_600_123).expect("a time");
    let jobs = [
        job("acme"),
        Job::new(&grant("globex-2_x"), NAME, &[1, 2]).expect("JSON").on(QUEUE),
        job("acme").priority(100).max_attempts(1).timeout(Timeout::Never).at(later),
        job("acme").priority(-100).max_attempts(1000).after(Duration::from_secs(1800)),
        job("acme").timeout(Timeout::After(Duration::from_millis(90_001))).key("K: \"ü\" '\\\n"),
        job("acme").key_until_started(" k ").meta("traceparent", "00-0af7651916cd43dd8448eb211c80"),
        job("acme").meta("", "").meta("ключ", "\u{202e}💥\u{1}").meta("a.b", "{\"$x\":1}"),
        Job { id: JobId(uuid::Uuid::from_u128(u128::MAX)), ..job("acme") },
        Job { id: JobId(uuid::Uuid::from_u128(1)), ..job("acme") },
    ];
    for job in &jobs {
        push(&*store, job.clone()).await;
    }
    let after = now(&*store).await;
    for job in &jobs {
        let found = known(&*store, &job.job_ref()).await.expect("it is stored").view;
        same_but_due(&found.job, job);
        let wait = match job.run_at {
            RunAt::At(time) => {
                assert_eq!(due(&found.job), time, "an instant comes back as it is");
                continue;
            }
            RunAt::After(wait) => i64::try_from(wait.as_millis()).expect("short"),
            RunAt::Now => 0,
        };
        let taken = due(&found.job).as_millisecond() - wait;
        let window = before.as_millisecond()..=after.as_millisecond();
        assert!(window.contains(&taken), "due {taken}, by the store's clock it is {window:?}");
        assert!((before..=after).contains(&found.pushed_at), "pushed at {:?}", found.pushed_at);
    }
    kit.age_secs(7200).await;
    let delivered = take(&*store, 100).await;
    assert_eq!(delivered.len(), jobs.len());
    for delivery in delivered {
        let pushed = jobs.iter().find(|job| job.job_ref() == delivery.job.job_ref());
        same_but_due(&delivery.job, pushed.expect("one of those pushed"));
        assert_eq!(delivery.claim.job, delivery.job.job_ref());
    }
}

async fn p1_payloads_byte_for_byte(kit: &Kit) {
    let store = kit.handle().await;
    let deep = "[".repeat(30_000) + &"]".repeat(30_000);
    let texts = [
        "null",
        "true",
        "\"\"",
        "0",
        "-0",
        "-0.0",
        "1.0",
        "1E+2",
        "1e999",
        "0.1000000000000000055",
        "9223372036854775807",
        "-9223372036854775808",
        "18446744073709551616",
        "123456789012345678901234567890.12345678901234567890",
        r#""\u0000""#,
        r#""a\u0000b""#,
        r#""\/""#,
        r#""/""#,
        r#""\u00e9é""#,
        r#""\ud83d\ude00😀""#,
        "\"\u{2028}\u{7f}\u{feff}\u{202e}\u{10ffff}\"",
        r#""\b\f\n\r\t\\\"""#,
        r#"{"b":1,"a":2}"#,
        r#"{"a":1,"a":2}"#,
        r#"{"$oid":"x","a.b":{"$gt":1},"":0}"#,
        " {\"a\" : 1 ,\t\"b\":[ ]}\r\n",
        "[]",
        "{}",
        r#""'; drop table jobs; --""#,
        &deep,
    ];
    for text in texts {
        let payload = Payload::from_json(text).expect("JSON");
        let job = push(&*store, Job { payload, ..job("acme") }).await;
        let found = known(&*store, &job.job_ref()).await.expect("it is stored");
        assert_eq!(found.view.job.payload.as_str(), text, "as an operator sees it");
        let delivery = take_one(&*store).await;
        assert_eq!(delivery.job.payload.as_str(), text, "as a handler gets it");
        // And once more, because the second delivery may come from elsewhere.
        store.release(&delivery.claim).await.expect("the store answers");
        let delivery = take_one(&*store).await;
        assert_eq!(delivery.job.payload.as_str(), text, "after a release");
        store.ack(&delivery.claim).await.expect("the store answers");
        let found = known(&*store, &job.job_ref()).await.expect("history keeps it");
        assert_eq!(found.view.job.payload.as_str(), text, "in history");
    }
}

async fn p1_run_at_rounds_up(kit: &Kit) {
    let store = kit.handle().await;
    let base = now(&*store).await.as_millisecond() / 1000 * 1000 + 3_600_000;
    for (nanos, expected) in [(0, 0), (1, 1), (999_999, 1), (1_000_000, 1), (1_000_001, 2)] {
        let nanos = i128::from(base) * 1_000_000 + nanos;
        let time = Timestamp::from_nanosecond(nanos).expect("a time");
        let job = push(&*store, job("acme").at(time)).await;
        let found = known(&*store, &job.job_ref()).await.expect("it is stored").view.job;
        assert_eq!(due(&found).as_nanosecond(), i128::from(base + expected) * 1_000_000);
    }
}

async fn p4_the_past_means_now(kit: &Kit) {
    let store = kit.handle().await;
    let first = push(&*store, job("acme")).await;
    let before = now(&*store).await;
    let hour_ago = Timestamp::from_second(before.as_second() - 3600).expect("a time");
    let backdated = [hour_ago, Timestamp::MIN, Timestamp::UNIX_EPOCH, before];
    let mut pushed = vec![first.id];
    for time in backdated {
        // The store's millisecond has to move on, or equal due times fall to the ids.
        tokio::time::sleep(Duration::from_millis(3)).await;
        let late = push(&*store, job("acme").at(time)).await;
        pushed.push(late.id);
        let found = known(&*store, &late.job_ref()).await.expect("it is stored").view.job;
        let (due, after) = (due(&found), now(&*store).await);
        assert!((before..=after).contains(&due), "{time} became {due}, now is {after}");
    }
    let delivered: Vec<_> = take(&*store, 9).await.iter().map(|d| d.job.id).collect();
    assert_eq!(delivered, pushed, "nobody overtakes by backdating");
}

/// One push of many jobs, each of the odd ones unlike its neighbours in one field only.
async fn p5_each_of_a_bulk_keeps_its_own(kit: &Kit) {
    let store = kit.handle().await;
    let odd: [fn(Job) -> Job; 12] = [
        |job| job.priority(7),
        |job| job.max_attempts(2),
        |job| job.timeout(Timeout::Never),
        |job| job.at(Timestamp::from_millisecond(4_000_000_000_123).expect("a time")),
        |job| job.after(Duration::from_secs(1800)),
        |job| job.key("one"),
        |job| job.key_until_started("two"),
        |job| job.meta("a", "b"),
        |job| Job { name: "other".to_owned(), ..job },
        |job| job.on("elsewhere"),
        |job| Job { action: "other".to_owned(), ..job },
        |job| Job { authorized_by: "system:somebody".to_owned(), ..job },
    ];
    let plain = || (0..7).map(|_| job("acme"));
    let mut jobs: Vec<Job> = Vec::new();
    for odd in odd {
        jobs.extend(plain().chain([odd(job("acme"))]).chain(plain()).chain([job("globex")]));
    }
    for (number, job) in jobs.iter_mut().enumerate() {
        job.payload = Payload::encode(&number).expect("a number is JSON");
    }
    // Each under a Grant for its own action, by whoever it is of.
    let checked = |job: &Job| {
        let by = job.authorized_by.trim_start_matches("system:");
        let by = if by.is_empty() { "suite" } else { by };
        let grant = grant_without_user(by, &job.action, &job.tenant).expect("a legal tenant");
        authorized(&grant, job.clone()).expect("a legal job")
    };
    let pushed: Vec<_> = jobs.iter().map(checked).collect();
    for answer in store.enqueue(&pushed).await {
        assert_eq!(answer.expect("the store answers"), Pushed::Stored);
    }
    for job in pushed.into_iter().map(AuthorizedJob::into_job) {
        let found = known(&*store, &job.job_ref()).await.expect("it is stored").view;
        let due_now = |job: &Job| Job { run_at: RunAt::Now, ..job.clone() };
        assert_eq!(due_now(&found.job), due_now(&job));
        let wait = due(&found.job).as_millisecond() - found.pushed_at.as_millisecond();
        match job.run_at {
            RunAt::At(time) => assert_eq!(due(&found.job), time),
            RunAt::After(delay) => {
                assert_eq!(wait, i64::try_from(delay.as_millis()).expect("short"))
            }
            RunAt::Now => assert_eq!(wait, 0),
        }
    }
}

async fn p5_bulk_answers_in_order(kit: &Kit) {
    let store = kit.handle().await;
    let mut jobs: Vec<AuthorizedJob> = Vec::with_capacity(10_000);
    let mut expected = Vec::with_capacity(10_000);
    let mut holders = std::collections::HashMap::new();
    for i in 0..10_000 {
        let tenant = ["acme", "globex", "initech"][i / 100 % 3];
        let new = job(tenant);
        let (new, answer) = match i % 100 {
            50 => (Job { id: jobs[i - 1].id, ..new }, Pushed::Duplicate(jobs_core::State::Ready)),
            60 => match holders.entry(tenant) {
                std::collections::hash_map::Entry::Occupied(held) => {
                    (new.key("k"), Pushed::KeyHeld(*held.get(), jobs_core::State::Ready))
                }
                std::collections::hash_map::Entry::Vacant(free) => {
                    free.insert(new.id);
                    (new.key("k"), Pushed::Stored)
                }
            },
            _ => (new, Pushed::Stored),
        };
        jobs.push(checked(new));
        expected.push(answer);
    }
    let answers = store.enqueue(&jobs).await;
    assert_eq!(answers.len(), jobs.len(), "one answer per job");
    for (i, (answer, expected)) in answers.into_iter().zip(&expected).enumerate() {
        assert_eq!(answer.expect("the store answers"), *expected, "job {i}");
    }
    let stored = expected.iter().filter(|answer| **answer == Pushed::Stored).count();
    assert_eq!(drain(&*store, QUEUE).await.len(), stored);
    // The unknown outcome of a bulk push is found out by repeating it.
    for answer in store.enqueue(&jobs[..50]).await {
        let answer = answer.expect("the store answers");
        assert_eq!(answer, Pushed::Duplicate(jobs_core::State::Running));
    }
    assert!(store.enqueue(&[]).await.is_empty());
}

/// More than the message of any store holds, though each payload is within the limit.
async fn p5_a_bulk_of_large_payloads(kit: &Kit) {
    let store = kit.handle().await;
    let text = "x".repeat(64 * 1024 - 2);
    let large = |tenant| Job { payload: Payload::encode(&text).expect("JSON"), ..job(tenant) };
    let jobs: Vec<_> = (0..300).map(|_| checked(large("acme"))).collect();
    for answer in store.enqueue(&jobs).await {
        assert_eq!(answer.expect("the store answers"), Pushed::Stored);
    }
    for asked in [&jobs[0], &jobs[299]] {
        let found = known(&*store, &asked.job_ref()).await.expect("it is stored").view;
        assert_eq!(found.job.payload, asked.payload);
    }
}

async fn p5_payload_limit_is_exact(kit: &Kit) {
    let store = kit.handle().await;
    let larger = grant("acme").with_payload_limit(1 << 20);
    let smaller = grant("acme").with_payload_limit(4);
    for (grant, limit) in [(&grant("acme"), 64 * 1024), (&larger, 1 << 20), (&smaller, 4)] {
        // Bytes are counted, not characters.
        let text = "é".repeat((limit - 2) / 2);
        let exact = Job { payload: Payload::encode(&text).expect("JSON"), ..job("acme") };
        assert_eq!(exact.payload.as_str().len(), limit);
        let more = Payload::encode(&format!("{text}x")).expect("JSON");
        let refused = Job { payload: more, ..job("acme") };
        let id = refused.job_ref();
        match store.push(grant, refused).await {
            Err(PushError::Refused(Refusal::PayloadTooLarge { size, limit: told, .. })) => {
                assert_eq!((size, told), (limit + 1, limit));
            }
            other => panic!("{} bytes answered {other:?}", limit + 1),
        }
        assert!(known(&*store, &id).await.is_none(), "a refused job is stored");
        let pushed = store.push(grant, exact.clone()).await;
        assert_eq!(pushed.expect("the limit itself passes"), Pushed::Stored);
        assert_eq!(take_one(&*store).await.job.payload, exact.payload);
    }
}

async fn q0_any_wrapping_is_the_same_queue(kit: &Kit) {
    let store = kit.handle().await;
    let as_queue: Arc<dyn Queue> = store.clone();
    let twice: Arc<Arc<dyn Admin>> = Arc::new(store.clone());
    let request = || Reserve::new(QUEUE, [NAME], "suite").expect("legal");
    let pushed = push(&twice, job("acme")).await;
    let delivered = as_queue.reserve(&request()).await.expect("the store answers").deliveries;
    assert_eq!(delivered[0].job.id, pushed.id);
    let settled = twice.ack(&delivered[0].claim).await.expect("the store answers");
    assert_eq!(settled, jobs_core::Settled::Applied(jobs_core::State::Done));
    let again = as_queue.push(&grant("acme"), pushed).await.expect("the store answers");
    assert_eq!(again, Pushed::Duplicate(jobs_core::State::Done));
    // Shared by many tasks, it needs no lock around it.
    let answers = race(32, |_| {
        let (queue, mine) = (as_queue.clone(), job("acme"));
        async move { queue.push(&grant("acme"), mine).await.expect("the store answers") }
    });
    assert!(answers.await.into_iter().all(|answer| answer == Pushed::Stored));
    assert_eq!(drain(&*store, QUEUE).await.len(), 32);
}

async fn q0_open_own_is_the_same_store(kit: &Kit) {
    let store = kit.handle().await;
    let mine = push(&*store, job("acme")).await;
    let grant = grant_without_user("suite", ACTION, "acme").expect("legal");
    let (shared, other) = (store.clone(), job("acme"));
    let pushed = other.clone();
    // Where a worker's control thread lives: another thread with another runtime, which ends first.
    let control = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.expect("a runtime").block_on(async move {
            let own = shared.open_own().await.expect("the store answers");
            let request = Reserve::new(QUEUE, [NAME], "control").expect("legal");
            let deliveries = own.reserve(&request).await.expect("the store answers").deliveries;
            let claim =
                deliveries.first().expect("the other handle's push is visible").claim.clone();
            let lease = jobs_core::queue::Lease::default();
            let renewed = own.renew(lease, std::slice::from_ref(&claim)).await;
            assert_eq!(renewed.expect("the store answers"), [jobs_core::queue::Renewed::Held]);
            let answer = own.push(&grant, pushed).await.expect("the store answers");
            assert_eq!(answer, Pushed::Stored);
            claim
        })
    });
    let joined = tokio::task::spawn_blocking(move || control.join());
    let claim = joined.await.expect("joined").expect("the control thread is well");
    assert_eq!(claim.job, mine.job_ref());
    let settled = store.ack(&claim).await.expect("the store answers");
    assert_eq!(settled, jobs_core::Settled::Applied(jobs_core::State::Done));
    let answer = try_push(&*store, &other).await;
    assert_eq!(answer, Pushed::Duplicate(jobs_core::State::Ready));
}
