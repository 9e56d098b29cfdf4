//! The writer: one thread that owns the handle's one writing connection.
//!
//! Whatever waits goes into one transaction, and one commit answers all of it: durability costs a
//! sync per group, not per call. A thread with a runtime of its own, because it must be bound to
//! no caller's: a handle outlives runtimes, a dropped call must not leave a transaction open, and
//! a blocked application must never sit inside one. What the thread does is in `thread.rs`. It ends with the last clone of its handle.

use std::{
    future::Future,
    sync::Arc,
    time::{Duration, Instant},
};

use async_trait::async_trait;
use jobs_core::{AuthorizedJob, Error, ErrorKind, Result, queue::Pushed};
use tokio::sync::{mpsc, oneshot};

use crate::{
    clock::Clock, error::Fault, options::Options, schema, thread::Thread, tx::Tx, wake::Wake,
};

/// How long a push waits for another's transaction (P3): a request handler waits with it.
const PUSH_PATIENCE: Duration = Duration::from_secs(2);
/// Calls that may wait; a caller beyond them waits to be admitted.
pub(crate) const WAITING: usize = 1024;

/// One write, as its file in `op` does it.
#[async_trait]
pub(crate) trait Write: Send + 'static {
    /// The method's name.
    const NAME: &'static str;
    /// What it answers once committed.
    type Answer: Send + 'static;
    /// The name under which its failures are told.
    fn name(&self) -> &'static str {
        Self::NAME
    }
    /// Runs it; repeated alone when its group failed.
    async fn run(&self, tx: &mut Tx<'_>) -> std::result::Result<Self::Answer, Fault>;
}

