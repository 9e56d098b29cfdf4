//! Lane settings (A6), a queue's in every shard.

use futures::future::try_join_all;
use jobs_core::{
    Permit, Result,
    admin::{LaneChange, LaneRef, Pause, Tuned},
    names::{is_name, is_tenant},
    permit::Tune,
    time::delay_millis,
};

use crate::{Redis, error::Fault, keys::shard_of, script::script};

script!(SET_LANE, ALWAYS, "set_lane.lua");

/// Checks scope and bounds, then changes.
pub(crate) async fn tune(
    store: &Redis,
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
    let (how, length) = match change.pause {
        None => (0, 0),
        Some(Pause::On) => (1, 0),
        Some(Pause::For(length)) => (2, delay_millis(length)),
        Some(Pause::Off) => (3, 0),
    };
    let weight = change.weight.map_or_else(String::new, |weight| weight.to_string());
    let set = async {
        let shards = store.db.shards().await?;
        let all = match tenant {
            Some(tenant) => vec![shard_of(tenant, shards)],
            None => (0..shards).collect(),
        };
        let set = |shard| {
            let arguments = vec![
                lane.queue.as_str().into(),
                tenant.unwrap_or("*").into(),
                weight.as_str().into(),
                how.into(),
                length.into(),
                verb.into(),
                permit.by().into(),
            ];
            store.db.run(shard, &SET_LANE, arguments)
        };
        try_join_all(all.into_iter().map(set)).await?;
        Ok::<_, Fault>(())
    };
    store.db.within("set_lane", set).await?;
    store.wake.tell([lane.queue.as_str()]);
    Ok(Tuned::Tuned)
}
