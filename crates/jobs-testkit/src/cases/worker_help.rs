//! Help for whole-worker cases: a typed job, a store that fails on command, waiting for events.

use std::{
    collections::HashMap,
    fmt,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use async_trait::async_trait;
use jobs_core::{
    Admin, AuthorizedJob, Claim, Error, ErrorKind, Job, JobType, Queue, Result, Settled,
    Settlement, State, Worker,
    queue::{self, Lease, Pushed, Renewed, Reserve, Reserved, Swept},
    view::JobRecord,
    wake::Watch,
};

use crate::kit::{QUEUE, grant, permit};

/// The job of these cases: a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Work(pub u64);

impl JobType for Work {
    const NAME: &'static str = crate::kit::NAME;
    const QUEUE: &'static str = QUEUE;
}

/// The shortest lease there is.
pub fn short() -> Lease {
    Lease::new(Duration::from_secs(1)).expect("legal")
}

/// One of several seconds, where a job has to keep it: a busy machine may be late with a renewal by more
/// than the shortest lease allows.
pub fn kept() -> Lease {
    Lease::new(Duration::from_secs(3)).expect("legal")
}

/// A worker on `store` and [`QUEUE`].
pub fn worker(store: impl Queue) -> Worker {
    Worker::new(store).label("suite").queue(QUEUE, 1)
}

/// A job of `tenant`.
pub fn work(tenant: &str, number: u64) -> Job {
    Job::of(&grant(tenant), &Work(number)).expect("a number is JSON")
}

/// The stored job.
pub async fn look(store: &dyn Admin, job: &Job) -> JobRecord {
    let found = store.get(&permit(&job.tenant), &job.job_ref()).await.expect("the store answers");
    found.expect("the job is stored")
}

/// Its state.
pub async fn state(store: &dyn Admin, job: &Job) -> State {
    look(store, job).await.view.state
}

/// Waits until `met`, and fails with `what` after a minute.
pub async fn until<F: Future<Output = bool>>(what: &str, met: impl Fn() -> F) {
    let start = Instant::now();
    while !met().await {
        assert!(start.elapsed() < Duration::from_secs(60), "not within a minute: {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// How often each job ran.
#[derive(Clone, Debug, Default)]
pub struct Tally(Arc<Mutex<HashMap<u64, usize>>>);

impl Tally {
    /// One more run; answers which.
    pub fn ran(&self, number: u64) -> usize {
        let mut runs = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let run = runs.entry(number).or_default();
        *run += 1;
        *run
    }

    /// Runs of one job.
    pub fn of(&self, number: u64) -> usize {
        let runs = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        runs.get(&number).copied().unwrap_or_default()
    }

    /// Jobs that ran.
    pub fn jobs(&self) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Runs of all jobs.
    pub fn runs(&self) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).values().sum()
    }
}

/// A store that fails on command, and counts calls. Its own handles obey the same commands.
#[derive(Clone, Debug)]
pub struct Flaky {
    inner: Arc<dyn Queue>,
    pub switch: Arc<Switch>,
}

/// The commands.
#[derive(Default)]
pub struct Switch {
    /// Every call fails.
    pub off: AtomicBool,
    /// Every call that comes while this is set never answers.
    pub hangs: AtomicBool,
    /// Calls of this method never answer.
    pub hung: Mutex<&'static str>,
    /// So many renewals fail.
    pub renewals: AtomicUsize,
    /// So many calls happen, and their replies are lost.
    pub cuts: AtomicUsize,
    /// So many settlements are answered without their last answer.
    pub short: AtomicUsize,
    /// So many reserves answer no jobs and that some are due at once, as where others have the turn.
    pub unsaid: AtomicUsize,
    /// The next reserve that takes something is answered so much later.
    pub late: Mutex<Duration>,
    /// Calls so far, by method.
    pub calls: Mutex<HashMap<&'static str, usize>>,
    /// The largest reserve so far: slots and ahead.
    pub asked: Mutex<(usize, usize)>,
}

impl fmt::Debug for Switch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Switch")
    }
}

impl Switch {
    /// Calls of these methods so far.
    pub fn count(&self, methods: &[&str]) -> usize {
        let calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        methods.iter().filter_map(|method| calls.get(method)).sum()
    }

    async fn enter(&self, method: &'static str) -> Result<()> {
        *self.calls.lock().unwrap_or_else(PoisonError::into_inner).entry(method).or_default() += 1;
        let hung = *self.hung.lock().unwrap_or_else(PoisonError::into_inner) == method;
        if hung || self.hangs.load(Ordering::SeqCst) {
            std::future::pending::<()>().await;
        }
        if self.off.load(Ordering::SeqCst) || (method == "renew" && take_one(&self.renewals)) {
            return Err(Error::new(ErrorKind::Unavailable, method, "the store is off"));
        }
        Ok(())
    }

    async fn hold_back(&self, reserved: &Reserved) {
        if !reserved.deliveries.is_empty() {
            let late =
                std::mem::take(&mut *self.late.lock().unwrap_or_else(PoisonError::into_inner));
            tokio::time::sleep(late).await;
        }
    }

