//! The writer: one thread that owns the handle's one writing connection.
//!
//! Whatever waits goes into one transaction, and one commit answers all of it: durability costs a
//! sync per group, not per call. A thread with a runtime of its own, because it must be bound to
//! no caller's: a handle outlives runtimes, a dropped call must not leave a transaction open, and
//! a blocked application must never sit inside one. It ends with the last clone of its handle.

use std::{
    future::Future,
    sync::Arc,
    time::{Duration, Instant},
};

use async_trait::async_trait;
use jobs_core::{AuthorizedJob, Error, ErrorKind, Result, queue::Pushed};
use sqlx::{Connection, SqliteConnection, query};
use tokio::sync::{mpsc, oneshot};

use crate::{
    db::{Cut, Db},
    error::Fault,
    op::enqueue,
    options::Options,
    schema,
    tx::{Places, Tx, finish},
    wake::Wake,
};

/// Most calls of one transaction, so that no answer waits for long.
const GROUP: usize = 256;
/// Most pushed jobs of one transaction.
const GROUP_JOBS: usize = 1000;
/// How long a push waits for another's transaction (P3): a request handler waits with it.
const PUSH_PATIENCE: Duration = Duration::from_secs(2);
/// Calls that may wait; a caller beyond them waits to be admitted.
const WAITING: usize = 1024;

/// One write, as its file in `op` does it.
#[async_trait]
pub(crate) trait Write: Send + 'static {
    /// The method's name.
    const NAME: &'static str;
    /// What it answers once committed.
    type Answer: Send + 'static;
    /// Runs it; repeated alone when its group failed.
    async fn run(&self, tx: &mut Tx<'_>) -> std::result::Result<Self::Answer, Fault>;
}

