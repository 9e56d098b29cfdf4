//! Stage: settle. Keeps outcomes until the store took them; the exchange sends them.

use std::rc::Rc;

use tokio::time::Instant;

use crate::{
    Error, Settled,
    worker::{
        record::report,
        shared::{Pending, Shared},
    },
};

/// Most settlements of one call.
const BATCH: usize = 512;
/// A settlement that the store refuses by itself is given up after so many tries.
const REFUSALS: u32 = 5;

/// Keeps outcomes.
pub(crate) struct Settler {
    shared: Rc<Shared>,
    /// The last batch was refused for good: find out which by sending one at a time.
    one_by_one: usize,
}

impl Settler {
    pub fn new(shared: Rc<Shared>) -> Self {
        Self { shared, one_by_one: 0 }
    }

    /// What to send now.
    pub fn batch(&mut self) -> Vec<Pending> {
        let mut pending = self.shared.settlements.borrow_mut();
        let most = if self.one_by_one > 0 { 1 } else { BATCH };
        let count = pending.len().min(most);
        self.shared.settling.set(count);
        pending.drain(..count).collect()
    }

    /// The store answered.
    pub fn answered(&mut self, batch: Vec<Pending>, answers: Vec<Settled>) {
        self.shared.settling.set(0);
        self.one_by_one = self.one_by_one.saturating_sub(1);
        let (mut batch, count) = (batch, answers.len());
        let unanswered = batch.split_off(count.min(batch.len()));
        for (pending, settled) in batch.into_iter().zip(answers) {
            self.settled(pending, settled);
        }
        if !unanswered.is_empty() {
            self.failed(unanswered, &crate::ext::unanswered("settle"));
        }
        // Another job that must run alone may have waited for one of these.
        self.shared.refill();
    }

    fn settled(&mut self, pending: Pending, settled: Settled) {
        let shared = &self.shared;
        let Some(held) = shared.table.borrow_mut().claims.remove(&pending.run) else { return };
        let (job, outcome) = (&held.job, &pending.settlement.outcome);
        if let (Some(cause), Settled::Applied(state)) = (outcome.cause(), settled) {
            let (name, id) = (&job.name, job.id);
            tracing::warn!(name, %id, attempt = held.attempt, %state, %cause, "a run failed");
        }
        if settled == Settled::Lost {
            shared.metrics.lease_lost(job);
            tracing::warn!(name = job.name, id = %job.id, "a result was refused: the lease is lost");
        }
        // What it left in the store is looked at after this.
        shared.active.set(Instant::now());
        report(shared, &held, outcome, settled);
    }

    /// The store failed: the batch is sent again, however long that takes. Until somebody swept, a
    /// claim is the claim, and the store's `Lost` says when it is not.
    pub fn failed(&mut self, batch: Vec<Pending>, error: &Error) {
        self.shared.settling.set(0);
        let refused = !error.is_transient();
        let alone = batch.len() == 1;
        if refused && !alone {
            self.one_by_one = batch.len();
        }
        for mut pending in batch.into_iter().rev() {
            pending.refused += u32::from(refused && alone);
            let mut table = self.shared.table.borrow_mut();
            let Some(held) = table.claims.get(&pending.run) else { continue };
            if pending.refused >= REFUSALS {
                let (name, id) = (&held.job.name, held.job.id);
                tracing::error!(name, %id, %error, "a result is given up, the job will run again");
                table.claims.remove(&pending.run);
                self.shared.left.set(self.shared.left.get() + 1);
                continue;
            }
            let mut waiting = self.shared.settlements.borrow_mut();
            // One that is refused by itself must not stand in the others' way.
            if pending.refused > 0 {
                waiting.push_back(pending)
            } else {
                waiting.push_front(pending)
            }
        }
    }
}
