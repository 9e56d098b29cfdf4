//! G5 where nothing stands before the driver: requests are text and numbers from outside, from a
//! page or a stored claim, and one bad element harms nobody else's.

use std::time::Duration;

use jobs_core::{
    Admin, Claim, Job, JobId, JobRef, Nonce, Outcome, Settled, Settlement, State,
    admin::{Cancelled, Deleted, LaneChange, LaneRef, Pause, Retried, Tuned},
    job::RunAt,
    permit::{Cancel, Delete, Read, Retry, Tune},
    queue::{Lease, Renewed, Worker},
    time::{MAX_MILLIS, from_millis},
    view::{Cursor, Lanes, List},
};

use super::stage::{known, stage, state_of, take_from};
use crate::kit::{Kit, QUEUE, job, operator, push, take, take_one};

super::cases![g5_hostile_questions_are_answered, g5_hostile_claims_are_lost];

/// What no tenant, queue or cause is.
fn hostile() -> Vec<String> {
    let plain = [
        "",
        "\0",
        "acme\0",
        "\0acme",
        "ACME",
        "acme ",
        "acme/x",
        "acme:x",
        "%",
        "_cme",
        "*",
        "'; --",
        "\\",
        "\"",
        "{",
        "}",
        "$ne",
        "é",
        "\u{202e}",
        "\u{10ffff}",
        "\n",
    ];
    plain.map(str::to_owned).into_iter().chain(["a".repeat(65), "💥".repeat(250_000)]).collect()
}

async fn g5_hostile_questions_are_answered(kit: &Kit) {
    let store = kit.handle().await;
    let (read, tune) = (operator::<Read>().await, operator::<Tune>().await);
    let mut mine = Vec::new();
    for text in hostile() {
        let (good, _) = stage(&*store, job("acme"), State::Parked).await;
        let bad = JobRef { tenant: text.clone(), id: good.id };
        let found = store.get(&read, &bad).await.expect("a question is answered");
        assert!(found.is_none(), "{text:.40?}");
        // A list and counts of what cannot be are empty.
        let lists = [
            List { tenant: Some(text.clone()), ..List::default() },
            List { queue: Some(text.clone()), ..List::default() },
            List { name: Some(text.clone()), ..List::default() },
        ];
        for list in lists {
            let page = store.list(&read, &list).await.expect("a question is answered");
            assert!(page.jobs.is_empty(), "{text:.40?}");
        }
        let lanes = [
            Lanes { tenant: Some(text.clone()), queue: None },
            Lanes { tenant: None, queue: Some(text.clone()) },
        ];
        for lanes in lanes {
            let counts = store.counts(&read, &lanes).await.expect("a question is answered");
            assert!(counts.lanes.is_empty(), "{text:.40?}");
        }
        let elsewhere = [
            List { cause: Some(text.clone()), ..List::default() },
            List { after: Some(Cursor(bad.clone())), ..List::default() },
            List { page: usize::MAX, ..List::default() },
        ];
        for list in elsewhere {
            let page = store.list(&read, &list).await.expect("a question is answered");
            assert!(page.jobs.len() <= 1000);
        }
        for lane in [(text.as_str(), Some("acme")), (QUEUE, Some(&text)), (&text, None)] {
            let lane = LaneRef { queue: lane.0.to_owned(), tenant: lane.1.map(str::to_owned) };
            // This one is a legal queue or tenant that nobody has, wherever it stands.
            let change = LaneChange { weight: None, pause: Some(Pause::On) };
            let tuned = store.set_lane(&tune, &lane, change).await;
            let legal = jobs_core::names::is_name(&text);
            assert!(legal || tuned.expect("it answers") == Tuned::OutOfBounds, "{text:.40?}");
        }
        // Verbs: the one beside it is judged by itself.
        let both = [bad.clone(), good.job_ref(), bad];
        let retried = store.retry(&operator::<Retry>().await, &both).await.expect("it answers");
        assert_eq!(retried, [Retried::Unknown, Retried::Retried, Retried::Unknown]);
        let cancelled = store.cancel(&operator::<Cancel>().await, &both).await;
        assert_eq!(
            cancelled.expect("it answers"),
            [Cancelled::Unknown, Cancelled::Cancelled, Cancelled::Unknown]
        );
        let deleted = store.delete(&operator::<Delete>().await, &both).await;
        assert_eq!(
            deleted.expect("it answers"),
            [Deleted::Unknown, Deleted::Deleted, Deleted::Unknown]
        );
        // Wake-ups and announcements are hints: refused or taken, but never a panic.
        let _ = store.watch(std::slice::from_ref(&text)).await;
        let worker = Worker {
            id: uuid::Uuid::max(),
            label: text.clone(),
            queues: vec![text.clone()],
            names: vec![text],
            slots: u32::MAX,
            busy: u32::MAX,
            stuck: u32::MAX,
            leaving: false,
        };
        let _ = store.announce(&worker).await;
        store.workers(&read).await.expect("whatever was announced");
        mine.push(push(&*store, job("globex").on("beside")).await.id);
    }
    let delivered = take_from(&*store, "beside", 1000).await;
    let delivered: Vec<_> = delivered.iter().map(|delivery| delivery.job.id).collect();
    assert_eq!(delivered, mine, "the store is as it was");
}