    fn leave<T>(&self, method: &'static str, answer: T) -> Result<T> {
        if take_one(&self.cuts) {
            return Err(Error::new(ErrorKind::Unavailable, method, "the reply was lost"));
        }
        Ok(answer)
    }
}

fn take_one(left: &AtomicUsize) -> bool {
    left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok()
}

impl Flaky {
    /// Over `store`.
    pub fn new(store: impl Queue) -> Self {
        Self { inner: Arc::new(store), switch: Arc::default() }
    }
}

#[async_trait]
impl Queue for Flaky {
    async fn enqueue(&self, jobs: &[AuthorizedJob]) -> Vec<Result<Pushed>> {
        match self.switch.enter("enqueue").await {
            Ok(()) => self.inner.enqueue(jobs).await,
            Err(error) => jobs.iter().map(|_| Err(error.clone())).collect(),
        }
    }
    async fn reserve(&self, request: &Reserve) -> Result<Reserved> {
        self.switch.enter("reserve").await?;
        self.saw(request);
        if take_one(&self.switch.unsaid) {
            return Ok(Reserved { next_due: Some(Duration::ZERO), ..Reserved::default() });
        }
        let answer = self.inner.reserve(request).await?;
        self.switch.hold_back(&answer).await;
        self.switch.leave("reserve", answer)
    }
    async fn renew(&self, lease: Lease, claims: &[Claim]) -> Result<Vec<Renewed>> {
        self.switch.enter("renew").await?;
        self.inner.renew(lease, claims).await
    }
    async fn settle(&self, settlements: &[Settlement]) -> Result<Vec<Settled>> {
        self.switch.enter("settle").await?;
        let mut answer = self.inner.settle(settlements).await?;
        if take_one(&self.switch.short) {
            answer.pop();
        }
        self.switch.leave("settle", answer)
    }
    async fn settle_and_reserve(
        &self,
        settlements: &[Settlement],
        request: &Reserve,
    ) -> Result<(Vec<Settled>, Reserved)> {
        self.switch.enter("settle_and_reserve").await?;
        self.saw(request);
        let mut answer = self.inner.settle_and_reserve(settlements, request).await?;
        self.switch.hold_back(&answer.1).await;
        if take_one(&self.switch.short) {
            answer.0.pop();
        }
        self.switch.leave("settle_and_reserve", answer)
    }
    fn settles_apart(&self) -> bool {
        self.inner.settles_apart()
    }
    async fn sweep(&self) -> Result<Swept> {
        self.switch.enter("sweep").await?;
        self.inner.sweep().await
    }
    async fn watch(&self, queues: &[String]) -> Result<Watch> {
        self.switch.enter("watch").await?;
        self.inner.watch(queues).await
    }
    async fn announce(&self, worker: &queue::Worker) -> Result<()> {
        self.switch.enter("announce").await?;
        self.inner.announce(worker).await
    }
    async fn open_own(&self) -> Result<Arc<dyn Queue>> {
        let inner = self.inner.open_own().await?;
        Ok(Arc::new(Self { inner, switch: self.switch.clone() }))
    }
}

impl Flaky {
    fn saw(&self, request: &Reserve) {
        let mut asked = self.switch.asked.lock().unwrap_or_else(PoisonError::into_inner);
        asked.0 = asked.0.max(request.free_slots());
        asked.1 = asked.1.max(request.held_ahead());
    }
}

/// Runs `body` on a runtime of its own, on a thread of its own: an application that a case may
/// block. `threads` 0 is a runtime of one thread.
pub fn elsewhere<T: Send + 'static, F: Future<Output = T> + 'static>(
    threads: usize,
    body: impl FnOnce() -> F + Send + 'static,
) -> std::thread::JoinHandle<T> {
    std::thread::spawn(move || {
        let mut builder = match threads {
            0 => tokio::runtime::Builder::new_current_thread(),
            _ => tokio::runtime::Builder::new_multi_thread(),
        };
        let runtime = builder.worker_threads(threads.max(1)).enable_all().build();
        runtime.expect("a runtime").block_on(body())
    })
}

/// A gate that blocks threads until it is opened.
#[derive(Clone, Debug, Default)]
pub struct Gate(Arc<(Mutex<bool>, std::sync::Condvar)>);

impl Gate {
    /// Blocks this thread until it is open.
    pub fn block(&self) {
        let (open, opened) = &*self.0;
        let mut open = open.lock().unwrap_or_else(PoisonError::into_inner);
        while !*open {
            open = opened.wait(open).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Opens it for good.
    pub fn open(&self) {
        *self.0.0.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.0.1.notify_all();
    }
}

/// Pushes jobs of one tenant and expects them stored.
pub async fn push_all(store: &dyn Admin, jobs: &[Job]) {
    let Some(first) = jobs.first() else { return };
    let pushed = jobs_core::QueueExt::push_many(store, &grant(&first.tenant), jobs.to_vec()).await;
    for answer in pushed {
        assert_eq!(answer.expect("the store answers"), Pushed::Stored);
    }
}
