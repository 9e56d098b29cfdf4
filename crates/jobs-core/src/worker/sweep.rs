//! Stage: sweep. Any worker takes back what another one lost; needs no handler and no leader.

use std::rc::Rc;

use tokio::time::{Instant, sleep};

use crate::{
    retry::jittered,
    worker::{
        call::{Retry, call},
        config::{CALL, SWEEP},
        shared::Shared,
    },
};

/// Sweeps in a row. A store that always has more must not make this a busy loop.
const MOST: usize = 200;

/// Sweeps.
pub(crate) struct Sweeper {
    pub shared: Rc<Shared>,
}

impl Sweeper {
    /// Sweeps at once and then every 5 s, until dropped.
    pub async fn run(self) {
        let mut retry = Retry::new();
        loop {
            if !self.shared.stop.is_cancelled() && !self.once(&mut retry).await {
                tokio::time::sleep_until(retry.at).await;
                continue;
            }
            sleep(jittered(SWEEP)).await;
        }
    }

    /// Sweeps until nothing is left to do, or often enough for once; `false` when the store failed.
    async fn once(&self, retry: &mut Retry) -> bool {
        for _ in 0..MOST {
            if self.shared.stop.is_cancelled() {
                break;
            }
            let swept = match call(CALL, "sweep", self.shared.store.sweep()).await {
                Ok(swept) => swept,
                Err(error) => {
                    self.shared.metrics.store_error(&error);
                    retry.failed(&error);
                    return false;
                }
            };
            retry.worked();
            for lost in &swept.lost {
                let (name, job, state) = (&lost.name, &lost.job, lost.state);
                tracing::warn!(name, %job, attempt = lost.attempt, %state, "a lost job is back");
                self.shared.table.borrow_mut().found(job);
            }
            self.shared.metrics.swept(swept.lost.len());
            if swept.promoted > 0 || !swept.lost.is_empty() {
                self.shared.active.set(Instant::now());
                self.shared.poke.set(true);
                self.shared.work.notify_one();
            }
            if !swept.more {
                if !self.shared.swept.replace(true) {
                    self.shared.work.notify_one();
                }
                break;
            }
        }
        true
    }
}
