//! P2: `(tenant, id)` is identity, so a push is safe to repeat.

use jobs_core::{Job, JobId, QueueExt, Settled, State, job::RunAt, queue::Pushed};

use super::stage::{
    cancel, drain, drain_seen, known, race, stage, state_of, take_from, take_one_from, try_push,
};
use crate::kit::{Kit, QUEUE, job, push, take, take_one};

super::cases![
    p2_a_duplicate_changes_nothing_in_any_state,
    p2_same_id_in_two_queues,
    p2_same_id_by_two_tenants,
    p2_concurrent_pushes_store_one,
    p2_push_against_an_ack_in_flight,
];

/// Another job with the id of `job`, different in every field that a store could overwrite.
fn different(first: &Job) -> Job {
    let other = job(&first.tenant).on("elsewhere").priority(77).max_attempts(9).key("other");
    let payload = jobs_core::Payload::encode(&"other").expect("JSON");
    Job { id: first.id, payload, run_at: RunAt::Now, ..other.meta("other", "1") }
}

async fn p2_a_duplicate_changes_nothing_in_any_state(kit: &Kit) {
    let store = kit.handle().await;
    for state in State::ALL {
        let (first, _) =
            stage(&*store, job("acme").on(state.as_str()).key(state.as_str()), state).await;
        let before = known(&*store, &first.job_ref()).await;
        for again in [first.clone(), different(&first)] {
            assert_eq!(try_push(&*store, &again).await, Pushed::Duplicate(state));
        }
        assert_eq!(known(&*store, &first.job_ref()).await, before, "{state} was changed");
    }
    // The refused ones took no key and are on no queue.
    assert!(take_from(&*store, "elsewhere", 9).await.is_empty());
    push(&*store, job("acme").on("free").key("other")).await;

    // Running with a cancel requested, and running past its lease, are running.
    let (asked, _) = stage(&*store, job("acme").on("asked"), State::Running).await;
    cancel(&*store, &asked.job_ref()).await;
    let (silent, _) = stage(&*store, job("acme").on("silent"), State::Running).await;
    kit.age_secs(60).await;
    for job in [asked, silent] {
        let before = known(&*store, &job.job_ref()).await;
        assert_eq!(try_push(&*store, &different(&job)).await, Pushed::Duplicate(State::Running));
        assert_eq!(known(&*store, &job.job_ref()).await, before);
    }
}

async fn p2_same_id_in_two_queues(kit: &Kit) {
    let store = kit.handle().await;
    let first = push(&*store, job("acme").on("one")).await;
    let second = first.clone().on("two");
    assert_eq!(try_push(&*store, &second).await, Pushed::Duplicate(State::Ready));
    assert!(take_from(&*store, "two", 9).await.is_empty(), "one identity, two jobs");
    let delivery = take_one_from(&*store, "one").await;
    assert_eq!(try_push(&*store, &second).await, Pushed::Duplicate(State::Running));
    store.ack(&delivery.claim).await.expect("the store answers");
    // History is as good a witness as the line.
    assert_eq!(try_push(&*store, &second).await, Pushed::Duplicate(State::Done));
    assert!(take_from(&*store, "two", 9).await.is_empty());
    assert!(take_from(&*store, "one", 9).await.is_empty());
}

async fn p2_same_id_by_two_tenants(kit: &Kit) {
    let store = kit.handle().await;
    let acme = push(&*store, job("acme").key("k").meta("of", "acme")).await;
    let globex = Job { id: acme.id, ..job("globex").key("k").meta("of", "globex") };
    let globex = push(&*store, globex).await;
    let delivered = take(&*store, 9).await;
    assert_eq!(delivered.len(), 2, "another tenant's equal id is another job");
    for delivery in &delivered {
        assert_eq!(delivery.job.metadata["of"], delivery.job.tenant);
        assert_eq!(delivery.claim.job.tenant, delivery.job.tenant);
    }
    let of_acme = delivered.iter().find(|d| d.job.tenant == "acme").expect("one is acme's");
    let settled = store.ack(&of_acme.claim).await.expect("the store answers");
    assert_eq!(settled, Settled::Applied(State::Done));
    assert_eq!(state_of(&*store, &acme.job_ref()).await, State::Done);
    assert_eq!(state_of(&*store, &globex.job_ref()).await, State::Running, "the other's job");
    // A claim that names the other tenant is no claim, although id, fence and nonce may be right.
    let of_globex = delivered.iter().find(|d| d.job.tenant == "globex").expect("one is globex's");
    let mut crossed = of_globex.claim.clone();
    crossed.job.tenant = "acme".to_owned();
    assert_ne!(
        store.release(&crossed).await.expect("the store answers"),
        Settled::Applied(State::Ready)
    );
    assert_eq!(state_of(&*store, &globex.job_ref()).await, State::Running);
    assert_eq!(try_push(&*store, &acme).await, Pushed::Duplicate(State::Done));
    assert_eq!(try_push(&*store, &globex).await, Pushed::Duplicate(State::Running));
}

