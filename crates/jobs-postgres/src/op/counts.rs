//! Counts (A1, A2), in one snapshot.

use std::time::Duration;

use jobs_core::{
    Permit, Result,
    permit::Read,
    time::from_millis,
    view::{
        COUNTED_LANES, COUNTED_MINUTES, Count, Counts, LaneCounts, LaneSettings, Lanes, Minute,
        VerbRecord,
    },
};
use sqlx::postgres::PgRow;

use crate::{
    Postgres,
    db::get,
    error::Fault,
    row::{plain, small},
};

const SQL: &str = "SELECT * FROM jobs.counts($1, $2, $3, $4)";

/// Counts lanes in scope.
pub(crate) async fn all(store: &Postgres, permit: &Permit<Read>, lanes: &Lanes) -> Result<Counts> {
    if lanes.tenant.as_deref().is_some_and(|tenant| !permit.covers(tenant)) {
        return Ok(Counts { complete: true, ..Counts::default() });
    }
    let tenant = permit.tenant().or(lanes.tenant.as_deref());
    let rows = store.db.call("counts", SQL, |args| {
        args.add(tenant.map(plain))?;
        args.add(lanes.queue.as_deref().map(plain))?;
        args.add(COUNTED_LANES as i32 + 1)?;
        args.add(COUNTED_MINUTES as i32)
    });
    read(&rows.await?).map_err(|fault| fault.into_error("counts"))
}

fn read(rows: &[PgRow]) -> std::result::Result<Counts, Fault> {
    let mut counts = Counts { complete: true, ..Counts::default() };
    for row in rows {
        match get::<i16>(row, 0)? {
            0 if counts.lanes.len() < COUNTED_LANES => counts.lanes.push(lane(row)?),
            0 => counts.complete = false,
            1 => counts.minutes.push(minute(row)?),
            _ => counts.complete &= get::<i64>(row, 16)? > 0,
        }
    }
    counts.lanes.sort_by(|a, b| (&a.queue, &a.tenant).cmp(&(&b.queue, &b.tenant)));
    Ok(counts)
}

fn lane(row: &PgRow) -> std::result::Result<LaneCounts, Fault> {
    let now: i64 = get(row, 19)?;
    let count = |at| Ok::<_, Fault>(Count::capped(get::<i64>(row, at)?.unsigned_abs()));
    let oldest = get::<Option<i64>>(row, 7)?.map_or(0, |due| now.saturating_sub(due).max(0));
    let paused: i64 = get(row, 9)?;
    let change = |at| {
        let (verb, by) = (get::<Option<String>>(row, at)?, get::<Option<String>>(row, at + 1)?);
        let when = get::<Option<i64>>(row, at + 2)?;
        Ok::<_, Fault>(verb.zip(when).map(|(verb, at)| (at, verb, by.unwrap_or_default())))
    };
    // The newer of the lane's last change and its queue's.
    let newest = [change(13)?, change(10)?].into_iter().flatten().max_by_key(|(at, ..)| *at);
    Ok(LaneCounts {
        queue: get(row, 1)?,
        tenant: get(row, 2)?,
        scheduled: count(3)?,
        waiting: count(4)?,
        running: count(5)?,
        parked: count(6)?,
        oldest: Duration::from_millis(oldest.unsigned_abs()),
        settings: LaneSettings {
            weight: small(get(row, 8)?),
            paused_until: (paused > now).then(|| from_millis(paused)),
            changed: newest.map(|(at, verb, by)| VerbRecord { verb, by, at: from_millis(at) }),
        },
    })
}

fn minute(row: &PgRow) -> std::result::Result<Minute, Fault> {
    Ok(Minute {
        queue: get(row, 1)?,
        tenant: get(row, 2)?,
        at: from_millis(get(row, 16)?),
        finished: get::<i64>(row, 17)?.unsigned_abs(),
        failed: get::<i64>(row, 18)?.unsigned_abs(),
    })
}
