//! Lane settings (A6): a paused lane leaves the ring, so a reserve does not look at it.

use async_trait::async_trait;
use jobs_core::{
    Permit, Result,
    admin::{LaneChange, LaneRef, Pause, Tuned},
    names::{is_name, is_tenant},
    permit::Tune,
    time::{MAX_MILLIS, after},
};

use crate::{
    db::query,
    error::Fault,
    row::get,
    tx::{Tx, json},
    writer::{Write, Writer},
};

struct SetLane {
    queue: String,
    tenant: Option<String>,
    change: LaneChange,
    verb: &'static str,
    by: String,
}

/// Checks scope and bounds, then changes.
pub(crate) async fn tune(
    writer: &Writer,
    permit: &Permit<Tune>,
    lane: &LaneRef,
    change: LaneChange,
) -> Result<Tuned> {
    if change.weight.is_some() && permit.tenant().is_some() {
        return Ok(Tuned::NotAllowed);
    }
    let tenant = permit.tenant().or(lane.tenant.as_deref());
    let weight_fits = change.weight.is_none_or(|weight| (1..=100).contains(&weight));
    if !weight_fits || !is_name(&lane.queue) || !tenant.is_none_or(is_tenant) {
        return Ok(Tuned::OutOfBounds);
    }
    let Some(verb) = change.verb() else { return Ok(Tuned::Tuned) };
    let (queue, tenant) = (lane.queue.clone(), tenant.map(str::to_owned));
    writer.call(SetLane { queue, tenant, change, verb, by: permit.by().to_owned() }).await
}

#[async_trait]
impl Write for SetLane {
    const NAME: &'static str = "set_lane";
    type Answer = Tuned;

    async fn run(&self, tx: &mut Tx<'_>) -> std::result::Result<Tuned, Fault> {
        tx.dirty = true;
        let until = match self.change.pause {
            None | Some(Pause::Off) => None,
            Some(Pause::On) => Some(MAX_MILLIS),
            Some(Pause::For(length)) => Some(after(tx.now, length)),
        };
        let (weight, pauses) = (self.change.weight.map(i64::from), self.change.pause.is_some());
        let made = json(&[(&self.queue, self.tenant.as_deref().unwrap_or(""))]);
        // A resume of what nobody knows makes no row of it.
        if self.change.sets() {
            tx.db.run(query(include_str!("enqueue_queues.sql")).bind(&made)).await?;
        }
        match &self.tenant {
            None => {
                let set = query(include_str!("set_lane_queue.sql")).bind(&self.queue);
                let set = set.bind(weight).bind(i64::from(pauses)).bind(until);
                tx.db.run(set.bind(self.verb).bind(&self.by).bind(tx.now)).await?;
            }
            Some(tenant) => {
                if self.change.sets() {
                    tx.db.run(query(include_str!("enqueue_lanes.sql")).bind(&made)).await?;
                }
                let set = query(include_str!("set_lane.sql")).bind(&self.queue).bind(tenant);
                let set = set.bind(weight).bind(i64::from(pauses)).bind(until);
                let set = set.bind(self.verb).bind(&self.by).bind(tx.now);
                let set = tx.db.first(set).await?;
                if let Some(row) = set {
                    let ring = if get::<Option<i64>>(&row, 1)?.is_some() { 2 } else { 1 };
                    let ring = query(include_str!("set_lane_ring.sql"))
                        .bind(get::<i64>(&row, 0)?)
                        .bind(ring);
                    tx.db.run(ring).await?;
                }
            }
        }
        let woken = query("SELECT queue FROM jobs_queue WHERE name = ?1").bind(&self.queue);
        if let Some(row) = tx.db.first(woken).await? {
            tx.woken.insert(get(&row, 0)?);
        }
        Ok(Tuned::Tuned)
    }
}