async fn p2_concurrent_pushes_store_one(kit: &Kit) {
    let handles = [kit.handle().await, kit.handle().await, kit.handle().await];
    for round in 0..8 {
        let id = JobId::new();
        // Two queues and two handles of one process, so that no lock of one lane hides the race.
        let answers = race(64, |i| {
            let store = handles[i % 3].clone();
            let queue = if i % 2 == 0 { "one" } else { "two" };
            let mine = Job { id, ..job("acme").on(queue) };
            async move { try_push(&*store, &mine).await }
        })
        .await;
        let stored = answers.iter().filter(|answer| **answer == Pushed::Stored).count();
        assert_eq!(stored, 1, "round {round}: {answers:?}");
        let rest = answers.iter().filter(|answer| **answer == Pushed::Duplicate(State::Ready));
        assert_eq!(rest.count(), 63, "round {round}: {answers:?}");
        // Whose push won is known to the operator at once, to a reserve after 250 ms.
        let winner = known(&*handles[0], &Job { id, ..job("acme") }.job_ref()).await;
        let queue = winner.expect("it is stored").view.job.queue;
        let other = if queue == "one" { "two" } else { "one" };
        assert_eq!(drain_seen(&*handles[0], &queue, 1).await.len(), 1, "round {round}");
        assert!(drain(&*handles[0], other).await.is_empty(), "round {round}");
    }
}

async fn p2_push_against_an_ack_in_flight(kit: &Kit) {
    let (worker, producer) = (kit.handle().await, kit.handle().await);
    for round in 0..25 {
        let first = push(&*worker, job("acme").key("k")).await;
        let delivery = take_one(&*worker).await;
        let claim = delivery.claim.clone();
        // Even: the same id again. Odd: another id with the same key.
        let again = if round % 2 == 0 { first.clone() } else { job("acme").key("k") };
        let answers = race(17, |i| {
            let (worker, producer) = (worker.clone(), producer.clone());
            let (claim, again) = (claim.clone(), again.clone());
            async move {
                if i == 8 {
                    return Err(worker.ack(&claim).await.expect("the store answers"));
                }
                let store = if i % 2 == 0 { worker } else { producer };
                Ok(try_push(&*store, &again).await)
            }
        })
        .await;
        let settled: Vec<_> = answers.iter().filter_map(|answer| answer.err()).collect();
        assert_eq!(settled, [Settled::Applied(State::Done)], "a push spoiled an ack");
        assert_eq!(state_of(&*worker, &first.job_ref()).await, State::Done);
        let pushed: Vec<_> = answers.into_iter().filter_map(Result::ok).collect();
        let stored = pushed.iter().filter(|answer| **answer == Pushed::Stored).count();
        for answer in pushed {
            let legal = match answer {
                Pushed::Duplicate(State::Running | State::Done) => round % 2 == 0,
                Pushed::KeyHeld(id, State::Running) => round % 2 == 1 && id == first.id,
                Pushed::Duplicate(State::Ready) => round % 2 == 1,
                Pushed::Stored => round % 2 == 1,
                _ => false,
            };
            assert!(legal, "round {round}: {answer:?}");
        }
        assert!(stored <= 1);
        let now = known(&*producer, &again.job_ref()).await.map(|record| record.view.state);
        let expected = if round % 2 == 0 { Some(State::Done) } else { None };
        let expected = if stored == 1 { Some(State::Ready) } else { expected };
        assert_eq!(now, expected, "round {round}");
        let left = drain_seen(&*worker, QUEUE, stored).await;
        assert_eq!(left.len(), stored, "round {round}: done, and delivered again");
        for delivery in left {
            worker.ack(&delivery.claim).await.expect("the store answers");
        }
    }
}
