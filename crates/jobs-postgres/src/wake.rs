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
/// Between two probes of the listening connection.
const PROBE: Duration = Duration::from_secs(10);
/// How long its answer may take.
const PATIENCE: Duration = Duration::from_secs(5);
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
    heard: watch::Receiver<bool>,
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
    /// Wakes whoever watches these queues, here at once and elsewhere soon. Nothing is lost but time
    /// when the runtime ends before that.
    pub fn tell(self: &Arc<Self>, db: &Arc<Db>, queues: impl IntoIterator<Item = String>) {
        let mut outbox = self.outbox.lock().unwrap_or_else(PoisonError::into_inner);
        for queue in queues {
            self.bell.ring(&queue);
            outbox.queues.insert(queue);
        }
        if outbox.sending || outbox.queues.is_empty() {
            return;
        }
        outbox.sending = true;
        let at = outbox.sent.map(|sent| sent + DEBOUNCE);
        let sending = Sending(self.clone());
        let db = db.clone();
        tokio::spawn(async move {
            if let Some(at) = at {
                sleep_until(at).await;
            }
            sending.0.send(&db).await;
            drop(sending);
        });
    }

    async fn send(&self, db: &Db) {
        let queues = {
            let mut outbox = self.outbox.lock().unwrap_or_else(PoisonError::into_inner);
            outbox.sent = Some(Instant::now());
            outbox.sending = false;
            std::mem::take(&mut outbox.queues)
        };
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
                    let (ready, heard) = watch::channel(false);
                    let listener = listen(self.clone(), db.clone(), frontier.clone(), ready);
                    let started = Arc::new(Listening { task: tokio::spawn(listener), heard });
                    *listening = Arc::downgrade(&started);
                    started
                }
            }
        };
        // What is pushed from now on is heard; where listening fails, polling finds it.
        let mut heard = listening.heard.clone();
        timeout(PATIENCE, heard.wait_for(|heard| *heard)).await.ok();
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

/// Lets the next notification be sent, also when its runtime ends in between.
struct Sending(Arc<Wake>);

impl Drop for Sending {
    fn drop(&mut self) {
        let mut outbox = self.0.outbox.lock().unwrap_or_else(PoisonError::into_inner);
        if outbox.queues.is_empty() || outbox.sending {
            outbox.sending = false;
        }
    }
}

/// One for each schema.
fn channel(db: &Db) -> String {
    format!("{}_wake", db.options.schema)
}

async fn listen(wake: Arc<Wake>, db: Arc<Db>, frontier: Arc<Frontier>, ready: watch::Sender<bool>) {
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
            if *ready.borrow() {
                wake.bell.ring_all();
            }
            ready.send_replace(true);
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
