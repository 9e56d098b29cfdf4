//! Wake-ups (N1): at once inside a handle, by sharded publish across handles and processes.
//!
//! The script that stores a job publishes, in its shard's slot, at most once per queue in 50 ms: the
//! first at once. What comes in the 50 ms after it says nothing, so a listener looks a second time when
//! they are over.

use std::{
    sync::{Arc, Mutex, PoisonError, Weak},
    time::Duration,
};

use fred::interfaces::{EventInterface, PubsubInterface};
use jobs_core::wake::{Bell, Watch};
use tokio::{
    sync::{broadcast::error::RecvError, watch},
    task::JoinHandle,
    time::{sleep, timeout},
};

use crate::{client::Own, db::Db, error::Fault, keys::key};

/// A little longer than a publisher is silent.
const SECOND_LOOK: Duration = Duration::from_millis(55);
/// How long the subscription may take.
const PATIENCE: Duration = Duration::from_secs(5);
/// Between two attempts: the first, and the longest.
const AGAIN: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));

/// What a handle's calls and its listener share.
#[derive(Debug, Default)]
pub(crate) struct Wake {
    bell: Bell,
    listening: Mutex<Weak<Listening>>,
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

impl Wake {
    /// Wakes who watches these queues through this handle; scripts tell the others.
    pub fn tell<'a>(&self, queues: impl IntoIterator<Item = &'a str>) {
        queues.into_iter().for_each(|queue| self.bell.ring(queue));
    }

    /// A wake-up for `queues`, listening already.
    pub async fn watch(self: &Arc<Self>, db: &Arc<Db>, queues: &[String]) -> Watch {
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
                    let task = tokio::spawn(listen(self.clone(), db.clone(), ready));
                    let started = Arc::new(Listening { task, heard });
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

async fn listen(wake: Arc<Wake>, db: Arc<Db>, ready: watch::Sender<bool>) {
    let mut wait = AGAIN.0;
    loop {
        let heard = async {
            let own = Own::connect(db.builder().build_subscriber_client()?).await?;
            let client = &own.client;
            let _resubscribes = Aborts(client.manage_subscriptions());
            let (mut messages, mut again) = (client.message_rx(), client.reconnect_rx());
            for shard in 0..db.shards().await? {
                client.ssubscribe(key(&db.options.prefix, shard, "wake")).await?;
            }
            wait = AGAIN.0;
            if *ready.borrow() {
                wake.bell.ring_all();
            }
            ready.send_replace(true);
            loop {
                let message = tokio::select! {
                    message = messages.recv() => message,
                    // What was missed meanwhile is unknown.
                    server = again.recv() => {
                        wake.bell.ring_all();
                        if matches!(server, Err(RecvError::Closed)) {
                            return Ok::<_, Fault>(());
                        }
                        continue;
                    }
                };
                match message {
                    Ok(message) => {
                        let Some(queue) = message.value.as_string() else { continue };
                        wake.bell.ring(&queue);
                        let wake = wake.clone();
                        tokio::spawn(async move {
                            sleep(SECOND_LOOK).await;
                            wake.bell.ring(&queue);
                        });
                    }
                    Err(RecvError::Lagged(_)) => wake.bell.ring_all(),
                    Err(RecvError::Closed) => return Ok(()),
                }
            }
        };
        if let Err(fault) = heard.await {
            tracing::debug!(?fault, "not listening for wake-ups; polling goes on");
        }
        wake.bell.ring_all();
        sleep(wait).await;
        wait = (2 * wait).min(AGAIN.1);
    }
}

/// A task that ends with its owner.
struct Aborts(JoinHandle<()>);

impl Drop for Aborts {
    fn drop(&mut self) {
        self.0.abort();
    }
}
