//! What a reserve takes, and what is held under its nonce.

use std::collections::{BTreeSet, HashMap};

use jobs_core::{
    Claim,
    driver::small,
    queue::{Delivery, Reserved},
    time::delay_millis,
};
use mongodb::bson::{Document, doc};

use super::{pick::Head, reserve::Call};
use crate::{
    error::Fault,
    frontier::Line,
    row::{self, int, need},
};

impl Call<'_> {
    /// Takes those that are still in the lines where they were seen: one that was lost meanwhile is
    /// suspect, and may not be held ahead.
    pub(super) async fn claim(
        &mut self,
        chosen: &[(Line, Head)],
    ) -> std::result::Result<usize, Fault> {
        let db = &self.store.db;
        let mut ids: Vec<&str> = chosen.iter().map(|(_, (_, id))| id.as_str()).collect();
        ids.sort_unstable();
        let lease = delay_millis(self.request.leased_for().length());
        let nonce = self.request.nonce_of().0;
        let started = doc! { "$cond": [{ "$eq": ["$scope", 2] }, "$$REMOVE", "$held"] };
        let claim = doc! { "$set": {
            "state": 2_i32,
            "fence": { "$add": ["$fence", 1_i64] },
            "attempt": { "$add": ["$attempt", 1_i32] },
            "nonce": nonce,
            "run": nonce,
            "worker": { "$literal": self.request.worker() },
            "started_at": "$$NOW",
            "renewed_at": "$$NOW",
            "lease_until": { "$add": ["$$NOW", lease] },
            "held": started,
            "line": "$$REMOVE",
            "outcome": "$$REMOVE",
        } };
        let lines: BTreeSet<String> = chosen.iter().map(|(line, _)| line.stored()).collect();
        let lines: Vec<String> = lines.into_iter().collect();
        let statement = doc! {
            "q": { "_id": { "$in": ids }, "state": 1_i32, "line": { "$in": lines } },
            "u": [claim],
            "multi": true,
            // The server would try the lines' index as well each time.
            "hint": "_id_",
        };
        Ok(db.update("jobs", vec![statement]).await?.count)
    }

    /// A repetition: what is still held, its lease from now, as the worker's own clock counts.
    pub(super) async fn held(&self) -> std::result::Result<Reserved, Fault> {
        let lease = delay_millis(self.request.leased_for().length());
        let extend = doc! { "$set": {
            "renewed_at": "$$NOW", "lease_until": { "$add": ["$$NOW", lease] },
        } };
        let nonce = self.request.nonce_of().0;
        let statement = doc! { "q": { "run": nonce }, "u": [extend], "multi": true };
        self.store.db.update("jobs", vec![statement]).await?;
        let deliveries = self.deliveries(&[], Vec::new()).await?;
        Ok(Reserved { deliveries, next_due: None })
    }

    /// All that is held under this nonce, in the order in which it was chosen, after what is known.
    pub(super) async fn deliveries(
        &self,
        chosen: &[(Line, Head)],
        known: Vec<Delivery>,
    ) -> std::result::Result<Vec<Delivery>, Fault> {
        let db = &self.store.db;
        let nonce = self.request.nonce_of().0;
        let rows = db.rows(doc! {
            "find": db.name("jobs"),
            "filter": { "run": nonce },
            "projection": { "attempts": 0 },
            "batchSize": 1100,
        });
        let rows = rows.await?;
        if !rows.is_empty() {
            self.store.remember(self.request.nonce_of(), self.request.queue());
        }
        let mut order = HashMap::new();
        for held in &known {
            order.insert(row::id(&held.claim.job), order.len());
        }
        for (_, (_, id)) in chosen {
            let next = order.len();
            order.entry(id.clone()).or_insert(next);
        }
        let place = |delivery: &Delivery| {
            order.get(&row::id(&delivery.claim.job)).copied().unwrap_or(usize::MAX)
        };
        let mut deliveries = Vec::with_capacity(rows.len());
        for row in &rows {
            match self.delivery(row) {
                Ok(delivery) => deliveries.push(delivery),
                Err(fault) => {
                    let error = fault.into_error("reserve");
                    tracing::error!(%error, "a job that cannot be read is left to its lease's end");
                }
            }
        }
        deliveries.sort_by_key(place);
        Ok(deliveries)
    }

    pub(super) fn delivery(&self, row: &Document) -> std::result::Result<Delivery, Fault> {
        let job = row::job(row)?;
        let nonce = self.request.nonce_of();
        let fence = need(int(row, "fence"), "fence")?;
        let claim = Claim { job: job.job_ref(), fence, nonce };
        let attempt = small(need(int(row, "attempt"), "attempt")?);
        let suspect = row.get_bool("suspect").unwrap_or(false);
        Ok(Delivery { claim, job, attempt, suspect })
    }
}
