//! Stage: wake-ups. Listens to the store's hints and passes them on; nothing waits for it (N1).

use std::{rc::Rc, time::Duration};

use tokio::time::sleep;

use crate::{
    retry::jittered,
    worker::{call::call, config::POLL, shared::Shared},
};

/// Without a wake-up the poll interval remains, so a slow answer is worth little.
const OPENS_WITHIN: Duration = Duration::from_secs(2);

/// Listens.
pub(crate) struct Listener {
    pub shared: Rc<Shared>,
}

impl Listener {
    /// Listens until dropped.
    pub async fn run(self) {
        let shared = &self.shared;
        let queues = shared.config.queue_names();
        loop {
            match call(OPENS_WITHIN, "watch", shared.store.watch(&queues)).await {
                Ok(mut watch) => loop {
                    // Once when it is there, because of what was pushed since the last reserve.
                    shared.poke.set(true);
                    shared.work.notify_one();
                    watch.woken().await;
                },
                Err(error) => {
                    shared.metrics.store_error(&error);
                    tracing::warn!(%error, "no wake-ups for now");
                    sleep(jittered(POLL.1)).await;
                }
            }
        }
    }
}
