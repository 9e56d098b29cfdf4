//! Stage: announce. Tells operators that this worker lives, and when it leaves.

use std::{rc::Rc, time::Duration};

use tokio::time::{Instant, sleep};

use crate::{
    queue,
    worker::{
        call::call,
        config::{ANNOUNCE, CALL},
        shared::Shared,
    },
};

/// A goodbye is a courtesy: silence says the same a minute later.
const GOODBYE: Duration = Duration::from_secs(2);

/// Announces.
pub(crate) struct Announcer {
    pub shared: Rc<Shared>,
}

impl Announcer {
    /// Announces at once and then every 10 s, until dropped.
    pub async fn run(self) {
        loop {
            self.once(false, CALL).await;
            sleep(ANNOUNCE).await;
        }
    }

    /// Says goodbye.
    pub async fn leave(shared: Rc<Shared>) {
        Self { shared }.once(true, GOODBYE).await;
    }

    async fn once(&self, leaving: bool, limit: Duration) {
        let shared = &self.shared;
        let worker = {
            let table = shared.table.borrow();
            queue::Worker {
                id: shared.id,
                label: shared.config.label.clone(),
                queues: shared.config.queue_names(),
                names: shared.config.names(),
                slots: u32::try_from(shared.config.concurrency).unwrap_or(u32::MAX),
                busy: u32::try_from(table.slots.len()).unwrap_or(u32::MAX),
                stuck: u32::try_from(table.stuck(Instant::now())).unwrap_or(u32::MAX),
                leaving,
            }
        };
        if let Err(error) = call(limit, "announce", shared.store.announce(&worker)).await {
            shared.metrics.store_error(&error);
            tracing::debug!(%error, "an announcement failed");
        }
    }
}
