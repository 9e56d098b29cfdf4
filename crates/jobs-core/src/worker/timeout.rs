//! Stage: time. Ends what is over: runs past their timeout, leases past their trust, jobs held too
//! long. Runs on the control thread, so a blocked application does not stop it.

use std::{rc::Rc, time::Duration};

use tokio::time::{Instant, sleep};

use crate::{
    Outcome,
    worker::{
        config::{DROP_AFTER, STUCK_AFTER},
        execute::End,
        shared::Shared,
        table::{Phase, Slot, Table},
        verdict::Why,
    },
};

/// How exactly it is kept.
const TICK: Duration = Duration::from_millis(50);
/// A job that was held ahead and found no slot is given back, for another worker to start.
const HELD: Duration = Duration::from_millis(500);

/// Watches the clock.
pub(crate) struct Clock {
    pub shared: Rc<Shared>,
}

impl Clock {
    /// Looks until dropped, and sleeps while there is nothing to look at.
    pub async fn run(self) {
        loop {
            let idle = {
                let table = self.shared.table.borrow();
                table.claims.is_empty() && table.slots.is_empty()
            };
            if idle {
                self.shared.taken.notified().await;
            }
            sleep(TICK).await;
            self.once();
        }
    }

    fn once(&self) {
        let now = Instant::now();
        self.distrust(now);
        self.time_out(now);
        self.drop_told(now);
        self.settle_stuck(now);
        self.shared.metrics.stuck(self.shared.table.borrow().stuck(now));
        // A job that waits to be alone may start now.
        self.shared.refill();
    }

    /// Leases that could end soon, by this process's own monotonic clock.
    fn distrust(&self, now: Instant) {
        let over: Vec<(u64, Phase)> = {
            let table = self.shared.table.borrow();
            let over = table.claims.iter().filter(|(run, held)| match held.phase {
                Phase::Running => now >= held.trusted_until,
                Phase::Waiting => {
                    let idle = now >= held.delivered + HELD && table.alone != Some(**run);
                    now >= held.trusted_until || idle
                }
                Phase::Returned => false,
            });
            over.map(|(run, held)| (*run, held.phase)).collect()
        };
        for (run, phase) in over {
            match phase {
                Phase::Running => self.shared.tell(run, Why::LeaseLost),
                // If the claim is lost meanwhile, the store refuses this.
                _ => self.give_back(run),
            }
        }
    }

    fn give_back(&self, run: u64) {
        self.shared.finish(run, Outcome::Release);
        let mut table = self.shared.table.borrow_mut();
        table.line.retain(|waiting| *waiting != run);
        table.alone = table.alone.filter(|waiting| *waiting != run);
    }

    fn time_out(&self, now: Instant) {
        let over = self.slots(|slot| {
            let limit = slot.timeout.filter(|limit| now >= slot.since + *limit)?;
            slot.told.is_none().then_some(limit)
        });
        for (run, limit) in over {
            self.shared.tell(run, Why::TimedOut(limit));
        }
    }

    /// First the token, then the future is dropped.
    fn drop_told(&self, now: Instant) {
        for slot in self.shared.table.borrow_mut().slots.values_mut() {
            let Some((why, at)) = slot.told else { continue };
            let after = if why == Why::LeaseLost { DROP_AFTER.0 } else { DROP_AFTER.1 };
            if !slot.dropped && now >= at + after {
                slot.dropped = true;
                slot.abort.abort();
            }
        }
    }

    /// A handler that ignored its end: its job goes on without it, its slot stays taken.
    fn settle_stuck(&self, now: Instant) {
        let stuck = self.slots(|slot| match slot.told {
            Some((why @ (Why::TimedOut(_) | Why::CancelRequested), at)) => {
                (now >= at + STUCK_AFTER).then_some(why)
            }
            _ => None,
        });
        for (run, why) in stuck {
            let outcome = {
                let Table { claims, slots, .. } = &mut *self.shared.table.borrow_mut();
                let (Some(held), Some(slot)) = (claims.get_mut(&run), slots.get(&run)) else {
                    continue;
                };
                if held.phase != Phase::Running {
                    continue;
                }
                held.started = slot.started.get().copied().map(Instant::from_std);
                let (name, id, began) = (&held.job.name, held.job.id, held.started.is_some());
                tracing::error!(name, %id, began, "a handler ignores its end: its slot is stuck");
                // One whose runtime never came to it is not charged.
                self.shared.outcome_of(held, Some(why), End::Dropped)
            };
            self.shared.finish(run, outcome);
        }
    }

    fn slots<T>(&self, pick: impl Fn(&Slot) -> Option<T>) -> Vec<(u64, T)> {
        let table = self.shared.table.borrow();
        table.slots.iter().filter_map(|(run, slot)| Some((*run, pick(slot)?))).collect()
    }
}