async fn g5_hostile_claims_are_lost(kit: &Kit) {
    let store = kit.handle().await;
    let lease = Lease::new(Duration::from_secs(3600)).expect("legal");
    for text in hostile() {
        push(&*store, job("acme")).await;
        let good = take_one(&*store).await.claim;
        let of = |tenant: &str, id, fence, nonce| {
            let job = JobRef { tenant: tenant.to_owned(), id };
            Claim { job, fence, nonce: Nonce(nonce) }
        };
        let (id, fence, nonce) = (good.job.id, good.fence, good.nonce.0);
        let bad = [
            of(&text, id, fence, nonce),
            of("acme", id, i64::MIN, nonce),
            of("acme", id, i64::MAX, nonce),
            of("acme", id, fence, i64::MIN),
            of("acme", id, fence, i64::MAX),
            of("acme", id, fence, 0),
            of("acme", JobId(uuid::Uuid::nil()), fence, nonce),
            of("acme", JobId(uuid::Uuid::max()), fence, nonce),
        ];
        let mut claims = bad.to_vec();
        claims.insert(4, good.clone());
        let renewed = store.renew(lease, &claims).await.expect("it answers");
        for (i, renewed) in renewed.into_iter().enumerate() {
            let expected = if i == 4 { Renewed::Held } else { Renewed::Lost };
            assert_eq!(renewed, expected, "claim {i} of {text:.40?}");
        }
        // The longest delay ends in 2200 and is no overflow.
        let outcome = Outcome::Snooze { after: Duration::MAX };
        let settle = |claim: &Claim| Settlement { claim: claim.clone(), outcome: outcome.clone() };
        let all: Vec<_> = claims.iter().map(settle).collect();
        let settled = store.settle(&all).await.expect("it answers");
        for (i, settled) in settled.into_iter().enumerate() {
            let applied = Settled::Applied(State::Scheduled);
            let expected = if i == 4 { applied } else { Settled::Lost };
            assert_eq!(settled, expected, "claim {i} of {text:.40?}");
        }
        let found = known(&*store, &good.job).await.expect("it is stored").view;
        assert_eq!(found.job.run_at, RunAt::At(from_millis(MAX_MILLIS)));
    }
    // A pause of the longest length, and of none.
    let lane = LaneRef { queue: QUEUE.to_owned(), tenant: Some("acme".to_owned()) };
    let mine: Job = push(&*store, job("acme")).await;
    for (length, delivered) in [(Duration::MAX, 0), (Duration::ZERO, 1)] {
        let change = LaneChange { weight: None, pause: Some(Pause::For(length)) };
        let tuned = store.set_lane(&operator::<Tune>().await, &lane, change).await;
        assert_eq!(tuned.expect("it answers"), Tuned::Tuned);
        assert_eq!(take(&*store, 9).await.len(), delivered, "{length:?}");
    }
    assert_eq!(state_of(&*store, &mine.job_ref()).await, State::Running);
}
