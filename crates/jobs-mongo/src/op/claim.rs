//! What a reserve takes, and what is held under its nonce.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use jobs_core::{
    Claim,
    driver::small,
    queue::{Delivery, Reserved},
    time::delay_millis,
};
use mongodb::bson::{Document, doc};

use super::{pick::Head, reserve::Call};
use crate::{
    db::Written,
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
    ) -> std::result::Result<Written, Fault> {
        let db = &self.store.db;
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
        // By the fence where it is known: then the document is the one that was read.
        let mut groups = BTreeMap::<Option<i64>, Vec<&str>>::new();
        for (_, (_, id)) in chosen {
            let fence = self.whole.get(id).and_then(|row| int(row, "fence"));
            groups.entry(fence).or_default().push(id);
        }
        let statement = |(fence, mut ids): (Option<i64>, Vec<&str>)| {
            ids.sort_unstable();
            let mut filter =
                doc! { "_id": { "$in": ids }, "state": 1_i32, "line": { "$in": &lines } };
            if let Some(fence) = fence {
                filter.insert("fence", fence);
            }
            // The server would try the lines' index as well each time.
            doc! { "q": filter, "u": [claim.clone()], "multi": true, "hint": "_id_" }
        };
        db.update("jobs", groups.into_iter().map(statement).collect()).await
    }

    /// The deliveries of a claim that took all that it chose, sent once, of documents read whole:
    /// each had the fence that it was read with, so nobody had it in between.
    pub(super) fn as_read(
        &mut self,
        chosen: &[(Line, Head)],
        written: &Written,
    ) -> Option<Vec<Delivery>> {
        let known = chosen.iter().all(|(_, (_, id))| self.whole.contains_key(id));
        if written.again || written.count != chosen.len() || !known {
            self.whole.clear();
            return None;
        }
        self.store.remember(self.request.nonce_of(), self.request.queue());
        let mut taken = Vec::with_capacity(chosen.len());
        for (_, (_, id)) in chosen {
            let mut row = self.whole.remove(id)?;
            for counted in ["fence", "attempt"] {
                let more = int(&row, counted).unwrap_or_default() + 1;
                row.insert(counted, more);
            }
            taken.extend(self.readable(&row));
        }
        Some(taken)
    }

    /// One that cannot be read is left to its lease's end.
    fn readable(&self, row: &Document) -> Option<Delivery> {
        match self.delivery(row) {
            Ok(delivery) => Some(delivery),
            Err(fault) => {
                let error = fault.into_error("reserve");
                tracing::error!(%error, "a job that cannot be read is left to its lease's end");
                None
            }
        }
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
        let mut deliveries: Vec<_> = rows.iter().filter_map(|row| self.readable(row)).collect();
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
