//! Cases: two writers of one job, released at one barrier from two handles.

use std::{future::Future, sync::Arc};

use jobs_core::{
    Admin, Claim, OutcomeKind, Settled, State,
    admin::{Cancelled, Deleted},
};
use tokio::sync::Barrier;

use super::stale::Loss;
use crate::{
    invariants,
    kit::{Kit, job, push},
    ops::{
        LAPSE, Write, Wrote, cancel, delete, from_queue, hold, look, outcomes, settle, state,
        sweep_all,
    },
};

super::cases![s2_both_writers_at_a_barrier];

/// The stale writer is never accepted and the holder always, in every pair of writes and for every
/// loss that has a new holder; two writers of one claim are told of one winner; and an expired
/// claim is either written under or taken, never both.
async fn s2_both_writers_at_a_barrier(kit: &Kit) {
    let stores = [kit.handle().await, kit.handle().await];
    for loss in Loss::ALL.into_iter().filter(|loss| loss.has_holder()) {
        stale_against_holder(kit, &stores, loss).await;
    }
    same_claim(&stores).await;
    for taker in [Taker::Sweep, Taker::Cancel, Taker::Delete] {
        expired_against_taker(kit, &stores, taker).await;
    }
    invariants::hold(&*stores[0]).await;
}

type Stores = [Arc<dyn Admin>; 2];

/// Both at once, each on its own thread, started by one barrier.
async fn both<A, B>(
    first: impl Future<Output = A> + Send + 'static,
    second: impl Future<Output = B> + Send + 'static,
) -> (A, B)
where
    A: Send + 'static,
    B: Send + 'static,
{
    let gate = Arc::new(Barrier::new(2));
    let other = gate.clone();
    let first = tokio::spawn(async move {
        gate.wait().await;
        first.await
    });
    let second = tokio::spawn(async move {
        other.wait().await;
        second.await
    });
    (first.await.expect("no panic"), second.await.expect("no panic"))
}

fn write(
    store: &Arc<dyn Admin>,
    claim: &Claim,
    write: &Write,
) -> impl Future<Output = Wrote> + use<> {
    let (store, claim, write) = (store.clone(), claim.clone(), write.clone());
    async move { write.by(&*store, &claim).await }
}

async fn stale_against_holder(kit: &Kit, stores: &Stores, loss: Loss) {
    let writes = Write::all();
    let pairs: Vec<_> = writes.iter().flat_map(|w| writes.iter().map(move |v| (w, v))).collect();
    let queue = format!("{loss:?}").to_lowercase();
    let (stale, held) = loss.play(kit, &*stores[0], &queue, pairs.len()).await;
    for (round, (by_stale, by_holder)) in pairs.into_iter().enumerate() {
        let (old, new) = (&stale[round], &held[round]);
        // Either handle may be the faster one.
        let [one, two] = if round % 2 == 0 { [0, 1] } else { [1, 0] };
        let late = write(&stores[one], old, by_stale);
        let right = write(&stores[two], new, by_holder);
        let (late, right) = both(late, right).await;
        assert_eq!(late, Wrote::Lost, "stale {by_stale:?} against {by_holder:?}, {loss:?}");
        assert_eq!(right, Wrote::Accepted, "{by_holder:?} against stale {by_stale:?}, {loss:?}");
        let record = look(&*stores[0], &new.job).await.expect("it is there");
        match by_holder {
            Write::Renew => {
                assert_eq!(record.view.state, State::Running, "the holder's word stands");
                settle(&*stores[0], new, jobs_core::Outcome::Done).await;
            }
            Write::Settle(outcome) => {
                let told = settle(&*stores[0], new, outcome.clone()).await;
                assert_eq!(told, Settled::AlreadyApplied(outcome.kind()));
            }
        }
    }
}

async fn same_claim(stores: &Stores) {
    for first in outcomes() {
        for second in outcomes() {
            push(&*stores[0], job("acme").on("same")).await;
            let request = from_queue("same", "suite", 1);
            let claim = hold(&*stores[0], &request, 1).await.remove(0).claim;
            let settling = |store: &Arc<dyn Admin>, outcome: &jobs_core::Outcome| {
                let (store, claim, outcome) = (store.clone(), claim.clone(), outcome.clone());
                async move { settle(&*store, &claim, outcome).await }
            };
            let answers = both(settling(&stores[0], &first), settling(&stores[1], &second)).await;
            let (won, state_told): (OutcomeKind, State) = match answers {
                (Settled::Applied(to), Settled::AlreadyApplied(kind)) if kind == first.kind() => {
                    (kind, to)
                }
                (Settled::AlreadyApplied(kind), Settled::Applied(to)) if kind == second.kind() => {
                    (kind, to)
                }
                _ => panic!("{first:?} and {second:?} of one claim: {answers:?}"),
            };
            assert_eq!(state(&*stores[0], &claim.job).await, state_told, "{won} won");
            // Out of line, so that the next round takes its own job.
            cancel(&*stores[0], &claim.job).await;
        }
    }
}

/// Who takes an expired job from its late holder.
#[derive(Clone, Copy, Debug)]
enum Taker {
    Sweep,
    Cancel,
    Delete,
}

impl Taker {
    /// Did it get the job?
    async fn takes(self, store: &dyn Admin, claim: &Claim) -> bool {
        match self {
            Self::Sweep => sweep_all(store).await.iter().any(|lost| lost.job == claim.job),
            Self::Cancel => cancel(store, &claim.job).await == Cancelled::Cancelled,
            Self::Delete => delete(store, &claim.job).await == Deleted::Deleted,
        }
    }
}

async fn expired_against_taker(kit: &Kit, stores: &Stores, taker: Taker) {
    let queue = format!("{taker:?}").to_lowercase();
    let request = from_queue(&queue, "late", 1);
    for late in [Write::all(), Write::all(), Write::all()].concat() {
        push(&*stores[0], job("acme").on(queue.as_str())).await;
        let claim = hold(&*stores[0], &request, 1).await.remove(0).claim;
        kit.age(LAPSE).await;
        let (store, taken) = (stores[1].clone(), claim.clone());
        let taking = async move { taker.takes(&*store, &taken).await };
        let (wrote, took) = both(write(&stores[0], &claim, &late), taking).await;
        match taker {
            Taker::Sweep => assert_eq!(wrote == Wrote::Accepted, !took, "{late:?}: {wrote:?}"),
            // An operator may take what was settled a moment before, never the reverse.
            Taker::Cancel | Taker::Delete => {
                assert!(wrote == Wrote::Accepted || took, "{late:?} against {taker:?}: {wrote:?}");
            }
        }
        assert_ne!(wrote, Wrote::Repeated, "{late:?} was written once");
        if took {
            let again = late.by(&*stores[0], &claim).await;
            let settled = wrote == Wrote::Accepted;
            assert!(again == Wrote::Lost || settled, "{late:?} after {taker:?}: {again:?}");
        }
        cancel(&*stores[0], &claim.job).await;
        if matches!(late, Write::Renew) {
            settle(&*stores[0], &claim, jobs_core::Outcome::Done).await;
        }
    }
}
