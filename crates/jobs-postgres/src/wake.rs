//! Wake-ups (N1): at once inside a handle, by NOTIFY across handles and processes.
//!
//! A NOTIFY takes a lock that all notifying transactions of the server share, from before their commit
//! until after it; so none is ever inside a transaction that stores something, and a handle sends one
//! every 50 ms at most, whatever it pushed. It is received on a connection of its own, probed every
//! 10 s because a silent cut looks like no news; after any error it is made again, and everybody who
//! watches is woken once.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, PoisonError, Weak},
    time::Duration,
};

use jobs_core::wake::{Bell, Watch};
use sqlx::postgres::{PgListener, PgPoolOptions};
use tokio::{
    runtime::Handle,
    sync::watch,
    task::JoinHandle,
    time::{Instant, sleep, sleep_until, timeout},
};
use uuid::Uuid;

use crate::{
    db::{Args, Db},
    frontier::Frontier,
};

/// Between two notifications of one handle.
const DEBOUNCE: Duration = Duration::from_millis(50);
/// What is due later than this, in milliseconds, wakes nobody elsewhere. A worker of up to six queues
/// looks at each of them before that, and says then when it is due; to one of more, a sweep tells.
const SOON: i64 = 10_000;
/// Between two probes of the listening connection.
const PROBE: Duration = Duration::from_secs(10);
/// How long its answer may take.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long a watcher waits to be heard: what is pushed before that wakes it later, and a worker gives
/// up after two seconds.
const OPENS_WITHIN: Duration = Duration::from_secs(1);
/// Between two attempts to listen again: the first, and the longest.
const AGAIN: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));

/// What a handle's calls, its notifier and its listener share.
#[derive(Debug)]
pub(crate) struct Wake {
    bell: Bell,
    /// Tells a handle's own notifications from others'.
    own: String,
    outbox: Mutex<Outbox>,
    listening: Mutex<Weak<Listening>>,
}

#[derive(Debug, Default)]
struct Outbox {
    queues: BTreeSet<String>,
    sending: bool,
    sent: Option<Instant>,
}

/// The listener's task; it ends with the last watcher.
#[derive(Debug)]
struct Listening {
    task: JoinHandle<()>,
    stage: Arc<watch::Sender<Stage>>,
}

/// How far a listener is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Connecting,
    /// And somebody goes on without it, who is woken once it listens.
    Late,
    Listening,
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Default for Wake {
    fn default() -> Self {
        Self {
            bell: Bell::default(),
            own: Uuid::new_v4().simple().to_string(),
            outbox: Mutex::default(),
            listening: Mutex::default(),
        }
    }
}

impl Wake {
    /// Wakes whoever watches these queues, of each of which the first job is due at this instant: here at
    /// once, and elsewhere soon where that is soon. A retry in a minute is nobody else's business yet.
    pub fn tell_of(
        self: &Arc<Self>,
        db: &Arc<Db>,
        now: i64,
        queues: impl IntoIterator<Item = (String, i64)>,
    ) {
        let due_soon = |(queue, due): (String, i64)| {
            let soon = due <= now.saturating_add(SOON);
            if !soon {
                self.bell.ring(&queue);
            }
            soon.then_some(queue)
        };
        let soon: Vec<String> = queues.into_iter().filter_map(due_soon).collect();
        self.tell(db, soon);
    }

    /// Wakes whoever watches these queues, here at once and elsewhere soon. Nothing is lost but time
    /// when the runtime ends before that.
    pub fn tell(self: &Arc<Self>, db: &Arc<Db>, queues: impl IntoIterator<Item = String>) {
        let mut outbox = self.outbox.lock().unwrap_or_else(PoisonError::into_inner);
        for queue in queues {
            self.bell.ring(&queue);
            outbox.queues.insert(queue);
        }
        if outbox.sending || outbox.queues.is_empty() || !db.options.tells {
            return;
        }
        // Off a runtime, as after a caller's own transaction, the next call that is on one sends it.
        let Ok(runtime) = Handle::try_current() else { return };
        outbox.sending = true;
        let at = outbox.sent.map(|sent| sent + DEBOUNCE);
        let sending = Sending(Some(self.clone()));
        let (wake, db) = (self.clone(), db.clone());
        runtime.spawn(async move {
            if let Some(at) = at {
                sleep_until(at).await;
            }
            let queues = sending.begin();
            wake.send(&db, queues).await;
        });
    }

    async fn send(&self, db: &Db, queues: BTreeSet<String>) {
        let mut payload = self.own.clone();
        for queue in &queues {
            // A payload has room for 7,999 bytes; beyond that everybody is woken.
            if payload.len() + queue.len() > 7900 {
                payload = format!("{} *", self.own);
                break;
            }
            payload.push(' ');
            payload.push_str(queue);
        }
        let channel = channel(db);
        let bind = |args: &mut Args| {
            args.add(channel.as_str())?;
            args.add(payload.as_str())
        };
        if let Err(error) = db.call("wake", "SELECT pg_notify($1, $2)", bind).await {
            tracing::debug!(%error, "a wake-up is lost; polling finds the jobs");
        }
    }

