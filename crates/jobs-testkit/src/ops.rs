//! Shorthands of cases for the two sides of a running job: who holds it, and who looks at it.

use std::time::Duration;

use jobs_core::{
    Admin, Claim, JobRef, Outcome, QueueExt, Settled, State, Timestamp,
    admin::{Cancelled, Deleted, Retried},
    queue::{Delivery, Lease, Lost, Renewed, Reserve},
    view::{JobRecord, JobView, LaneCounts, Lanes, List},
};

use crate::kit::{NAME, operator};

/// What a delay of "soon, but not now" is: far enough that no slow run of a case reaches it.
pub const LATER: Duration = Duration::from_secs(600);
/// Longer than the default lease, so that ageing by it ends every claim.
pub const LAPSE: Duration = Duration::from_secs(25);
/// How long another handle's writes may stay unseen before a case gives up; F is 250 ms.
const PATIENCE: Duration = Duration::from_secs(5);

/// One of the seven ways to write under a claim.
#[derive(Clone, Debug)]
pub enum Write {
    /// A settlement.
    Settle(Outcome),
    /// A renewal.
    Renew,
}

/// What became of a [`Write`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wrote {
    /// The claim was held, and it happened.
    Accepted,
    /// The claim was settled before.
    Repeated,
    /// The claim is not held.
    Lost,
}

impl Write {
    /// All seven.
    pub fn all() -> Vec<Self> {
        outcomes().into_iter().map(Self::Settle).chain([Self::Renew]).collect()
    }

    /// Writes under `claim`.
    pub async fn by(&self, store: &dyn Admin, claim: &Claim) -> Wrote {
        match self {
            Self::Settle(outcome) => match settle(store, claim, outcome.clone()).await {
                Settled::Applied(_) => Wrote::Accepted,
                Settled::AlreadyApplied(_) => Wrote::Repeated,
                Settled::Lost => Wrote::Lost,
            },
            Self::Renew => match renew(store, claim).await {
                Renewed::Held | Renewed::CancelRequested => Wrote::Accepted,
                Renewed::Lost => Wrote::Lost,
            },
        }
    }
}

/// One of each outcome, delayed ones by [`LATER`].
pub fn outcomes() -> [Outcome; 6] {
    [
        Outcome::Done,
        Outcome::Retry { after: LATER, cause: "it failed".into() },
        Outcome::Park { cause: "it failed for good".into() },
        Outcome::Snooze { after: LATER },
        Outcome::Release,
        Outcome::Cancelled { cause: "not wanted".into() },
    ]
}

/// Settles one claim.
pub async fn settle(store: &dyn Admin, claim: &Claim, outcome: Outcome) -> Settled {
    store.settle_one(claim, outcome).await.expect("the store answers")
}

/// Renews one claim for the default lease.
pub async fn renew(store: &dyn Admin, claim: &Claim) -> Renewed {
    let claims = std::slice::from_ref(claim);
    let answers = store.renew(Lease::default(), claims).await.expect("the store answers");
    assert_eq!(answers.len(), 1, "one answer per claim");
    answers[0]
}

/// A reserve of up to `slots` jobs called [`NAME`] from `queue`, by `worker`.
pub fn from_queue(queue: &str, worker: &str, slots: usize) -> Reserve {
    Reserve::new(queue, [NAME], worker).expect("legal").slots(slots)
}

