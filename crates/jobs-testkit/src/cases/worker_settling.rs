//! Cases: the stop comes while a settlement is under way.

use std::sync::{Arc, Mutex, PoisonError};

use jobs_core::{
    AuthorizedJob, Claim, Error, ErrorKind, Queue, Result, Settled, Settlement, State, async_trait,
    queue::{self, Lease, Pushed, Renewed, Reserve, Reserved, Swept},
    wake::Watch,
    worker::{Context, Failure},
};
use tokio::sync::Semaphore;

use super::worker_help::{Tally, Work, look, push_all, work, worker};
use crate::kit::Kit;

super::cases![k8_a_settlement_under_way_counts, k8_a_settlement_whose_reply_is_lost_counts,];

async fn k8_a_settlement_under_way_counts(kit: &Kit) {
    stop_while_settling(kit, Reply::Late).await;
}

async fn k8_a_settlement_whose_reply_is_lost_counts(kit: &Kit) {
    stop_while_settling(kit, Reply::Lost).await;
}

/// Stops once the store has taken the first settlement and before the worker knows.
async fn stop_while_settling(kit: &Kit, reply: Reply) {
    let store = kit.handle().await;
    let jobs = [work("acme", 1), work("acme", 2)];
    push_all(&*store, &jobs).await;
    let tally = Tally::default();
    let runs = tally.clone();
    let held = Held { inner: Arc::new(store.clone()), hold: Arc::new(Hold::new(reply)) };
    let hold = held.hold.clone();
    let handler = move |_: Context, Work(number): Work| {
        runs.ran(number);
        async { Ok::<(), Failure>(()) }
    };
    let stop = async {
        let taken = hold.taken.acquire().await.expect("it is never closed");
        taken.forget();
        hold.answer.add_permits(1);
    };
    let ended = worker(held).concurrency(1).handle(handler).run_until(stop).await;
    let ended = ended.expect("it starts");
    assert_eq!((ended.exit_code(), ended.left, ended.stuck), (0, 0, 0));
    for (job, number) in jobs.iter().zip([1, 2]) {
        let view = look(&*store, job).await.view;
        match tally.of(number) {
            0 => assert_eq!((view.state, view.attempt), (State::Ready, 0), "unspent"),
            1 => assert_eq!((view.state, view.attempt), (State::Done, 1), "what ran is done"),
            more => panic!("job {number} ran {more} times"),
        }
    }
    assert!(tally.runs() > 0);
}

/// What becomes of the first settlement's reply, once it may go.
#[derive(Clone, Copy, Debug)]
enum Reply {
    Late,
    Lost,
}

#[derive(Debug)]
struct Hold {
    /// Given once the store has taken the first settlement.
    taken: Semaphore,
    /// Awaited before its reply goes.
    answer: Semaphore,
    reply: Mutex<Option<Reply>>,
}

impl Hold {
    fn new(reply: Reply) -> Self {
        let reply = Mutex::new(Some(reply));
        Self { taken: Semaphore::new(0), answer: Semaphore::new(0), reply }
    }

    async fn settled(&self, settlements: usize) -> Result<()> {
        if settlements == 0 {
            return Ok(());
        }
        let Some(reply) = self.reply.lock().unwrap_or_else(PoisonError::into_inner).take() else {
            return Ok(());
        };
        self.taken.add_permits(1);
        self.answer.acquire().await.expect("it is never closed").forget();
        match reply {
            Reply::Late => Ok(()),
            Reply::Lost => Err(Error::new(ErrorKind::Unavailable, "settle", "the reply was lost")),
        }
    }
}

/// A store whose first reply to a settlement is held back.
#[derive(Clone, Debug)]
struct Held {
    inner: Arc<dyn Queue>,
    hold: Arc<Hold>,
}

#[async_trait]
impl Queue for Held {
    async fn enqueue(&self, jobs: &[AuthorizedJob]) -> Vec<Result<Pushed>> {
        self.inner.enqueue(jobs).await
    }
    async fn reserve(&self, request: &Reserve) -> Result<Reserved> {
        self.inner.reserve(request).await
    }
    async fn renew(&self, lease: Lease, claims: &[Claim]) -> Result<Vec<Renewed>> {
        self.inner.renew(lease, claims).await
    }
    async fn settle(&self, settlements: &[Settlement]) -> Result<Vec<Settled>> {
        let answers = self.inner.settle(settlements).await?;
        self.hold.settled(settlements.len()).await?;
        Ok(answers)
    }
    async fn settle_and_reserve(
        &self,
        settlements: &[Settlement],
        request: &Reserve,
    ) -> Result<(Vec<Settled>, Reserved)> {
        let answers = self.inner.settle_and_reserve(settlements, request).await?;
        self.hold.settled(settlements.len()).await?;
        Ok(answers)
    }
    fn settles_apart(&self) -> bool {
        self.inner.settles_apart()
    }
    async fn sweep(&self) -> Result<Swept> {
        self.inner.sweep().await
    }
    async fn watch(&self, queues: &[String]) -> Result<Watch> {
        self.inner.watch(queues).await
    }
    async fn announce(&self, worker: &queue::Worker) -> Result<()> {
        self.inner.announce(worker).await
    }
    async fn open_own(&self) -> Result<Arc<dyn Queue>> {
        Ok(Arc::new(Self { inner: self.inner.open_own().await?, hold: self.hold.clone() }))
    }
}
