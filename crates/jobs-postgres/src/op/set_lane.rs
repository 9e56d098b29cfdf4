//! Lane settings (A6). A reserve asks for them itself, so that a pause holds at once.

use jobs_core::{
    Permit, Result,
    admin::{LaneChange, LaneRef, Pause, Tuned},
    names::{is_name, is_tenant},
    permit::Tune,
    time::delay_millis,
};

use crate::Postgres;

const SQL: &str = "SELECT jobs.set_lane($1, $2, $3, $4, $5, $6, $7, $8)";

/// Checks scope and bounds, then changes.
pub(crate) async fn tune(
    store: &Postgres,
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
    let until = match change.pause {
        None | Some(Pause::Off) => None,
        Some(Pause::On) => Some(-1),
        Some(Pause::For(length)) => Some(delay_millis(length)),
    };
    let set = store.db.call("set_lane", SQL, |args| {
        args.add(lane.queue.as_str())?;
        args.add(tenant)?;
        args.add(change.weight.and_then(|weight| i32::try_from(weight).ok()))?;
        args.add(change.pause.is_some())?;
        args.add(until)?;
        args.add(verb)?;
        args.add(permit.by())?;
        args.add(change.sets())
    });
    set.await?;
    store.frontier.forget_queue(&lane.queue);
    store.wake.tell(&store.db, [lane.queue.clone()]);
    Ok(Tuned::Tuned)
}
