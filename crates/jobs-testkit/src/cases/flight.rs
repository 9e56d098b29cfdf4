//! P7: pushes that are in flight together succeed and fail each by itself.

use std::{future::Future, time::Duration};

use jobs_core::{Job, PushError, QueueExt, State, queue::Pushed};

use super::stage::{drain, drain_seen, known, race, try_push};
use crate::kit::{Kit, QUEUE, grant, job, push};

super::cases![
    p7_one_refused_among_fifty,
    p7_two_runtimes_one_handle,
    p7_a_dropped_push_harms_nobody,
];

/// No push of a healthy store takes longer: one that waits for a task that is gone never ends.
const DEADLINE: Duration = Duration::from_secs(20);

/// Runs `work` on a runtime of its own, which ends with it.
async fn elsewhere<T: Send + 'static>(work: impl Future<Output = T> + Send + 'static) -> T {
    let ran = tokio::task::spawn_blocking(|| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.expect("a runtime").block_on(work)
    });
    ran.await.expect("no panic")
}

async fn p7_one_refused_among_fifty(kit: &Kit) {
    let store = kit.handle().await;
    for round in 0..8 {
        let stored = push(&*store, job("acme").key("held").on("before")).await;
        let jobs: Vec<Job> = (0..50)
            .map(|i| match i {
                17 => job("acme").key("held"),
                33 => Job { id: stored.id, ..job("acme") },
                _ => job(["acme", "globex", "initech"][i % 3]),
            })
            .collect();
        let answers = race(50, |i| {
            let (store, mine) = (store.clone(), jobs[i].clone());
            async move { try_push(&*store, &mine).await }
        });
        for (i, answer) in answers.await.into_iter().enumerate() {
            let expected = match i {
                17 => Pushed::KeyHeld(stored.id, State::Ready),
                33 => Pushed::Duplicate(State::Ready),
                _ => Pushed::Stored,
            };
            assert_eq!(answer, expected, "round {round}, push {i}");
        }
        assert_eq!(drain(&*store, QUEUE).await.len(), 48, "round {round}");
        let before = super::stage::take_one_from(&*store, "before").await;
        store.ack(&before.claim).await.expect("the store answers");
    }
    // The connection breaks under one of them: whoever is told so may repeat, nobody is lost, and
    // who was told that it is stored was told the truth.
    for after in 1..=3 {
        let broken = kit.fixture.make_cut(&kit.namespace, after).await;
        // With keys: a push that was cut short must not be refused for the key it took itself.
        let keyed = |i| job("acme").key(format!("{after}-{i}"));
        let jobs: Vec<Job> = (0..50).map(keyed).collect();
        let answers = race(50, |i| {
            let (store, mine) = (broken.clone(), jobs[i].clone());
            async move { store.push(&grant("acme"), mine).await }
        });
        for (i, answer) in answers.await.into_iter().enumerate() {
            let again = try_push(&*store, &jobs[i]).await;
            match answer {
                Ok(Pushed::Stored) => assert_eq!(again, Pushed::Duplicate(State::Ready), "{i}"),
                Ok(other) => panic!("push {i} of a new job answered {other:?}"),
                Err(PushError::Store(error)) => assert!(error.is_transient(), "{error}"),
                Err(other) => panic!("push {i} answered {other:?}"),
            }
        }
        assert_eq!(drain_seen(&*store, QUEUE, 50).await.len(), 50, "cut after {after}");
    }
}

async fn p7_two_runtimes_one_handle(kit: &Kit) {
    let store = kit.handle().await;
    for round in 0..3 {
        let shared = store.clone();
        let pushed = elsewhere(async move {
            let all = race(50, |_| {
                let (store, mine) = (shared.clone(), job("acme"));
                async move { try_push(&*store, &mine).await }
            });
            tokio::time::timeout(DEADLINE, all).await
        });
        let answers = pushed.await.expect("the handle serves a runtime after the first has ended");
        assert!(answers.into_iter().all(|answer| answer == Pushed::Stored), "round {round}");
        assert_eq!(drain(&*store, QUEUE).await.len(), 50, "round {round}");

        // A runtime that ends while its pushes are in flight takes nobody's but its own along.
        let shared = store.clone();
        let jobs: Vec<Job> = (0..20).map(|_| job("acme").on("torn")).collect();
        let torn = jobs.clone();
        elsewhere(async move {
            for mine in torn {
                let store = shared.clone();
                tokio::spawn(async move { try_push(&*store, &mine).await });
            }
            for _ in 0..round * 2 {
                tokio::task::yield_now().await;
            }
        })
        .await;
        let mine = push(&*store, job("acme").on("after"));
        tokio::time::timeout(DEADLINE, mine).await.expect("the next push waits for nobody");
        for job in &jobs {
            let again = tokio::time::timeout(DEADLINE, try_push(&*store, job)).await;
            let again = again.expect("nor does its repetition");
            assert!(matches!(again, Pushed::Stored | Pushed::Duplicate(State::Ready)), "{again:?}");
        }
        assert_eq!(drain(&*store, "torn").await.len(), 20, "round {round}");
    }
}

async fn p7_a_dropped_push_harms_nobody(kit: &Kit) {
    let store = kit.handle().await;
    for round in 0..24 {
        let dropped = job("acme");
        let others: Vec<Job> = (0..20).map(|i| job(["acme", "globex"][i % 2])).collect();
        let mut first = Box::pin(try_push(&*store, &dropped));
        // The first to come may be the one that flushes for all; it goes as far as `round` polls.
        let mut done = false;
        let mut step = async || {
            done = done || futures::poll!(first.as_mut()).is_ready();
            tokio::task::yield_now().await;
        };
        step().await;
        let waiting = others.iter().cloned().map(|mine| {
            let store = store.clone();
            tokio::spawn(async move { try_push(&*store, &mine).await })
        });
        let waiting: Vec<_> = waiting.collect();
        for _ in 0..round / 2 {
            step().await;
        }
        if round % 2 == 0 {
            tokio::time::sleep(Duration::from_micros(round * 50)).await;
        }
        drop(first);
        for (i, task) in waiting.into_iter().enumerate() {
            let answer = tokio::time::timeout(DEADLINE, task).await;
            let answer = answer.unwrap_or_else(|_| panic!("round {round}: push {i} hangs"));
            assert_eq!(answer.expect("no panic"), Pushed::Stored, "round {round}, push {i}");
        }
        // What became of the dropped one is found out by its id, and it is there once.
        let before = known(&*store, &dropped.job_ref()).await.is_some();
        let again = try_push(&*store, &dropped).await;
        assert!(matches!(again, Pushed::Stored | Pushed::Duplicate(State::Ready)), "{again:?}");
        assert!(!before || again != Pushed::Stored, "stored twice");
        let delivered = drain(&*store, QUEUE).await;
        assert_eq!(delivered.len(), 21, "round {round}");
    }
}