/// Takes exactly `jobs` jobs as `request` says, in as many reserves as it needs: an answer may be
/// short, and another handle's writes may take their time (R6).
pub async fn hold(store: &dyn Admin, request: &Reserve, jobs: usize) -> Vec<Delivery> {
    let mut held: Vec<Delivery> = Vec::new();
    let patience = tokio::time::Instant::now() + PATIENCE;
    while held.len() < jobs {
        let request = request.clone().slots(jobs - held.len()).nonce(jobs_core::Nonce::random());
        let more = store.reserve(&request).await.expect("the store answers").deliveries;
        if more.is_empty() {
            let late = tokio::time::Instant::now() > patience;
            assert!(!late, "{} of {jobs} due jobs were delivered", held.len());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        held.extend(more);
    }
    held
}

/// Expects nothing to take.
pub async fn nothing(store: &dyn Admin, request: &Reserve) {
    let request = request.clone().nonce(jobs_core::Nonce::random());
    let reserved = store.reserve(&request).await.expect("the store answers");
    assert!(reserved.deliveries.is_empty(), "not to be delivered: {:?}", reserved.deliveries);
}

/// Sweeps until there is no more to do.
pub async fn sweep_all(store: &dyn Admin) -> Vec<Lost> {
    let mut lost = Vec::new();
    for _ in 0..1000 {
        let swept = store.sweep().await.expect("the store answers");
        lost.extend(swept.lost);
        if !swept.more {
            return lost;
        }
    }
    panic!("a sweep that always says there is more never ends");
}

/// The record of a job that may be gone, as an operator sees it, without the moment of looking: so
/// two looks at an unchanged job are equal.
pub async fn look(store: &dyn Admin, job: &JobRef) -> Option<JobRecord> {
    let record = store.get(&operator().await, job).await.expect("the store answers");
    record.map(|record| JobRecord { now: Timestamp::UNIX_EPOCH, ..record })
}

/// The record of a job that is there.
pub async fn record(store: &dyn Admin, job: &JobRef) -> JobRecord {
    let record = store.get(&operator().await, job).await.expect("the store answers");
    record.unwrap_or_else(|| panic!("{job} is gone"))
}

/// Where a job is.
pub async fn state(store: &dyn Admin, job: &JobRef) -> State {
    record(store, job).await.view.state
}

/// When a job is or was due.
pub fn due(view: &JobView) -> Timestamp {
    match view.job.run_at {
        jobs_core::job::RunAt::At(at) => at,
        other => panic!("a stored job is due at a time, not {other:?}"),
    }
}

/// An operator's retry of one job.
pub async fn retry(store: &dyn Admin, job: &JobRef) -> Retried {
    let answers = store.retry(&operator().await, std::slice::from_ref(job)).await;
    one(answers.expect("the store answers"))
}

/// An operator's cancel of one job.
pub async fn cancel(store: &dyn Admin, job: &JobRef) -> Cancelled {
    let answers = store.cancel(&operator().await, std::slice::from_ref(job)).await;
    one(answers.expect("the store answers"))
}

/// An operator's delete of one job.
pub async fn delete(store: &dyn Admin, job: &JobRef) -> Deleted {
    let answers = store.delete(&operator().await, std::slice::from_ref(job)).await;
    one(answers.expect("the store answers"))
}

fn one<T>(mut answers: Vec<T>) -> T {
    assert_eq!(answers.len(), 1, "one answer per job");
    answers.remove(0)
}

/// The counts of one lane; one that never had a job counts nothing.
pub async fn lane(store: &dyn Admin, queue: &str, tenant: &str) -> LaneCounts {
    let lanes = Lanes { queue: Some(queue.to_owned()), tenant: Some(tenant.to_owned()) };
    let counts = store.counts(&operator().await, &lanes).await.expect("the store answers");
    assert!(counts.complete && counts.lanes.len() <= 1, "one lane was asked for: {counts:?}");
    let found = counts.lanes.into_iter().next();
    found.unwrap_or_else(|| LaneCounts {
        queue: queue.to_owned(),
        tenant: tenant.to_owned(),
        scheduled: Default::default(),
        waiting: Default::default(),
        running: Default::default(),
        parked: Default::default(),
        oldest: Duration::ZERO,
        settings: Default::default(),
    })
}

/// Every job that `list` finds for an operator, page by page.
pub async fn walk(store: &dyn Admin, list: &List) -> Vec<JobView> {
    let permit = operator().await;
    let mut list = list.clone();
    let mut jobs = Vec::new();
    for _ in 0..10_000 {
        let page = store.list(&permit, &list).await.expect("the store answers");
        assert!(page.jobs.len() <= if list.page == 0 { 100 } else { list.page }, "a page too long");
        assert!(page.complete || page.next.is_some(), "an early end says where to go on");
        jobs.extend(page.jobs);
        list.after = page.next;
        if list.after.is_none() {
            return jobs;
        }
    }
    panic!("a walk of 10,000 pages never ends");
}