/// One failure, under the name of the call that is told.
pub(crate) type Why = Arc<dyn Fn(&'static str) -> Error + Send + Sync>;

/// A write and whom to answer.
struct Typed<W: Write> {
    write: W,
    answer: Option<W::Answer>,
    reply: oneshot::Sender<Result<W::Answer>>,
}

/// A write of any kind.
#[async_trait]
pub(crate) trait Call: Send {
    async fn run(&mut self, tx: &mut Tx<'_>) -> std::result::Result<(), Fault>;
    fn done(self: Box<Self>);
    fn failed(self: Box<Self>, why: Why);
    fn is_gone(&self) -> bool;
}

#[async_trait]
impl<W: Write + Sync> Call for Typed<W> {
    async fn run(&mut self, tx: &mut Tx<'_>) -> std::result::Result<(), Fault> {
        self.answer = Some(self.write.run(tx).await?);
        Ok(())
    }

    fn done(self: Box<Self>) {
        if let Some(answer) = self.answer {
            // Nobody listens any more: the caller was dropped, the write happened.
            self.reply.send(Ok(answer)).ok();
        }
    }

    fn failed(self: Box<Self>, why: Why) {
        self.reply.send(Err(why(self.write.name()))).ok();
    }

    fn is_gone(&self) -> bool {
        self.reply.is_closed()
    }
}

/// Pushes are told apart, because adjacent ones share statements.
pub(crate) enum Work {
    Push(Vec<AuthorizedJob>, Vec<Pushed>, oneshot::Sender<Result<Vec<Pushed>>>),
    Call(Box<dyn Call>),
}

/// A call that waits for its turn.
pub(crate) struct Message {
    /// When it was made: deadline and patience count from here, the channel included.
    pub since: Instant,
    /// A group with it failed: it runs by itself, so that only the faulty one of them fails.
    pub alone: bool,
    pub work: Work,
}

impl Message {
    fn new(work: Work) -> Self {
        Self { since: Instant::now(), alone: false, work }
    }

    pub fn is_push(&self) -> bool {
        matches!(self.work, Work::Push(..))
    }

    /// How many jobs it counts for in a group.
    pub fn size(&self) -> usize {
        match &self.work {
            Work::Push(jobs, ..) => jobs.len(),
            Work::Call(_) => 1,
        }
    }

    /// How long it waits for another's transaction.
    pub fn patience(&self, busy: Duration) -> Duration {
        if self.is_push() { PUSH_PATIENCE.min(busy) } else { busy }
    }

    /// Its caller was dropped. It is not run then: a reserve whose nonce nobody repeats would hold
    /// jobs for nobody until their lease ends. A dropped push may be stored or not.
    pub fn is_gone(&self) -> bool {
        match &self.work {
            Work::Push(_, _, reply) => reply.is_closed(),
            Work::Call(call) => call.is_gone(),
        }
    }

    pub fn done(self) {
        match self.work {
            Work::Push(_, answers, reply) => drop(reply.send(Ok(answers))),
            Work::Call(call) => call.done(),
        }
    }

    pub fn failed(self, why: &Why) {
        match self.work {
            Work::Push(_, _, reply) => drop(reply.send(Err(why("enqueue")))),
            Work::Call(call) => call.failed(why.clone()),
        }
    }
}

/// What the thread is asked. Pushes have a line of their own: a renewal does not wait behind the ten
/// thousand jobs of a fan-out of its process. Those of another process it meets at the file's lock.
pub(crate) struct Inbox {
    calls: mpsc::Receiver<Message>,
    pushes: mpsc::Receiver<Message>,
}

impl Inbox {
    /// The next, or `None` when nobody can ask any more.
    pub async fn recv(&mut self) -> Option<Message> {
        tokio::select! {
            biased;
            Some(call) = self.calls.recv() => Some(call),
            Some(push) = self.pushes.recv() => Some(push),
            else => None,
        }
    }

    /// One that is here already, a push only where there is `room` for it.
    pub fn next(&mut self, room: bool) -> Option<Message> {
        let call = self.calls.try_recv().ok();
        call.or_else(|| if room { self.pushes.try_recv().ok() } else { None })
    }
}

/// The sending half. Dropping the last one ends the thread.
#[derive(Clone, Debug)]
pub(crate) struct Writer {
    calls: mpsc::Sender<Message>,
    pushes: mpsc::Sender<Message>,
}

impl Writer {
    /// Opens the file, migrates it, and starts the thread.
    pub async fn start(options: Arc<Options>, wake: Arc<Wake>, clock: Arc<Clock>) -> Result<Self> {
        let (calls, first) = mpsc::channel(WAITING);
        let (pushes, second) = mpsc::channel(WAITING);
        let inbox = Inbox { calls: first, pushes: second };
        let (ready, started) = oneshot::channel();
        spawn("jobs-sqlite-writer", async move {
            let opened = schema::open(&options).await;
            let (conn, outcome) = match opened {
                Ok(conn) => (Some(conn), Ok(())),
                Err(error) => (None, Err(error)),
            };
            let failed = outcome.is_err();
            if ready.send(outcome).is_ok() && !failed {
                Thread::new(options, wake, clock, conn).serve(inbox).await;
            }
        })?;
        started.await.map_err(|_| ended("connect"))??;
        Ok(Self { calls, pushes })
    }

    /// Runs `write` in a transaction and answers once it is committed.
    pub async fn call<W: Write + Sync>(&self, write: W) -> Result<W::Answer> {
        let (reply, answer) = oneshot::channel();
        let name = write.name();
        let call = Work::Call(Box::new(Typed { write, answer: None, reply }));
        self.calls.send(Message::new(call)).await.map_err(|_| ended(name))?;
        answer.await.map_err(|_| ended(name))?
    }

    /// Stores jobs, in one transaction with whatever else waits.
    pub async fn push(&self, jobs: &[AuthorizedJob]) -> Result<Vec<Pushed>> {
        let (reply, answer) = oneshot::channel();
        let push = Message::new(Work::Push(jobs.to_vec(), Vec::new(), reply));
        self.pushes.send(push).await.map_err(|_| ended("enqueue"))?;
        answer.await.map_err(|_| ended("enqueue"))?
    }
}

/// Runs `work` on a named thread with a runtime of its own.
pub(crate) fn spawn(name: &str, work: impl Future<Output = ()> + Send + 'static) -> Result<()> {
    let run = move || {
        match tokio::runtime::Builder::new_current_thread().enable_time().build() {
            Ok(runtime) => runtime.block_on(work),
            // Its reply channels are dropped, which their callers see.
            Err(error) => tracing::error!(%error, "no runtime for a thread of jobs-sqlite"),
        }
    };
    let spawned = std::thread::Builder::new().name(name.to_owned()).spawn(run);
    let failed = |error| {
        Error::with_source(ErrorKind::Unavailable, "connect", "no thread could be started", error)
    };
    spawned.map(drop).map_err(failed)
}

/// The thread is gone, and with it everything of this handle.
pub(crate) fn ended(operation: &'static str) -> Error {
    Error::new(ErrorKind::Unavailable, operation, "this handle's thread has ended: connect again")
}
