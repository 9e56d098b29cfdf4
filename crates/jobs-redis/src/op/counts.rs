//! Counts (A1, A2), a lane in one reading.

use std::time::Duration;

use futures::future::try_join_all;
use jobs_core::{
    Permit, Result,
    driver::small,
    permit::Read,
    time::from_millis,
    view::{
        COUNTED_LANES, COUNTED_MINUTES, Count, Counts, LaneCounts, LaneSettings, Lanes, Minute,
        VerbRecord,
    },
};

use super::scoped::nobody;
use crate::{Redis, db::Db, error::Fault, keys::shard_of, reply::Reply, script::script};

script!(COUNTS, ALWAYS, "counts.lua", LANES);

/// Lanes counted by one script.
const PART: i64 = 100;
/// How far back minutes go, in milliseconds.
const HOUR: i64 = 3_600_000;

/// Lane by lane, those where a job waits first when there are more than are counted.
pub(crate) async fn all(store: &Redis, permit: &Permit<Read>, lanes: &Lanes) -> Result<Counts> {
    let counts = async {
        let tenant = permit.tenant().or(lanes.tenant.as_deref());
        if nobody(permit, lanes.queue.as_deref(), lanes.tenant.as_deref()) {
            return Ok(Counts { complete: true, ..Counts::default() });
        }
        let shards = store.db.shards().await?;
        let all = match tenant {
            Some(tenant) => vec![shard_of(tenant, shards)],
            None => (0..shards).collect(),
        };
        let queue = lanes.queue.as_deref().unwrap_or_default();
        let of_shard = |shard| of_shard(&store.db, shard, queue, tenant.unwrap_or_default());
        let mut counts = Counts { complete: true, ..Counts::default() };
        for (lanes, minutes) in try_join_all(all.into_iter().map(of_shard)).await? {
            counts.lanes.extend(lanes);
            counts.minutes.extend(minutes);
        }
        counts.complete = counts.lanes.len() <= COUNTED_LANES;
        counts.lanes.sort_by_key(|lane| lane.waiting.number == 0);
        counts.lanes.truncate(COUNTED_LANES);
        counts.lanes.sort_by(|a, b| (&a.queue, &a.tenant).cmp(&(&b.queue, &b.tenant)));
        let place = |of: &Minute| (of.at, of.queue.clone(), of.tenant.clone());
        counts.minutes.sort_by_cached_key(place);
        let surplus = counts.minutes.len().saturating_sub(COUNTED_MINUTES);
        counts.minutes.drain(..surplus);
        Ok(counts)
    };
    store.db.within("counts", counts).await
}

async fn of_shard(
    db: &Db,
    shard: u32,
    queue: &str,
    tenant: &str,
) -> std::result::Result<(Vec<LaneCounts>, Vec<Minute>), Fault> {
    let (mut lanes, mut minutes, mut after) = (Vec::new(), Vec::new(), String::new());
    loop {
        let arguments = vec![queue.into(), tenant.into(), after.as_str().into(), PART.into()];
        let mut reply = Reply::of(db.run(shard, &COUNTS, arguments).await?)?;
        after = reply.text()?;
        while reply.left() > 0 {
            let lane = lane(reply.list()?, &mut minutes)?;
            lanes.extend(lane);
        }
        if after.is_empty() {
            return Ok((lanes, minutes));
        }
    }
}

/// One lane, if it has live jobs or settings; its minutes in any case.
fn lane(
    mut row: Reply,
    minutes: &mut Vec<Minute>,
) -> std::result::Result<Option<LaneCounts>, Fault> {
    let (queue, tenant, counted) = (row.text()?, row.text()?, row.int()? == 1);
    let mut count = || Ok::<_, Fault>(Count::capped(u64::try_from(row.int()?).unwrap_or(0)));
    let (scheduled, waiting, running, parked) = (count()?, count()?, count()?, count()?);
    let (since, weight, paused) = (row.int()?, small(row.int()?), row.int()?);
    let (verb, at, by) = (row.text()?, row.int()?, row.text()?);
    let (mut stored, now) = (row.list()?, row.int()?);
    let first = minutes.len();
    while stored.left() > 1 {
        let (field, count) = (stored.text()?, stored.int()?);
        let (at, kind) = field.split_at_checked(field.len().saturating_sub(1)).unwrap_or_default();
        let at: i64 = at.parse().unwrap_or_default();
        if at < now - HOUR {
            continue;
        }
        let count = u64::try_from(count).unwrap_or_default();
        let at = from_millis(at);
        let known = minutes[first..].iter().position(|minute| minute.at == at);
        let place = known.map_or(minutes.len(), |known| first + known);
        if known.is_none() {
            let (queue, tenant) = (queue.clone(), tenant.clone());
            minutes.push(Minute { queue, tenant, at, finished: 0, failed: 0 });
        }
        match kind {
            "d" => minutes[place].finished = count,
            _ => minutes[place].failed = count,
        }
    }
    let oldest = if since < 0 { 0 } else { (now - since).max(0) };
    let changed = (!verb.is_empty()).then(|| VerbRecord { verb, by, at: from_millis(at) });
    Ok(counted.then(|| LaneCounts {
        queue,
        tenant,
        scheduled,
        waiting,
        running,
        parked,
        oldest: Duration::from_millis(oldest.unsigned_abs()),
        settings: LaneSettings {
            weight,
            paused_until: (paused >= 0).then(|| from_millis(paused)),
            changed,
        },
    }))
}
