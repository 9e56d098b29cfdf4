//! G3: a refused push does no I/O, on whatever store: it never reaches one.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use jobs_core::{
    AuthorizedJob, Claim, Job, PushError, Queue, QueueExt, Result, Settled, Settlement,
    async_trait,
    grant::grant_without_user,
    queue::{Lease, Pushed, Renewed, Reserve, Reserved, Swept, Worker},
    wake::Watch,
};

/// Counts the calls of `enqueue`; nothing else is expected.
#[derive(Debug, Default)]
struct Counting(AtomicUsize);

#[async_trait]
impl Queue for Counting {
    async fn enqueue(&self, jobs: &[AuthorizedJob]) -> Vec<Result<Pushed>> {
        self.0.fetch_add(1, Ordering::Relaxed);
        jobs.iter().map(|_| Ok(Pushed::Stored)).collect()
    }
    async fn reserve(&self, _: &Reserve) -> Result<Reserved> {
        unreachable!("not a push")
    }
    async fn renew(&self, _: Lease, _: &[Claim]) -> Result<Vec<Renewed>> {
        unreachable!("not a push")
    }
    async fn settle(&self, _: &[Settlement]) -> Result<Vec<Settled>> {
        unreachable!("not a push")
    }
    async fn settle_and_reserve(
        &self,
        _: &[Settlement],
        _: &Reserve,
    ) -> Result<(Vec<Settled>, Reserved)> {
        unreachable!("not a push")
    }
    async fn sweep(&self) -> Result<Swept> {
        unreachable!("not a push")
    }
    async fn watch(&self, _: &[String]) -> Result<Watch> {
        unreachable!("not a push")
    }
    async fn announce(&self, _: &Worker) -> Result<()> {
        unreachable!("not a push")
    }
    async fn open_own(&self) -> Result<Arc<dyn Queue>> {
        unreachable!("not a push")
    }
}

#[tokio::test]
async fn g3_a_refused_push_never_reaches_the_store() {
    let store = Counting::default();
    let grant = grant_without_user("suite", "work.do", "acme").unwrap();
    let good = || Job::new(&grant, "noop", &()).unwrap();
    let forged = || Job { tenant: "globex".to_owned(), ..good() };
    let refused = store.push(&grant, forged()).await;
    assert!(matches!(refused, Err(PushError::Refused(_))));
    let refused = store.push_many(&grant, [forged(), forged().priority(101)]).await;
    assert!(matches!(refused.as_slice(), [Err(PushError::Refused(_)), Err(PushError::Refused(_))]));
    assert!(store.push_many(&grant, Vec::<Job>::new()).await.is_empty());
    assert_eq!(store.0.load(Ordering::Relaxed), 0, "a refused push reached the store");
    let mixed = store.push_many(&grant, [good(), forged(), good()]).await;
    assert!(matches!(
        mixed.as_slice(),
        [Ok(Pushed::Stored), Err(PushError::Refused(_)), Ok(Pushed::Stored)]
    ));
    assert_eq!(store.0.load(Ordering::Relaxed), 1, "one call for all that were accepted");
}
