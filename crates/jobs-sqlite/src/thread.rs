//! What the writer's thread does: it takes the write lock, forms a group of what waits then, runs it
//! in one transaction and answers all of it.

use std::{
    collections::VecDeque,
    future::{Future, poll_fn},
    mem::take,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::pin,
    sync::Arc,
    task::Poll,
    time::{Duration, Instant},
};

use jobs_core::{AuthorizedJob, Error, ErrorKind};

use crate::{
    clock::Clock,
    db::{Db, query},
    error::{Fault, LATE},
    op::enqueue,
    options::Options,
    own::Own,
    places::Places,
    schema,
    tx::{Tx, finish},
    wake::Wake,
    writer::{Inbox, Message, WAITING, Why, Work},
};

/// Most calls of one transaction, so that no answer waits for long.
const GROUP: usize = 256;
/// Most pushed jobs of one transaction.
const GROUP_JOBS: usize = 1000;
/// Between two looks at a lock that was refused at once.
const PAUSE: Duration = Duration::from_millis(2);
type Outcome<T> = std::result::Result<T, Fault>;

pub(crate) struct Thread {
    options: Arc<Options>,
    wake: Arc<Wake>,
    clock: Arc<Clock>,
    conn: Option<Own>,
    places: Places,
    /// Admitted and not yet run, in order. Those that run alone are in front.
    waiting: VecDeque<Message>,
}

impl Thread {
    pub fn new(
        options: Arc<Options>,
        wake: Arc<Wake>,
        clock: Arc<Clock>,
        conn: Option<Own>,
    ) -> Self {
        Self { options, wake, clock, conn, places: Places::default(), waiting: VecDeque::new() }
    }

    pub async fn serve(mut self, mut inbox: Inbox) {
        loop {
            if self.waiting.is_empty() {
                match inbox.recv().await {
                    Some(message) => self.waiting.push_back(message),
                    None => break,
                }
            }
            self.admit(&mut inbox, None);
            if self.waiting.is_empty() {
                continue;
            }
            if let Err(fault) = self.lock(&mut inbox).await {
                self.conn = None;
                fail(take(&mut self.waiting), fault);
                continue;
            }
            // The group is formed under the lock: of whoever still waits, and came meanwhile.
            self.admit(&mut inbox, None);
            let group = self.group();
            self.run(group).await;
        }
    }

    /// Takes in what came, and lets go of what does not wait any longer: its caller has gone, its
    /// deadline passed, or, where the lock is `busy`, its patience is over.
    fn admit(&mut self, inbox: &mut Inbox, busy: Option<Fault>) {
        while let Some(message) = inbox.next(self.waiting.len() < WAITING) {
            self.waiting.push_back(message);
        }
        let (mut late, mut refused) = (Vec::new(), Vec::new());
        for message in take(&mut self.waiting) {
            let waited = message.since.elapsed();
            if message.is_gone() {
                continue;
            }
            if waited >= self.options.deadline {
                late.push(message);
            } else if busy.is_some() && waited >= message.patience(self.options.busy) {
                refused.push(message);
            } else {
                self.waiting.push_back(message);
            }
        }
        if !late.is_empty() {
            fail(late, LATE);
        }
        if let Some(fault) = busy
            && !refused.is_empty()
        {
            fail(refused, fault);
        }
    }

    /// Takes the write lock, in short steps, as long as somebody waits for it: SQLite's lock is not
    /// fair, and its own handler sleeps up to 100 ms between two looks.
    async fn lock(&mut self, inbox: &mut Inbox) -> Outcome<()> {
        loop {
            let since = Instant::now();
            match self.begin().await {
                Err(fault) if fault.is_busy() => {
                    self.admit(inbox, Some(fault));
                    if self.waiting.is_empty() {
                        return Ok(());
                    }
                    if since.elapsed() < PAUSE {
                        tokio::time::sleep(PAUSE).await;
                    }
                }
                outcome => return outcome,
            }
        }
    }

    async fn begin(&mut self) -> Outcome<()> {
        if self.conn.is_none() {
            self.conn = Some(schema::reopen(&self.options).await?);
            // The file may be another one, restored from a backup.
            self.places.clear();
            // What was committed meanwhile by the lost connection woke nobody.
            self.wake.ring_all();
        }
        if let Some(own) = &self.conn {
            own.until(Instant::now() + self.options.deadline);
        }
        self.db()?.run(query("BEGIN IMMEDIATE")).await.map(drop)
    }