/// One failure, under the name of the call that is told.
type Why = Arc<dyn Fn(&'static str) -> Error + Send + Sync>;

/// A write and whom to answer.
struct Typed<W: Write> {
    write: W,
    answer: Option<W::Answer>,
    reply: oneshot::Sender<Result<W::Answer>>,
}

#[async_trait]
trait Call: Send {
    async fn run(&mut self, tx: &mut Tx<'_>) -> std::result::Result<(), Fault>;
    fn done(self: Box<Self>);
    fn failed(self: Box<Self>, why: Why);
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
        self.reply.send(Err(why(W::NAME))).ok();
    }
}

/// Pushes are told apart, because adjacent ones share statements.
enum Message {
    Push(Vec<AuthorizedJob>, Vec<Pushed>, oneshot::Sender<Result<Vec<Pushed>>>),
    Call(Box<dyn Call>),
}

impl Message {
    fn is_push(&self) -> bool {
        matches!(self, Self::Push(..))
    }

    fn done(self) {
        match self {
            Self::Push(_, answers, reply) => drop(reply.send(Ok(answers))),
            Self::Call(call) => call.done(),
        }
    }

    fn failed(self, why: &Why) {
        match self {
            Self::Push(_, _, reply) => drop(reply.send(Err(why("enqueue")))),
            Self::Call(call) => call.failed(why.clone()),
        }
    }
}

/// The sending half. Dropping the last one ends the thread.
#[derive(Clone, Debug)]
pub(crate) struct Writer(mpsc::Sender<Message>);

impl Writer {
    /// Opens the file, migrates it, and starts the thread.
    pub async fn start(options: Arc<Options>, wake: Arc<Wake>) -> Result<Self> {
        let (calls, inbox) = mpsc::channel(WAITING);
        let (ready, started) = oneshot::channel();
        spawn("jobs-sqlite-writer", async move {
            let opened = schema::open(&options).await;
            let (conn, outcome) = match opened {
                Ok(conn) => (Some(conn), Ok(())),
                Err(error) => (None, Err(error)),
            };
            let failed = outcome.is_err();
            if ready.send(outcome).is_ok() && !failed {
                Thread { options, wake, conn, places: Places::new() }.serve(inbox).await;
            }
        })?;
        started.await.map_err(|_| ended("connect"))??;
        Ok(Self(calls))
    }

    /// Runs `write` in a transaction and answers once it is committed.
    pub async fn call<W: Write + Sync>(&self, write: W) -> Result<W::Answer> {
        let (reply, answer) = oneshot::channel();
        let call = Box::new(Typed { write, answer: None, reply });
        self.0.send(Message::Call(call)).await.map_err(|_| ended(W::NAME))?;
        answer.await.map_err(|_| ended(W::NAME))?
    }

    /// Stores jobs, in one transaction with whatever else waits.
    pub async fn push(&self, jobs: &[AuthorizedJob]) -> Result<Vec<Pushed>> {
        let (reply, answer) = oneshot::channel();
        let push = Message::Push(jobs.to_vec(), Vec::new(), reply);
        self.0.send(push).await.map_err(|_| ended("enqueue"))?;
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

fn ended(operation: &'static str) -> Error {
    Error::new(ErrorKind::Unavailable, operation, "this handle's thread has ended: connect again")
}

struct Thread {
    options: Arc<Options>,
    wake: Arc<Wake>,
    conn: Option<SqliteConnection>,
    places: Places,
}

impl Thread {
    async fn serve(mut self, mut inbox: mpsc::Receiver<Message>) {
        let size = |message: &Message| match message {
            Message::Push(jobs, ..) => jobs.len(),
            Message::Call(_) => 1,
        };
        while let Some(first) = inbox.recv().await {
            let mut jobs = size(&first);
            let mut group = vec![first];
            while group.len() < GROUP
                && jobs < GROUP_JOBS
                && let Ok(next) = inbox.try_recv()
            {
                jobs += size(&next);
                group.push(next);
            }
            self.answer(group).await;
        }
        if let Some(conn) = self.conn.take() {
            conn.close().await.ok();
        }
    }

    /// Runs a group in one transaction. If one of it fails, each runs alone and only that one
    /// fails. Rejected: a savepoint per call, two statements more for each of a group.
    async fn answer(&mut self, mut group: Vec<Message>) {
        match self.attempt(&mut group).await {
            Ok(()) => group.into_iter().for_each(Message::done),
            Err(fault) if fault.is_busy() && group.iter().any(Message::is_push) => {
                let (pushes, rest): (Vec<_>, _) = group.into_iter().partition(Message::is_push);
                fail(pushes, fault);
                if !rest.is_empty() {
                    Box::pin(self.answer(rest)).await;
                }
            }
            Err(fault) if group.len() == 1 || fault.breaks() || fault.is_busy() => {
                fail(group, fault);
            }
            Err(_) => {
                for message in group {
                    let mut alone = vec![message];
                    match self.attempt(&mut alone).await {
                        Ok(()) => alone.into_iter().for_each(Message::done),
                        Err(fault) => fail(alone, fault),
                    }
                }
            }
        }
    }

    async fn attempt(&mut self, group: &mut [Message]) -> std::result::Result<(), Fault> {
        let deadline = self.options.deadline;
        let late = Fault::Broken(ErrorKind::Timeout, "the call's deadline passed: try again");
        let outcome =
            tokio::time::timeout(deadline, self.transaction(group)).await.unwrap_or(Err(late));
        if let Err(fault) = &outcome {
            self.places.clear();
            let rolled_back = match (&mut self.conn, fault.breaks()) {
                (Some(conn), false) => query("ROLLBACK").execute(conn).await.is_ok(),
                _ => false,
            };
            if !rolled_back && !fault.is_busy() {
                // Closing rolls back. The next call opens another one.
                self.conn = None;
            }
        }
        outcome
    }

    async fn transaction(&mut self, group: &mut [Message]) -> std::result::Result<(), Fault> {
        if self.conn.is_none() {
            self.conn = Some(schema::reopen(&self.options).await?);
            // What was committed meanwhile by the lost connection woke nobody.
            self.wake.ring_all();
        }
        let Some(conn) = self.conn.as_mut() else {
            return Err(Fault::Broken(ErrorKind::Unavailable, "no connection"));
        };
        let cut = self.options.cut.as_deref();
        let patience = match group.iter().any(Message::is_push) {
            true => PUSH_PATIENCE.min(self.options.busy),
            false => self.options.busy,
        };
        begin(conn, cut, patience).await?;
        let db = Db { conn: &mut *conn, cut };
        let mut tx = Tx::open(db, &mut self.places, self.options.retention).await?;
        run(&mut tx, group).await?;
        let woken = tx.wake().await?;
        let dirty = tx.dirty;
        finish(conn, cut, dirty).await?;
        self.wake.committed(woken);
        Ok(())
    }
}

/// Takes the write lock, in short steps: SQLite's lock is not fair, and its own handler sleeps up to
/// 100 ms between two looks.
async fn begin(
    conn: &mut SqliteConnection,
    cut: Option<&Cut>,
    patience: Duration,
) -> std::result::Result<(), Fault> {
    let since = Instant::now();
    loop {
        match (Db { conn: &mut *conn, cut }).run(query("BEGIN IMMEDIATE")).await {
            Err(fault) if fault.is_busy() && since.elapsed() < patience => {}
            outcome => return outcome.map(drop),
        }
    }
}

async fn run(tx: &mut Tx<'_>, group: &mut [Message]) -> std::result::Result<(), Fault> {
    let mut rest = group.iter_mut().peekable();
    while let Some(message) = rest.next() {
        match message {
            Message::Call(call) => call.run(tx).await?,
            Message::Push(jobs, answers, _) => {
                let mut shared = vec![(jobs, answers)];
                while let Some(Message::Push(jobs, answers, _)) =
                    rest.next_if(|next| matches!(next, Message::Push(..)))
                {
                    shared.push((jobs, answers));
                }
                let all: Vec<&AuthorizedJob> = shared.iter().flat_map(|(j, _)| j.iter()).collect();
                let mut pushed = enqueue::run(tx, &all).await?.into_iter();
                for (jobs, answers) in shared {
                    *answers = pushed.by_ref().take(jobs.len()).collect();
                }
            }
        }
    }
    Ok(())
}

/// Gives everybody the same failure under the name of his own call.
fn fail(group: Vec<Message>, fault: Fault) {
    let first = fault.into_error("write");
    let (kind, text) = (first.kind(), first.to_string());
    let text = text.strip_prefix("write: ").unwrap_or(&text).to_owned();
    let why: Why =
        Arc::new(move |operation| Error::with_source(kind, operation, text.clone(), first.clone()));
    group.into_iter().for_each(|message| message.failed(&why));
}
