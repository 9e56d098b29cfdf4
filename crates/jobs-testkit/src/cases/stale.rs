//! Cases: stale. Every write under a claim, against every way of having lost it. With both writers
//! at once in [`race`](super::race).

use jobs_core::{
    Admin, Claim, Nonce, Outcome, Settled, State,
    admin::{Cancelled, Deleted, Retried},
};

use crate::{
    invariants,
    kit::{Kit, job, push},
    ops::{
        LAPSE, Write, Wrote, cancel, delete, from_queue, hold, look, record, retry, settle,
        sweep_all,
    },
};

super::cases![
    s2_stale_writes_are_lost,
    s2_fence_and_nonce_are_both_compared,
    s2_expired_and_not_yet_taken_is_accepted,
];

/// How a worker lost its claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Loss {
    Swept,
    SweptAndTaken,
    SweptAndTakenByItself,
    Cancelled,
    CancelledAndRetried,
    ParkedBySweep,
    ParkedRetriedAndTaken,
    Deleted,
    DeletedPushedAndTaken,
    /// Settled, and delivered again: once it was rightly answered, now it is stale.
    SettledAndTaken,
}

impl Loss {
    pub(super) const ALL: [Self; 10] = [
        Self::Swept,
        Self::SweptAndTaken,
        Self::SweptAndTakenByItself,
        Self::Cancelled,
        Self::CancelledAndRetried,
        Self::ParkedBySweep,
        Self::ParkedRetriedAndTaken,
        Self::Deleted,
        Self::DeletedPushedAndTaken,
        Self::SettledAndTaken,
    ];

    /// Is somebody else the holder now?
    pub(super) fn has_holder(self) -> bool {
        matches!(
            self,
            Self::SweptAndTaken
                | Self::SweptAndTakenByItself
                | Self::ParkedRetriedAndTaken
                | Self::DeletedPushedAndTaken
                | Self::SettledAndTaken
        )
    }

    /// Pushes `jobs` jobs on `queue`, lets a worker hold each and lose it. Answers its stale
    /// claims, and in the same order the new ones, if there are.
    pub(super) async fn play(
        self,
        kit: &Kit,
        store: &dyn Admin,
        queue: &str,
        jobs: usize,
    ) -> (Vec<Claim>, Vec<Claim>) {
        let last = matches!(self, Self::ParkedBySweep | Self::ParkedRetriedAndTaken);
        let mut pushed = Vec::new();
        for _ in 0..jobs {
            let job = job("acme").on(queue).max_attempts(if last { 1 } else { 5 });
            pushed.push(push(store, job).await);
        }
        let mut stale = claims(store, queue, "stale", jobs).await;
        stale.sort_unstable_by_key(|claim| claim.job.id);
        if self == Self::SettledAndTaken {
            for claim in &stale {
                let released = settle(store, claim, Outcome::Release).await;
                assert_eq!(released, Settled::Applied(State::Ready));
            }
        } else {
            kit.age(LAPSE).await;
        }
        match self {
            Self::Cancelled | Self::CancelledAndRetried => {
                for claim in &stale {
                    assert_eq!(cancel(store, &claim.job).await, Cancelled::Cancelled);
                }
            }
            Self::Deleted | Self::DeletedPushedAndTaken => {
                for claim in &stale {
                    assert_eq!(delete(store, &claim.job).await, Deleted::Deleted);
                }
            }
            Self::SettledAndTaken => {}
            _ => {
                let lost = sweep_all(store).await;
                let lost = lost.iter().filter(|lost| lost.queue == queue).count();
                assert_eq!(lost, jobs, "{self:?}: each is taken back");
            }
        }
        if matches!(self, Self::CancelledAndRetried | Self::ParkedRetriedAndTaken) {
            for claim in &stale {
                assert_eq!(retry(store, &claim.job).await, Retried::Retried);
            }
        }
        if self == Self::DeletedPushedAndTaken {
            for job in pushed {
                push(store, job).await;
            }
        }
        let mut held = Vec::new();
        if self.has_holder() {
            let itself = self == Self::SweptAndTakenByItself;
            held = claims(store, queue, if itself { "stale" } else { "holder" }, jobs).await;
            held.sort_unstable_by_key(|claim| claim.job.id);
            assert!(held.iter().zip(&stale).all(|(new, old)| new.job == old.job));
        }
        (stale, held)
    }
}

async fn claims(store: &dyn Admin, queue: &str, worker: &str, jobs: usize) -> Vec<Claim> {
    let held = hold(store, &from_queue(queue, worker, jobs), jobs).await;
    held.into_iter().map(|delivery| delivery.claim).collect()
}