    fn db(&mut self) -> Outcome<Db<'_>> {
        let none = Fault::Broken(ErrorKind::Unavailable, "no connection");
        let conn = self.conn.as_mut().ok_or(none)?;
        Ok(conn.db(self.options.cut.as_deref()))
    }

    /// Whoever runs alone, else calls before pushes: they are a worker's, whose leases run.
    fn group(&mut self) -> Vec<Message> {
        if self.waiting.front().is_some_and(|first| first.alone) {
            return self.waiting.pop_front().into_iter().collect();
        }
        let (pushes, calls): (Vec<_>, Vec<_>) =
            take(&mut self.waiting).into_iter().partition(Message::is_push);
        let (mut group, mut jobs) = (Vec::new(), 0);
        for next in calls.into_iter().chain(pushes) {
            if group.len() < GROUP && jobs < GROUP_JOBS {
                jobs += next.size();
                group.push(next);
            } else {
                self.waiting.push_back(next);
            }
        }
        group
    }

    /// Runs a group in the transaction that is open. If one of it fails, each runs alone and only
    /// that one fails. Rejected: a savepoint per call, two statements more for each of a group.
    async fn run(&mut self, mut group: Vec<Message>) {
        let oldest = group.iter().map(|message| message.since.elapsed()).max();
        let left = self.options.deadline.saturating_sub(oldest.unwrap_or_default());
        if let Some(own) = &self.conn {
            own.until(Instant::now() + left);
        }
        let Err(fault) = caught(self.transaction(&mut group)).await else {
            return group.into_iter().for_each(Message::done);
        };
        self.places.clear();
        let rolled_back = match (&mut self.conn, fault.breaks()) {
            (Some(own), false) => own.batch("ROLLBACK").is_ok(),
            _ => false,
        };
        if !rolled_back {
            // Closing rolls back. The next call opens another one.
            self.conn = None;
        }
        if fault.is_busy() || matches!(fault, Fault::Broken(ErrorKind::Timeout, _)) {
            // Whose own time is over is told when they are looked at next; where one was too slow,
            // it is not the others' fault.
            if !fault.is_busy() {
                group.iter_mut().for_each(|message| message.alone = true);
            }
            self.put_back(group);
            tokio::time::sleep(PAUSE).await;
        } else if group.len() > 1 && fault.is_of_one() {
            group.iter_mut().for_each(|message| message.alone = true);
            self.put_back(group);
        } else {
            if fault.breaks() && !fault.is_of_one() {
                while self.waiting.front().is_some_and(|next| next.alone) {
                    group.extend(self.waiting.pop_front());
                }
            }
            fail(group, fault);
        }
    }

    fn put_back(&mut self, group: Vec<Message>) {
        group.into_iter().rev().for_each(|message| self.waiting.push_front(message));
    }

    async fn transaction(&mut self, group: &mut [Message]) -> Outcome<()> {
        let (cut, retention, now) =
            (self.options.cut.clone(), self.options.retention, self.clock.now());
        let Some(own) = self.conn.as_mut() else { return Ok(()) };
        if group.is_empty() {
            return finish(own.db(cut.as_deref()), false).await;
        }
        let db = own.db(cut.as_deref());
        let mut tx = Tx::open(db, &mut self.places, retention, now).await?;
        self.clock.seen(tx.now);
        all(&mut tx, group).await?;
        let woken = tx.wake().await?;
        let dirty = tx.dirty;
        finish(tx.db, dirty).await?;
        self.wake.committed(woken);
        Ok(())
    }
}

async fn all(tx: &mut Tx<'_>, group: &mut [Message]) -> Outcome<()> {
    let mut rest = group.iter_mut().peekable();
    while let Some(message) = rest.next() {
        match &mut message.work {
            Work::Call(call) => call.run(tx).await?,
            Work::Push(jobs, answers, _) => {
                let mut shared = vec![(jobs, answers)];
                while let Some(next) = rest.next_if(|next| next.is_push()) {
                    if let Work::Push(jobs, answers, _) = &mut next.work {
                        shared.push((jobs, answers));
                    }
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
fn fail(group: impl IntoIterator<Item = Message>, fault: Fault) {
    let first = fault.into_error("write");
    let (kind, text) = (first.kind(), first.to_string());
    let text = text.strip_prefix("write: ").unwrap_or(&text).to_owned();
    let why: Why =
        Arc::new(move |operation| Error::with_source(kind, operation, text.clone(), first.clone()));
    group.into_iter().for_each(|message| message.failed(&why));
}

/// A panic in `work` is an answer: the thread, and everybody else's calls, live on.
pub(crate) async fn caught<T>(work: impl Future<Output = Outcome<T>>) -> Outcome<T> {
    let mut work = pin!(work);
    poll_fn(move |context| {
        let poll = AssertUnwindSafe(|| work.as_mut().poll(context));
        catch_unwind(poll).unwrap_or_else(|_| Poll::Ready(Err(Fault::Panicked)))
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_panic_is_an_internal_error() {
        let panics = async { panic!("a bug") };
        let fault = caught::<()>(panics).await.unwrap_err();
        assert!(fault.breaks() && fault.is_of_one());
        assert_eq!(fault.into_error("reserve").kind(), ErrorKind::Internal);
    }
}
