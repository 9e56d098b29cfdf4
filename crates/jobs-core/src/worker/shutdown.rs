//! Stage: shut down (K8). The only one that decides when the worker is done.
//!
//! 1. Nothing more is reserved, what waits is given back unspent, handlers see it.
//! 2. Handlers have the grace period. Heartbeats go on: a drain may last longer than a lease.
//! 3. Handlers are told to end, and a moment later what can be dropped is dropped and given back
//!    unspent; what can not is left to its lease, neither settled nor renewed.
//! 4. Settlements flush. Renewals stop last.

use std::{rc::Rc, time::Duration};

use tokio::time::{Instant, sleep};

use crate::worker::{
    config::{CALL, DROP_AFTER},
    ended::{Ended, How},
    shared::Shared,
    table::Phase,
    verdict::Why,
};

/// How often it looks.
const TICK: Duration = Duration::from_millis(10);
/// How long a dropped future may take to be dropped: its thread is busy or it is not.
const DROP: Duration = Duration::from_secs(1);

/// Shuts down.
pub(crate) struct Shutdown {
    pub shared: Rc<Shared>,
}

impl Shutdown {
    /// Waits for the stop, then leads it.
    pub async fn run(self) -> Ended {
        let shared = self.shared.clone();
        shared.stop.cancelled().await;
        shared.give_back_waiting();
        shared.work.notify_one();

        let runs = || !shared.table.borrow().in_phase(Phase::Running).is_empty();
        wait_while(runs, shared.config.grace).await;
        let running = shared.table.borrow().in_phase(Phase::Running);
        running.iter().for_each(|run| shared.tell(*run, Why::Shutdown));
        wait_while(runs, DROP_AFTER.0).await;
        let running = shared.table.borrow().in_phase(Phase::Running);
        running.into_iter().for_each(|run| shared.end_now(run));
        wait_while(runs, DROP).await;
        self.leave_running();

        let flushes = || {
            let waiting = !shared.settlements.borrow().is_empty();
            waiting || shared.settling.get() > 0 || shared.asking.get()
        };
        wait_while(flushes, shared.config.lease.length().max(CALL)).await;
        let table = shared.table.borrow();
        let lost = table.still_lost(Instant::now());
        let left = shared.left.get() + table.claims.len() + lost;
        let stuck = table.slots.len();
        Ended { how: How::Stopped, settled: shared.settled.get(), left, stuck }
    }

    /// What still runs is neither settled nor renewed: its lease runs out.
    fn leave_running(&self) {
        let mut table = self.shared.table.borrow_mut();
        for run in table.in_phase(Phase::Running) {
            if let Some(held) = table.claims.remove(&run) {
                let (name, id) = (&held.job.name, held.job.id);
                tracing::error!(name, %id, "a handler did not end: its job is left to its lease");
                self.shared.left.set(self.shared.left.get() + 1);
            }
        }
    }
}

async fn wait_while(condition: impl Fn() -> bool, limit: Duration) {
    let until = Instant::now() + limit;
    while condition() && Instant::now() < until {
        sleep(TICK).await;
    }
}
