//! The reader: one thread that owns the handle's reading connection, and polls for the commits of
//! others while somebody watches.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use async_trait::async_trait;
use jobs_core::{ErrorKind, Result};
use tokio::sync::{mpsc, oneshot};

use crate::{
    clock::Clock,
    db::{Db, query},
    error::{Fault, LATE},
    glance::Glance,
    options::Options,
    own::Own,
    row::get,
    schema,
    thread::caught,
    wake::Wake,
    writer::{ended, spawn},
};

/// How often others' commits are looked for while somebody watches: 10 ms on average until a wake-up
/// of another process, 0.3 % of a core with all that wakes up for it.
const POLL: Duration = Duration::from_millis(20);

/// How often at least while that fails.
const SELDOM: Duration = Duration::from_secs(1);

/// A consistent reading: all its statements see one snapshot.
pub(crate) struct Reading<'c> {
    pub db: Db<'c>,
    pub now: i64,
}

/// One question, as its file in `op` answers it.
#[async_trait]
pub(crate) trait Read: Send + 'static {
    /// The method's name.
    const NAME: &'static str;
    /// What it answers.
    type Answer: Send + 'static;
    /// Runs it.
    async fn run(&self, reading: &mut Reading<'_>) -> std::result::Result<Self::Answer, Fault>;
}

#[async_trait]
trait Question: Send {
    async fn answer(self: Box<Self>, thread: &mut Thread);
}

struct Typed<R: Read> {
    read: R,
    since: Instant,
    reply: oneshot::Sender<Result<R::Answer>>,
}

#[async_trait]
impl<R: Read + Sync> Question for Typed<R> {
    async fn answer(self: Box<Self>, thread: &mut Thread) {
        if self.reply.is_closed() {
            return;
        }
        let answer = thread.read(&self.read, self.since).await;
        self.reply.send(answer.map_err(|fault| fault.into_error(R::NAME))).ok();
    }
}

/// What was committed until now wakes nobody who begins to watch after it.
struct Catch(oneshot::Sender<()>);

#[async_trait]
impl Question for Catch {
    async fn answer(self: Box<Self>, thread: &mut Thread) {
        thread.poll().await;
        self.0.send(()).ok();
    }
}

/// The sending half. Dropping the last one ends the thread.
#[derive(Clone, Debug)]
pub(crate) struct Reader(mpsc::Sender<Box<dyn Question>>);

impl std::fmt::Debug for dyn Question {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Question")
    }
}

impl Reader {
    pub fn start(options: Arc<Options>, wake: Arc<Wake>, clock: Arc<Clock>) -> Result<Self> {
        let (questions, inbox) = mpsc::channel(256);
        let glance = Glance::of(&options.path);
        spawn("jobs-sqlite-reader", async move {
            Thread { options, wake, clock, glance, conn: None, version: None, failing: None }
                .serve(inbox)
                .await;
        })?;
        Ok(Self(questions))
    }

    /// Takes note of what was committed until now.
    pub async fn catch_up(&self) -> Result<()> {
        let (reply, caught) = oneshot::channel();
        self.0.send(Box::new(Catch(reply))).await.map_err(|_| ended("watch"))?;
        caught.await.map_err(|_| ended("watch"))
    }

    pub async fn ask<R: Read + Sync>(&self, read: R) -> Result<R::Answer> {
        let (reply, answer) = oneshot::channel();
        let question = Box::new(Typed { read, since: Instant::now(), reply });
        self.0.send(question).await.map_err(|_| ended(R::NAME))?;
        answer.await.map_err(|_| ended(R::NAME))?
    }
}

struct Thread {
    options: Arc<Options>,
    wake: Arc<Wake>,
    clock: Arc<Clock>,
    conn: Option<Own>,
    glance: Glance,
    version: Option<i64>,
    /// How long to leave it alone, while polls fail.
    failing: Option<Duration>,
}

impl Thread {
    async fn serve(mut self, mut inbox: mpsc::Receiver<Box<dyn Question>>) {
        // An instant, not a pause after each question: questions without end leave polls their turn.
        let mut next = tokio::time::Instant::now();
        loop {
            let watched = self.wake.is_watched();
            tokio::select! {
                biased;
                () = tokio::time::sleep_until(next), if watched => {
                    if self.conn.is_none() || self.glance.changed() {
                        self.poll().await;
                    }
                    next = tokio::time::Instant::now() + self.failing.unwrap_or(POLL);
                }
                question = inbox.recv() => match question {
                    Some(question) => question.answer(&mut self).await,
                    None => break,
                },
                () = self.wake.watched.notified(), if !watched => {}
            }
        }
    }

    async fn read<R: Read>(
        &mut self,
        read: &R,
        since: Instant,
    ) -> std::result::Result<R::Answer, Fault> {
        let left = self.options.deadline.saturating_sub(since.elapsed());
        if left.is_zero() {
            return Err(LATE);
        }
        let answer = caught(self.snapshot(read, Instant::now() + left)).await;
        if answer.is_err() {
            // A transaction may be open on it.
            self.conn = None;
        }
        answer
    }

    async fn snapshot<R: Read>(
        &mut self,
        read: &R,
        until: Instant,
    ) -> std::result::Result<R::Answer, Fault> {
        let clock = self.clock.clone();
        let own = self.connected()?;
        own.until(until);
        let mut db = own.db(None);
        db.run(query("BEGIN")).await?;
        let row = db.first(query("SELECT clock FROM jobs_meta")).await?;
        let stored: i64 = row.map_or(Ok(0), |row| get(&row, 0))?;
        clock.seen(stored);
        let mut reading = Reading { db, now: stored.max(clock.now()) };
        let answer = read.run(&mut reading).await?;
        reading.db.run(query("COMMIT")).await?;
        Ok(answer)
    }

    fn connected(&mut self) -> std::result::Result<&mut Own, Fault> {
        if self.conn.is_none() {
            (self.conn, self.version) = (Some(schema::reader(&self.options)?), None);
        }
        self.conn.as_mut().ok_or(Fault::Broken(ErrorKind::Unavailable, "no connection"))
    }

    /// Rings for the commits of others. A failure only costs wake-ups, so the first one rings for
    /// all, and the next are seldom.
    async fn poll(&mut self) {
        self.failing = match caught(self.changed()).await {
            Ok(()) => None,
            Err(fault) => {
                self.conn = None;
                if self.failing.is_none() {
                    let error = fault.into_error("watch");
                    tracing::warn!(%error, "wake-ups of other processes are not seen for now");
                    self.wake.ring_all();
                }
                Some((2 * self.failing.unwrap_or(POLL)).min(SELDOM))
            }
        };
    }

    async fn changed(&mut self) -> std::result::Result<(), Fault> {
        let (known, until) = (self.version, Instant::now() + self.options.deadline);
        let own = self.connected()?;
        own.until(until);
        let mut db = own.db(None);
        let row = db.first(query("PRAGMA data_version")).await?;
        let version: i64 = row.map_or(Ok(0), |row| get(&row, 0))?;
        if known == Some(version) {
            return Ok(());
        }
        let rows = db.all(query("SELECT name, wake FROM jobs_queue")).await?;
        let counts = rows.iter().map(|row| Ok((get(row, 0)?, get(row, 1)?)));
        let counts = counts.collect::<std::result::Result<Vec<_>, Fault>>()?;
        self.version = Some(version);
        self.wake.committed(counts);
        Ok(())
    }
}
