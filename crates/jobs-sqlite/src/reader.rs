//! The reader: one thread that owns the handle's reading connection, and polls for the commits of
//! others while somebody watches.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use jobs_core::{Error, ErrorKind, Result};
use sqlx::{SqliteConnection, query};
use tokio::sync::{mpsc, oneshot};

use crate::{
    db::Db, error::Fault, options::Options, row::get, schema, tx::system_now, wake::Wake,
    writer::spawn,
};

/// How often `data_version` is looked at while somebody watches: 10 ms on average until a wake-up
/// of another process, 0.2 % of a core.
const POLL: Duration = Duration::from_millis(20);

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

struct Typed<R: Read>(R, oneshot::Sender<Result<R::Answer>>);

#[async_trait]
impl<R: Read + Sync> Question for Typed<R> {
    async fn answer(self: Box<Self>, thread: &mut Thread) {
        let answer = thread.read(&self.0).await;
        self.1.send(answer.map_err(|fault| fault.into_error(R::NAME))).ok();
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
    pub fn start(options: Arc<Options>, wake: Arc<Wake>) -> Result<Self> {
        let (questions, inbox) = mpsc::channel(256);
        spawn("jobs-sqlite-reader", async move {
            Thread { options, wake, conn: None, version: None }.serve(inbox).await;
        })?;
        Ok(Self(questions))
    }

    /// Takes note of what was committed until now.
    pub async fn catch_up(&self) -> Result<()> {
        let ended = |what| Error::new(ErrorKind::Unavailable, "watch", what);
        let (reply, caught) = oneshot::channel();
        let sent = self.0.send(Box::new(Catch(reply))).await;
        sent.map_err(|_| ended("this handle's thread has ended: connect again"))?;
        caught.await.map_err(|_| ended("this handle's thread has ended: connect again"))
    }

    pub async fn ask<R: Read + Sync>(&self, read: R) -> Result<R::Answer> {
        let ended = || {
            let what = "this handle's thread has ended: connect again";
            Error::new(ErrorKind::Unavailable, R::NAME, what)
        };
        let (reply, answer) = oneshot::channel();
        self.0.send(Box::new(Typed(read, reply))).await.map_err(|_| ended())?;
        answer.await.map_err(|_| ended())?
    }
}

struct Thread {
    options: Arc<Options>,
    wake: Arc<Wake>,
    conn: Option<SqliteConnection>,
    version: Option<i64>,
}

impl Thread {
    async fn serve(mut self, mut inbox: mpsc::Receiver<Box<dyn Question>>) {
        loop {
            let watched = self.wake.is_watched();
            tokio::select! {
                biased;
                question = inbox.recv() => match question {
                    Some(question) => question.answer(&mut self).await,
                    None => break,
                },
                () = tokio::time::sleep(POLL), if watched => self.poll().await,
                () = self.wake.watched.notified(), if !watched => {}
            }
        }
        schema::close(self.conn.take()).await;
    }

    async fn read<R: Read>(&mut self, read: &R) -> std::result::Result<R::Answer, Fault> {
        let late = Fault::Broken(ErrorKind::Timeout, "the call's deadline passed: try again");
        let deadline = self.options.deadline;
        let answer = tokio::time::timeout(deadline, self.snapshot(read)).await;
        let answer = answer.unwrap_or(Err(late));
        if answer.is_err() {
            // A transaction may be open on it.
            self.conn = None;
        }
        answer
    }

    async fn snapshot<R: Read>(&mut self, read: &R) -> std::result::Result<R::Answer, Fault> {
        let conn = self.connected().await?;
        let mut db = Db { conn, cut: None };
        db.run(query("BEGIN")).await?;
        let row = db.first(query("SELECT clock FROM jobs_meta")).await?;
        let clock: i64 = row.map_or(Ok(0), |row| get(&row, 0))?;
        let mut reading = Reading { db, now: clock.max(system_now()) };
        let answer = read.run(&mut reading).await?;
        reading.db.run(query("COMMIT")).await?;
        Ok(answer)
    }

    async fn connected(&mut self) -> std::result::Result<&mut SqliteConnection, Fault> {
        if self.conn.is_none() {
            (self.conn, self.version) = (Some(schema::reader(&self.options).await?), None);
        }
        self.conn.as_mut().ok_or(Fault::Broken(ErrorKind::Unavailable, "no connection"))
    }

    /// Rings for the commits of others. A failure only costs a wake-up, so it rings for all.
    async fn poll(&mut self) {
        if self.changed().await.is_err() {
            self.conn = None;
            self.wake.ring_all();
            tokio::time::sleep(POLL).await;
        }
    }

    async fn changed(&mut self) -> std::result::Result<(), Fault> {
        let known = self.version;
        let conn = self.connected().await?;
        let mut db = Db { conn, cut: None };
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
