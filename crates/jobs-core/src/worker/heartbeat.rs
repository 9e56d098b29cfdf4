//! Stage: renew. Never waits for a run, and no run waits for it (K2).

use std::rc::Rc;

use tokio::time::{Instant, sleep};

use crate::{
    Claim, Result,
    queue::Renewed,
    retry::jittered,
    worker::{call::call, config::CALL, shared::Shared, table::Phase, verdict::Why},
};

/// Renews every claim in hand, four times per lease.
pub(crate) struct Heartbeat {
    pub shared: Rc<Shared>,
}

impl Heartbeat {
    /// Renews until dropped. It is dropped last: a job that still runs keeps its lease until it is
    /// settled or given back.
    pub async fn run(self) {
        let lease = self.shared.config.lease.length();
        let mut wait = lease / 4;
        loop {
            sleep(wait).await;
            // One failed renewal is not a loss: it is repeated soon, and the lease lasts (K3).
            wait = if self.once().await { lease / 4 } else { jittered(lease / 16) };
        }
    }

    /// Renews once; `false` when the store failed.
    async fn once(&self) -> bool {
        let (runs, claims): (Vec<u64>, Vec<Claim>) = {
            let table = self.shared.table.borrow();
            table.claims.iter().map(|(run, held)| (*run, held.claim.clone())).unzip()
        };
        if claims.is_empty() {
            return true;
        }
        match self.renew(&runs, &claims).await {
            Ok(()) => true,
            // It may be one of them that the store cannot renew: the others keep their leases.
            Err(error) if !error.is_transient() && claims.len() > 1 => {
                self.shared.metrics.store_error(&error);
                let mut all = true;
                for (run, claim) in runs.chunks(1).zip(claims.chunks(1)) {
                    let renewed = self.renew(run, claim).await;
                    all &= renewed.is_ok();
                    // Each takes its time; what failed now is repeated soon anyway.
                    if renewed.is_err_and(|error| error.is_transient()) {
                        return false;
                    }
                }
                all
            }
            Err(error) => {
                self.shared.metrics.store_error(&error);
                tracing::warn!(%error, "a renewal failed, repeating it");
                false
            }
        }
    }

    async fn renew(&self, runs: &[u64], claims: &[Claim]) -> Result<()> {
        let (sent, lease) = (Instant::now(), self.shared.config.lease);
        let limit = CALL.min(lease.length() / 3);
        let answers = call(limit, "renew", self.shared.store.renew(lease, claims)).await?;
        runs.iter().zip(answers).for_each(|(run, told)| self.renewed(*run, told, sent));
        Ok(())
    }

    fn renewed(&self, run: u64, told: Renewed, sent: Instant) {
        let mut table = self.shared.table.borrow_mut();
        let Some(held) = table.claims.get_mut(&run) else { return };
        let phase = held.phase;
        if told != Renewed::Lost {
            held.trusted_until = held.trusted_until.max(sent + self.shared.config.trust());
        }
        drop(table);
        match (told, phase) {
            (Renewed::CancelRequested, Phase::Running) => {
                self.shared.tell(run, Why::CancelRequested);
            }
            // A settlement under way may have ended it: its answer says so.
            (Renewed::Lost, Phase::Running | Phase::Waiting) => {
                self.shared.tell(run, Why::LeaseLost);
            }
            _ => {}
        }
    }
}
