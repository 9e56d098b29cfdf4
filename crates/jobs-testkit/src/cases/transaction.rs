//! P6: a push inside the caller's own transaction is part of it. On a store that has none for
//! callers these hold of themselves.

use std::time::{Duration, Instant};

use jobs_core::{Job, Payload, PushError, QueueExt, State, queue::Pushed};

use super::stage::{drain_seen, known, stage, try_push};
use crate::kit::{Kit, QUEUE, checked, grant, job, push};

super::cases![
    p6_commit_publishes_and_rollback_leaves_nothing,
    p6_a_bulk_is_one_transaction,
    p6_what_was_committed_before_is_an_answer,
    p6_an_open_transaction_keeps_nobody_waiting,
];

/// Nobody waits longer for somebody else's open transaction: 2 s (P3) and what a slow machine adds.
const PATIENCE: Duration = Duration::from_secs(6);

async fn p6_commit_publishes_and_rollback_leaves_nothing(kit: &Kit) {
    let store = kit.handle().await;
    for commits in [false, true] {
        let Some(mut open) = kit.fixture.begin(&kit.namespace).await else { return };
        let jobs =
            [job("acme").key("k"), job("globex"), job("acme").after(Duration::from_secs(60))];
        let all: Vec<_> = jobs.iter().cloned().map(checked).collect();
        let pushed = open.push(&all[..1]).await.expect("the store answers");
        assert_eq!(pushed, [Pushed::Stored]);
        let pushed = open.push(&all[1..]).await.expect("the store answers");
        assert_eq!(pushed, [Pushed::Stored; 2]);
        // It sees its own, and others do not.
        let pushed = open.push(&all[..1]).await.expect("the store answers");
        assert_eq!(pushed, [Pushed::Duplicate(State::Ready)]);
        let keyed = checked(job("acme").key("k"));
        let pushed = open.push(std::slice::from_ref(&keyed)).await.expect("the store answers");
        assert_eq!(pushed, [Pushed::KeyHeld(jobs[0].id, State::Ready)]);
        for job in &jobs {
            assert!(known(&*store, &job.job_ref()).await.is_none(), "seen before the commit");
        }
        if !commits {
            open.rollback().await;
            for job in &jobs {
                assert!(known(&*store, &job.job_ref()).await.is_none(), "left by a rollback");
            }
            assert!(drain_seen(&*store, QUEUE, 1).await.is_empty(), "left by a rollback");
            // Neither its key nor its ids are taken.
            let answer = try_push(&*store, &jobs[0]).await;
            assert_eq!(answer, Pushed::Stored);
            let taken = drain_seen(&*store, QUEUE, 1).await;
            store.ack(&taken[0].claim).await.expect("the store answers");
            continue;
        }
        open.commit().await.expect("the store answers");
        let delivered = drain_seen(&*store, QUEUE, 2).await;
        assert_eq!(delivered.len(), 2);
        assert!(delivered.iter().all(|delivery| jobs.iter().any(|j| j.id == delivery.job.id)));
        let due = known(&*store, &jobs[2].job_ref()).await.expect("it is stored");
        assert_eq!(due.view.state, State::Scheduled);
    }
}

/// Many jobs in one push, alike but for what they carry, with others among them.
async fn p6_a_bulk_is_one_transaction(kit: &Kit) {
    let store = kit.handle().await;
    let number = |at: u32| Payload::encode(&at).expect("a number is JSON");
    let jobs: Vec<_> = (0..100)
        .map(|at| match at % 34 {
            33 => Job { payload: number(at), ..job("globex").meta("at", at.to_string()) },
            _ => Job { payload: number(at), ..job("acme") },
        })
        .collect();
    let all: Vec<_> = jobs.iter().cloned().map(checked).collect();
    for commits in [false, true] {
        let Some(mut open) = kit.fixture.begin(&kit.namespace).await else { return };
        let pushed = open.push(&all).await.expect("the store answers");
        assert_eq!(pushed, [Pushed::Stored; 100]);
        if !commits {
            open.rollback().await;
            assert!(drain_seen(&*store, QUEUE, 1).await.is_empty(), "left by a rollback");
            continue;
        }
        open.commit().await.expect("the store answers");
    }
    let delivered = drain_seen(&*store, QUEUE, 100).await;
    assert_eq!(delivered.len(), 100);
    for job in &jobs {
        let found = delivered.iter().find(|delivery| delivery.job.id == job.id);
        let found = &found.expect("one of those pushed").job;
        let same = (&found.tenant, &found.payload, &found.metadata);
        assert_eq!(same, (&job.tenant, &job.payload, &job.metadata));
    }
}

async fn p6_what_was_committed_before_is_an_answer(kit: &Kit) {
    let store = kit.handle().await;
    let mut stored = Vec::new();
    for state in State::ALL {
        let (job, _) = stage(&*store, job("acme").on(state.as_str()), state).await;
        stored.push((job, state));
    }
    let holder = push(&*store, job("acme").on("holder").key("k")).await;
    let Some(mut open) = kit.fixture.begin(&kit.namespace).await else { return };
    let fresh = job("acme");
    let mut jobs: Vec<_> = stored.iter().map(|(job, _)| checked(job.clone())).collect();
    let mut expected: Vec<_> = stored.iter().map(|(_, s)| Pushed::Duplicate(*s)).collect();
    jobs.push(checked(job("acme").key("k")));
    expected.push(Pushed::KeyHeld(holder.id, State::Ready));
    jobs.push(checked(fresh.clone()));
    expected.push(Pushed::Stored);
    // An answer leaves the transaction as it was: the rest of it goes on.
    assert_eq!(open.push(&jobs).await.expect("the store answers"), expected);
    assert!(open.push(&[]).await.expect("the store answers").is_empty());
    open.commit().await.expect("the store answers");
    let delivered = drain_seen(&*store, QUEUE, 1).await;
    assert!(delivered.len() == 1 && delivered[0].job.id == fresh.id);
}

async fn p6_an_open_transaction_keeps_nobody_waiting(kit: &Kit) {
    let store = kit.handle().await;
    for (key, commits) in [("rolled back", false), ("committed", true)] {
        let Some(mut open) = kit.fixture.begin(&kit.namespace).await else { return };
        let inside = job("acme").key(key);
        let pushed = open.push(&[checked(inside.clone())]).await.expect("the store answers");
        assert_eq!(pushed, [Pushed::Stored]);
        // The key may still be freed or taken: the only true answer is to come again.
        let outside = job("acme").key(key);
        let start = Instant::now();
        match store.push(&grant("acme"), outside.clone()).await {
            Err(PushError::Store(error)) => assert!(error.is_transient(), "{error:?}"),
            other => panic!("a push against an uncommitted key answered {other:?}"),
        }
        assert!(start.elapsed() < PATIENCE, "it waited {:?}", start.elapsed());
        if commits {
            open.commit().await.expect("the store answers");
        } else {
            open.rollback().await;
        }
        let expected =
            if commits { Pushed::KeyHeld(inside.id, State::Ready) } else { Pushed::Stored };
        assert_eq!(try_push(&*store, &outside).await, expected);
    }
}