/// All seven writes against all losses: each is lost, changes nothing of the job, and the new
/// holder's own write is then accepted.
async fn s2_stale_writes_are_lost(kit: &Kit) {
    let store = kit.handle().await;
    for loss in Loss::ALL {
        let writes = Write::all();
        let queue = format!("{loss:?}").to_lowercase();
        let (stale, held) = loss.play(kit, &*store, &queue, writes.len()).await;
        for (at, (claim, write)) in stale.iter().zip(&writes).enumerate() {
            let before = look(&*store, &claim.job).await;
            assert_eq!(before.is_none(), loss == Loss::Deleted);
            assert_eq!(write.by(&*store, claim).await, Wrote::Lost, "{write:?}, {loss:?}");
            let after = look(&*store, &claim.job).await;
            assert_eq!(after, before, "{write:?}, {loss:?}: a refused write changed the job");
            if let Some(new) = held.get(at) {
                let answer = write.by(&*store, new).await;
                assert_eq!(answer, Wrote::Accepted, "{write:?} by the new holder, {loss:?}");
                let before = look(&*store, &claim.job).await;
                assert_eq!(write.by(&*store, claim).await, Wrote::Lost, "{write:?}, {loss:?}");
                assert_eq!(look(&*store, &claim.job).await, before);
            }
        }
        invariants::hold(&*store).await;
    }
}

/// The right job under any other fence or nonce, of its own past or made up, is no claim.
async fn s2_fence_and_nonce_are_both_compared(kit: &Kit) {
    let store = kit.handle().await;
    for write in Write::all() {
        let (stale, held) = Loss::SettledAndTaken.play(kit, &*store, "work", 1).await;
        let [old, new] = [&stale[0], &held[0]];
        assert!(old.fence < new.fence && old.nonce != new.nonce);
        let fence = |fence| Claim { fence, ..new.clone() };
        let nonce = |nonce| Claim { nonce, ..new.clone() };
        let forged = [
            fence(old.fence),
            fence(new.fence - 1),
            fence(new.fence + 1),
            fence(0),
            fence(i64::MAX),
            nonce(old.nonce),
            nonce(Nonce::random()),
            nonce(Nonce(new.nonce.0 ^ 1)),
            nonce(Nonce(0)),
        ];
        for claim in forged {
            let before = look(&*store, &claim.job).await;
            assert_eq!(write.by(&*store, &claim).await, Wrote::Lost, "{write:?} under {claim:?}");
            assert_eq!(look(&*store, &claim.job).await, before, "{write:?} under {claim:?}");
        }
        assert_eq!(write.by(&*store, new).await, Wrote::Accepted, "{write:?}");
        settle(&*store, new, Outcome::Done).await;
    }
    twice_under_one_nonce(&*store).await;
    one_id_of_two_tenants(&*store).await;
}

/// Where a reserve that is repeated after a release takes the job again under its old nonce, the
/// fence alone tells the two deliveries apart.
async fn twice_under_one_nonce(store: &dyn Admin) {
    let request = from_queue("twice", "suite", 1);
    for write in Write::all() {
        push(store, job("acme").on("twice")).await;
        let request = request.clone().nonce(Nonce::random());
        let first = store.reserve(&request).await.expect("the store answers").deliveries;
        let old = &first[0].claim;
        settle(store, old, Outcome::Release).await;
        let again = store.reserve(&request).await.expect("the store answers").deliveries;
        if let Some(delivery) = again.first() {
            let new = &delivery.claim;
            assert_eq!(new.nonce, old.nonce);
            assert!(new.fence > old.fence, "two deliveries, one claim: {new:?}");
            let before = look(store, &new.job).await;
            assert_eq!(write.by(store, old).await, Wrote::Lost, "{write:?}");
            assert_eq!(look(store, &new.job).await, before);
            assert_eq!(write.by(store, new).await, Wrote::Accepted, "{write:?}");
        }
        cancel(store, &old.job).await;
        settle(store, &again.first().map_or(old, |new| &new.claim).clone(), Outcome::Done).await;
    }
}

/// Fence and nonce are of a job, and a job is its tenant's: one reserve that takes the same id of
/// two tenants makes two claims that differ in the tenant alone.
async fn one_id_of_two_tenants(store: &dyn Admin) {
    for write in Write::all() {
        let mine = push(store, job("acme").on("foreign")).await;
        let theirs = jobs_core::Job { id: mine.id, ..job("other").on("foreign") };
        push(store, theirs.clone()).await;
        let held = claims(store, "foreign", "suite", 2).await;
        let other = held.iter().find(|claim| claim.job == theirs.job_ref()).expect("held");
        let before = look(store, &mine.job_ref()).await;
        assert_eq!(write.by(store, other).await, Wrote::Accepted, "{write:?}");
        assert_eq!(look(store, &mine.job_ref()).await, before, "{write:?} of another tenant's job");
        for claim in &held {
            settle(store, claim, Outcome::Done).await;
        }
        delete(store, &theirs.job_ref()).await;
    }
}

/// Fence and nonce decide, not time: nobody took it, so its holder's late write is the truth.
async fn s2_expired_and_not_yet_taken_is_accepted(kit: &Kit) {
    let store = kit.handle().await;
    let writes = Write::all();
    let mut held = Vec::new();
    for _ in &writes {
        push(&*store, job("acme")).await;
    }
    held.extend(claims(&*store, "work", "late", writes.len()).await);
    kit.age_secs(3600).await;
    for (claim, write) in held.iter().zip(&writes) {
        let before = record(&*store, &claim.job).await;
        assert_eq!(before.view.state, State::Running, "expired, and nobody took it");
        assert_eq!(write.by(&*store, claim).await, Wrote::Accepted, "{write:?}");
    }
    let lost = sweep_all(&*store).await;
    assert!(lost.is_empty(), "each was settled or renewed: {lost:?}");
    invariants::hold(&*store).await;
}