    /// A wake-up for `queues`, listening already.
    pub async fn watch(
        self: &Arc<Self>,
        db: &Arc<Db>,
        frontier: &Arc<Frontier>,
        queues: &[String],
    ) -> Watch {
        let receivers = self.bell.watch(queues);
        if db.options.listener().is_none() {
            return Watch::new(receivers, None);
        }
        let listening = {
            let mut listening = self.listening.lock().unwrap_or_else(PoisonError::into_inner);
            match listening.upgrade().filter(|listening| !listening.task.is_finished()) {
                Some(running) => running,
                None => {
                    let stage = Arc::new(watch::Sender::new(Stage::Connecting));
                    let listener =
                        listen(self.clone(), db.clone(), frontier.clone(), stage.clone());
                    let started = Arc::new(Listening { task: tokio::spawn(listener), stage });
                    *listening = Arc::downgrade(&started);
                    started
                }
            }
        };
        // What is pushed from now on is heard. Where that takes longer, polling finds it, and what is
        // pushed on this handle wakes all the same.
        let mut heard = listening.stage.subscribe();
        let heard = heard.wait_for(|stage| *stage == Stage::Listening);
        if timeout(OPENS_WITHIN, heard).await.is_err() {
            listening.stage.send_if_modified(|stage| {
                let connecting = *stage == Stage::Connecting;
                *stage = if connecting { Stage::Late } else { *stage };
                connecting
            });
        }
        Watch::new(receivers, Some(listening))
    }

    fn hear(&self, frontier: &Frontier, payload: &str) {
        let mut words = payload.split(' ');
        if words.next() == Some(self.own.as_str()) {
            return;
        }
        for queue in words {
            if queue == "*" {
                frontier.forget();
                self.bell.ring_all();
            } else {
                frontier.forget_queue(queue);
                self.bell.ring(queue);
            }
        }
    }
}

/// A notification that waits for its moment. Dropped before that, as when its runtime ends, it lets the
/// next one be sent.
struct Sending(Option<Arc<Wake>>);

impl Sending {
    /// What it says; from here on the next one waits for a moment of its own.
    fn begin(mut self) -> BTreeSet<String> {
        let Some(wake) = self.0.take() else { return BTreeSet::new() };
        let mut outbox = wake.outbox.lock().unwrap_or_else(PoisonError::into_inner);
        outbox.sent = Some(Instant::now());
        outbox.sending = false;
        std::mem::take(&mut outbox.queues)
    }
}

impl Drop for Sending {
    fn drop(&mut self) {
        if let Some(wake) = &self.0 {
            let mut outbox = wake.outbox.lock().unwrap_or_else(PoisonError::into_inner);
            outbox.sending = false;
        }
    }
}

/// One for each schema.
fn channel(db: &Db) -> String {
    format!("{}_wake", db.options.schema)
}

async fn listen(
    wake: Arc<Wake>,
    db: Arc<Db>,
    frontier: Arc<Frontier>,
    stage: Arc<watch::Sender<Stage>>,
) {
    let Some(options) = db.options.listener() else { return };
    let mut wait = AGAIN.0;
    loop {
        let pool = PgPoolOptions::new().max_connections(1).connect_lazy_with(options.clone());
        let heard = async {
            let mut listener = timeout(PATIENCE, PgListener::connect_with(&pool)).await??;
            listener.ignore_pool_close_event(true);
            timeout(PATIENCE, listener.listen(&channel(&db))).await??;
            wait = AGAIN.0;
            frontier.forget();
            if stage.send_replace(Stage::Listening) != Stage::Connecting {
                wake.bell.ring_all();
            }
            loop {
                match timeout(PROBE, listener.try_recv()).await {
                    Ok(Ok(Some(news))) => wake.hear(&frontier, news.payload()),
                    Ok(Ok(None)) => return Ok(()),
                    Ok(Err(error)) => return Err(Gone::Sql(error)),
                    Err(_) => {
                        let probe = sqlx::query("SELECT 1").execute(&mut listener);
                        timeout(PATIENCE, probe).await??;
                    }
                }
            }
        };
        let ended: Result<(), Gone> = heard.await;
        if let Err(error) = ended {
            tracing::debug!(?error, "not listening for wake-ups; polling goes on");
        }
        frontier.forget();
        wake.bell.ring_all();
        sleep(wait).await;
        wait = (2 * wait).min(AGAIN.1);
    }
}

/// Why it does not listen any more.
#[derive(Debug)]
#[expect(dead_code, reason = "shown in the log by Debug")]
enum Gone {
    Sql(sqlx::Error),
    Late,
}

impl From<sqlx::Error> for Gone {
    fn from(error: sqlx::Error) -> Self {
        Self::Sql(error)
    }
}

impl From<tokio::time::error::Elapsed> for Gone {
    fn from(_: tokio::time::error::Elapsed) -> Self {
        Self::Late
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_notification_that_never_began_lets_the_next_one_go() {
        let wake = Arc::new(Wake::default());
        let outbox = || wake.outbox.lock().expect("not poisoned");
        outbox().sending = true;
        drop(Sending(Some(wake.clone())));
        assert!(!outbox().sending, "its runtime ended while it waited");
        outbox().sending = true;
        outbox().queues.insert("work".to_owned());
        let said = Sending(Some(wake.clone())).begin();
        assert_eq!((said.len(), outbox().sending), (1, false));
        // Told while the first is on its way: one more waits for its moment.
        outbox().sending = true;
        drop(said);
        assert!(outbox().sending, "it is not sent twice");
    }
}
