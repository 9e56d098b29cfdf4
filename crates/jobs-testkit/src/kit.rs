//! What a case gets: its own namespace, handles on it, grants, and shorthands.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use jobs_core::{
    Admin, AuthorizedJob, Grant, Job, Policy, QueueExt, authorized,
    grant::{Denied, grant_without_user},
    permit::{Permit, Verb},
    queue::{Delivery, Lease, Pushed, Reserve},
    retention::Retention,
};

use crate::fixture::Fixture;

/// The queue that most cases use.
pub const QUEUE: &str = "work";
/// The job name that most cases use.
pub const NAME: &str = "noop";
/// The action that most cases push under.
pub const ACTION: &str = "work.do";

/// A case's own namespace.
pub struct Kit {
    /// The store under test.
    pub fixture: Arc<dyn Fixture>,
    /// This case's namespace.
    pub namespace: String,
}

impl Kit {
    /// For the case of this name, in a namespace that no other run has.
    pub fn new(fixture: Arc<dyn Fixture>, case: &str) -> Self {
        static RUN: AtomicU32 = AtomicU32::new(0);
        let (run, process) = (RUN.fetch_add(1, Ordering::Relaxed), std::process::id());
        let namespace = format!("{}_{process}_{run}", &case[..case.len().min(20)]);
        Self { fixture, namespace }
    }

    /// A handle, as a process has.
    pub async fn handle(&self) -> Arc<dyn Admin> {
        self.handle_keeping(Retention::default()).await
    }

    /// A handle that keeps history so.
    pub async fn handle_keeping(&self, retention: Retention) -> Arc<dyn Admin> {
        self.fixture.make(&self.namespace, retention).await
    }

    /// Lets `by` go by in the store.
    pub async fn age(&self, by: Duration) {
        self.fixture.age(&self.namespace, by).await;
    }

    /// Lets `seconds` go by in the store.
    pub async fn age_secs(&self, seconds: u64) {
        self.age(Duration::from_secs(seconds)).await;
    }
}

/// A Grant to push [`ACTION`] in `tenant`.
pub fn grant(tenant: &str) -> Grant {
    grant_without_user("suite", ACTION, tenant).expect("a legal tenant")
}

/// A tenant's permit, for the verb that the callee wants.
pub fn permit<V: Verb>(tenant: &str) -> Permit<V> {
    let grant = grant_without_user("suite", V::ACTION, tenant).expect("a legal tenant");
    grant.permit().expect("a Grant for that action")
}

/// A policy that allows everything to everybody, operators included.
pub struct Open;

impl Policy for Open {
    async fn allows(&self, _: &str, _: &str, _: &str) -> Result<(), Denied> {
        Ok(())
    }

    async fn allows_operator(&self, _: &str, _: &str) -> Result<(), Denied> {
        Ok(())
    }
}

/// An operator's permit, by subject `ops`.
pub async fn operator<V: Verb>() -> Permit<V> {
    let grant = Open.authorize_operator("ops", V::ACTION).await.expect("the policy is open");
    grant.permit().expect("a Grant for that action")
}

/// A job called [`NAME`] on [`QUEUE`].
pub fn job(tenant: &str) -> Job {
    Job::new(&grant(tenant), NAME, &()).expect("null is JSON").on(QUEUE)
}

/// The job, checked against its tenant's Grant.
pub fn checked(job: Job) -> AuthorizedJob {
    authorized(&grant(&job.tenant), job).expect("a legal job")
}

/// Pushes `job` under its tenant's Grant and expects it stored.
pub async fn push(store: &dyn Admin, job: Job) -> Job {
    let pushed = store.push(&grant(&job.tenant), job.clone()).await;
    assert_eq!(pushed.expect("the store answers"), Pushed::Stored, "{:?}", job.id);
    job
}

/// A reserve of up to `slots` jobs called [`NAME`] from [`QUEUE`], under a lease of 20 s.
pub fn wants(slots: usize) -> Reserve {
    Reserve::new(QUEUE, [NAME], "suite").expect("legal").slots(slots).lease(Lease::default())
}

/// Reserves up to `slots` jobs.
pub async fn take(store: &dyn Admin, slots: usize) -> Vec<Delivery> {
    store.reserve(&wants(slots)).await.expect("the store answers").deliveries
}

/// Reserves one job and expects it there.
pub async fn take_one(store: &dyn Admin) -> Delivery {
    let mut deliveries = take(store, 1).await;
    assert_eq!(deliveries.len(), 1, "one job is due");
    deliveries.remove(0)
}
