//! Wake-ups (N1): at once inside a handle, by a change stream across handles and processes.
//!
//! A push counts up one small document of its handle and queue, every 50 ms at most and outside of everybody's
//! transaction; each process watches that one collection by one stream, because every stream reads
//! the whole of the set's log. An event comes once a majority has the write. After a gap the stream is
//! opened again, and everybody who watches is woken once.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, PoisonError, Weak},
    time::Duration,
};

use futures::StreamExt;
use jobs_core::wake::{Bell, Watch};
use mongodb::bson::{Document, doc};
use tokio::{
    sync::watch,
    task::JoinHandle,
    time::{Instant, sleep, sleep_until, timeout},
};
use uuid::Uuid;

use crate::{db::Db, error::Fault, frontier::Frontier, row::text};

/// Between two notes of one handle.
const DEBOUNCE: Duration = Duration::from_millis(50);
/// How long the stream may take to open.
const PATIENCE: Duration = Duration::from_secs(5);
/// Between two attempts to open it: the first, and the longest.
const AGAIN: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));

/// What a handle's calls, its notes and its stream share.
#[derive(Debug)]
pub(crate) struct Wake {
    bell: Bell,
    /// Tells a handle's own notes from others'.
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

/// The stream's task; it ends with the last watcher.
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
        // A document of the handle's own: what another counted up in the meantime hides nothing.
        let note = |queue: &String| {
            let count = doc! { "$inc": { "count": 1_i64 }, "$currentDate": { "at": true } };
            doc! { "q": { "_id": format!("{queue}/{}", self.own) }, "u": count, "upsert": true }
        };
        let updates: Vec<Document> = queues.iter().map(note).collect();
        let update = doc! { "update": db.name("wake"), "updates": updates, "ordered": false };
        // A case of the suite cuts the calls' connections, not this one's.
        let sent = async {
            let mut command = update;
            command.insert("writeConcern", doc! { "w": 1, "j": false });
            db.database()?.run_command(command).await?;
            Ok::<_, Fault>(())
        };
        match timeout(PATIENCE, sent).await {
            Ok(Ok(())) => {}
            lost => tracing::debug!(?lost, "a wake-up is lost; polling finds the jobs"),
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
        if !db.options.listen {
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
        // What is pushed from now on is heard; where that fails, polling finds it.
        let mut heard = listening.heard.clone();
        timeout(PATIENCE, heard.wait_for(|heard| *heard)).await.ok();
        Watch::new(receivers, Some(listening))
    }
}

/// Lets the next note be sent, also when its runtime ends in between.
struct Sending(Arc<Wake>);

impl Drop for Sending {
    fn drop(&mut self) {
        let mut outbox = self.0.outbox.lock().unwrap_or_else(PoisonError::into_inner);
        if outbox.queues.is_empty() || outbox.sending {
            outbox.sending = false;
        }
    }
}

async fn listen(wake: Arc<Wake>, db: Arc<Db>, frontier: Arc<Frontier>, ready: watch::Sender<bool>) {
    let mut wait = AGAIN.0;
    loop {
        let heard = async {
            let notes = db.database()?.collection::<Document>(&db.name("wake"));
            let pushed = doc! { "$match": { "operationType": { "$ne": "delete" } } };
            let stream = notes.watch().pipeline([pushed]);
            let stream = timeout(PATIENCE, async { stream.await }).await;
            let mut stream = stream.map_err(|_| crate::error::LATE)??;
            wait = AGAIN.0;
            frontier.forget();
            if *ready.borrow() {
                wake.bell.ring_all();
            }
            ready.send_replace(true);
            // The crate opens it again where it broke, after the last event that it had.
            while let Some(event) = stream.next().await {
                let event = event?;
                let key = event.document_key.as_ref().and_then(|key| text(key, "_id"));
                let Some((queue, by)) = key.as_deref().and_then(|key| key.split_once('/')) else {
                    continue;
                };
                if by != wake.own {
                    frontier.forget_queue(queue);
                    wake.bell.ring(queue);
                }
            }
            Ok::<_, Fault>(())
        };
        if let Err(fault) = heard.await {
            tracing::debug!(?fault, "not listening for wake-ups; polling goes on");
        }
        frontier.forget();
        wake.bell.ring_all();
        sleep(wait).await;
        wait = (2 * wait).min(AGAIN.1);
    }
}
