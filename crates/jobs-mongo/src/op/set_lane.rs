//! Lane settings (A6): one document a queue, whose version every reserve asks for, so that a pause
//! holds at once.

use jobs_core::{
    Permit, Result,
    admin::{LaneChange, LaneRef, Pause, Tuned},
    names::{is_name, is_tenant},
    permit::Tune,
    time::{MAX_MILLIS, delay_millis},
};
use mongodb::bson::{Document, doc};

use crate::{Mongo, error::Fault, row::at};

/// Checks scope and bounds, then changes.
pub(crate) async fn tune(
    store: &Mongo,
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
    let set = async {
        if change.sets() || is_known(store, &lane.queue, tenant).await? {
            let statement = statement(&lane.queue, tenant, change, verb, permit.by());
            store.db.update("lanes", vec![statement]).await?;
        }
        Ok(())
    };
    store.db.within("set_lane", set).await?;
    store.frontier.forget_queue(&lane.queue);
    store.put_in_line([(lane.queue.clone(), None)]);
    Ok(Tuned::Tuned)
}

fn statement(
    queue: &str,
    tenant: Option<&str>,
    change: LaneChange,
    verb: &str,
    by: &str,
) -> Document {
    // A tenant has no dot.
    let path = |field: &str| match tenant {
        Some(tenant) => format!("lanes.{tenant}.{field}"),
        None => field.to_owned(),
    };
    let version = doc! { "$add": [{ "$ifNull": ["$version", 0_i64] }, 1_i64] };
    let mut set = doc! { "version": version };
    set.insert(path("changed"), verb);
    set.insert(path("changed_by"), doc! { "$literal": by });
    set.insert(path("changed_at"), "$$NOW");
    if let Some(weight) = change.weight {
        set.insert(path("weight"), i64::from(weight));
    }
    let last = at(MAX_MILLIS);
    match change.pause {
        None => {}
        Some(Pause::Off) => _ = set.insert(path("paused_until"), "$$REMOVE"),
        Some(Pause::On) => _ = set.insert(path("paused_until"), last),
        Some(Pause::For(length)) => {
            let until = doc! { "$min": [{ "$add": ["$$NOW", delay_millis(length)] }, last] };
            set.insert(path("paused_until"), until);
        }
    }
    doc! { "q": { "_id": queue }, "u": [{ "$set": set }], "upsert": true }
}

/// A resume of a lane that nobody knows makes none.
async fn is_known(
    store: &Mongo,
    queue: &str,
    tenant: Option<&str>,
) -> std::result::Result<bool, Fault> {
    let db = &store.db;
    let mut settings = doc! { "_id": queue };
    let mut jobs = doc! { "queue": queue };
    if let Some(tenant) = tenant {
        settings.insert(format!("lanes.{tenant}"), doc! { "$exists": true });
        jobs.insert("tenant", tenant);
    }
    for (collection, filter) in [("lanes", settings), ("jobs", jobs)] {
        let find = doc! {
            "find": db.name(collection), "filter": filter, "limit": 1, "projection": { "_id": 1 },
        };
        if !db.rows(find).await?.is_empty() {
            return Ok(true);
        }
    }
    Ok(false)
}
