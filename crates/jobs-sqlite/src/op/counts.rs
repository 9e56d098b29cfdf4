//! Counts (A1, A2), in one snapshot.

use std::{collections::HashMap, time::Duration};

use async_trait::async_trait;
use jobs_core::{
    Permit, permit,
    time::from_millis,
    view::{
        COUNTED, COUNTED_LANES, COUNTED_MINUTES, Count, Counts, LaneCounts, LaneSettings, Lanes,
        Minute, VerbRecord,
    },
};

use crate::{
    db::query,
    error::Fault,
    reader::{Read, Reading},
    row::{Row, get, small},
    tx::json,
};

/// How far back counts by minute go.
const HOUR: i64 = 3_600_000;
/// Most lanes with jobs of one state among which those to be counted are chosen.
const CHOSEN_AMONG: i64 = 20 * COUNTED_LANES as i64;

/// Counts lanes in scope.
pub(crate) struct Counter {
    queue: Option<String>,
    tenant: Option<String>,
    /// The permit does not cover the tenant asked for.
    outside: bool,
}

#[derive(Default)]
struct Tally {
    scheduled: i64,
    waiting: i64,
    running: i64,
    parked: i64,
    oldest: Option<i64>,
}

impl Tally {
    fn due(&mut self, jobs: i64, earliest: Option<i64>) {
        self.waiting += jobs;
        self.oldest = [self.oldest, earliest].into_iter().flatten().min();
    }
}

impl Counter {
    pub fn new(permit: &Permit<permit::Read>, lanes: &Lanes) -> Self {
        let outside = lanes.tenant.as_deref().is_some_and(|tenant| !permit.covers(tenant));
        let tenant = permit.tenant().map(str::to_owned).or_else(|| lanes.tenant.clone());
        Self { queue: lanes.queue.clone(), tenant, outside }
    }

    async fn tally(
        &self,
        reading: &mut Reading<'_>,
        lanes: &[i64],
    ) -> Result<HashMap<i64, Tally>, Fault> {
        let wanted = json(lanes);
        let mut tallies: HashMap<i64, Tally> =
            lanes.iter().map(|lane| (*lane, Tally::default())).collect();
        for row in reading.db.all(query(include_str!("counts_ready.sql")).bind(&wanted)).await? {
            let tally = tallies.entry(get(&row, 0)?).or_default();
            tally.due(get(&row, 1)?, get(&row, 2)?);
        }
        let due = query(include_str!("counts_due.sql")).bind(reading.now);
        let due = due.bind(10 * COUNTED as i64).bind(&self.queue);
        let mut most = 0;
        for row in reading.db.all(due).await? {
            if let Some(tally) = tallies.get_mut(&get(&row, 0)?) {
                let jobs: i64 = get(&row, 1)?;
                tally.due(jobs, get(&row, 2)?);
                tally.scheduled = jobs.saturating_neg();
                most = most.max(jobs);
            }
        }
        // Those that are due are taken off what is counted, so that it is exact to 10,000.
        let shelves = query(include_str!("counts_shelves.sql")).bind(&wanted);
        let shelves = shelves.bind(most.saturating_add(COUNTED as i64 + 1));
        for row in reading.db.all(shelves).await? {
            let tally = tallies.entry(get(&row, 0)?).or_default();
            let scheduled: i64 = get(&row, 1)?;
            tally.scheduled = tally.scheduled.saturating_add(scheduled).max(0);
            tally.parked = get(&row, 2)?;
        }
        let running = query(include_str!("counts_running.sql")).bind(reading.now);
        for row in reading.db.all(running).await? {
            if let Some(tally) = tallies.get_mut(&get(&row, 0)?) {
                tally.running = get(&row, 1)?;
                tally.due(get(&row, 2)?, get(&row, 3)?);
            }
        }
        Ok(tallies)
    }

    async fn minutes(&self, reading: &mut Reading<'_>) -> Result<Vec<Minute>, Fault> {
        let since = reading.now - HOUR;
        let sql = match self.tenant {
            Some(_) => include_str!("counts_minutes_tenant.sql"),
            None => include_str!("counts_minutes.sql"),
        };
        let minutes = query(sql).bind(since).bind(&self.queue).bind(COUNTED_MINUTES as i64);
        let minutes = match &self.tenant {
            Some(tenant) => minutes.bind(tenant).bind(reading.now),
            None => minutes,
        };
        let rows = reading.db.all(minutes).await?;
        let minute = |row| {
            Ok(Minute {
                queue: get(row, 0)?,
                tenant: get(row, 1)?,
                at: from_millis(get(row, 2)?),
                finished: u64::from(small(get(row, 3)?)),
                failed: u64::from(small(get(row, 4)?)),
            })
        };
        rows.iter().map(minute).collect()
    }
}

#[async_trait]
impl Read for Counter {
    const NAME: &'static str = "counts";
    type Answer = Counts;

    async fn run(&self, reading: &mut Reading<'_>) -> Result<Counts, Fault> {
        if self.outside {
            return Ok(Counts { complete: true, ..Counts::default() });
        }
        let most = COUNTED_LANES as i64 + 1;
        let lanes = match &self.tenant {
            Some(tenant) => {
                let lanes = query(include_str!("counts_tenant.sql")).bind(&self.queue);
                lanes.bind(tenant).bind(most)
            }
            None => {
                let lanes = query(include_str!("counts_lanes.sql")).bind(&self.queue);
                lanes.bind(reading.now).bind(most).bind(CHOSEN_AMONG)
            }
        };
        let rows = reading.db.all(lanes).await?;
        let complete = rows.len() <= COUNTED_LANES;
        let rows = &rows[..rows.len().min(COUNTED_LANES)];
        let numbers: Result<Vec<i64>, Fault> = rows.iter().map(|row| get(row, 0)).collect();
        let tallies = self.tally(reading, &numbers?).await?;
        let mut lanes = Vec::with_capacity(rows.len());
        let capped = |count: i64| Count::capped(count.unsigned_abs());
        for row in rows {
            let Some(tally) = tallies.get(&get(row, 0)?) else { continue };
            let since = tally.oldest.map_or(0, |due| reading.now.saturating_sub(due).max(0));
            let paused: i64 = get(row, 4)?;
            lanes.push(LaneCounts {
                queue: get(row, 1)?,
                tenant: get(row, 2)?,
                scheduled: capped(tally.scheduled),
                waiting: capped(tally.waiting),
                running: capped(tally.running),
                parked: capped(tally.parked),
                oldest: Duration::from_millis(since.unsigned_abs()),
                settings: LaneSettings {
                    weight: small(get(row, 3)?),
                    paused_until: (paused > reading.now).then(|| from_millis(paused)),
                    changed: changed(row)?,
                },
            });
        }
        lanes.sort_by(|a, b| (&a.queue, &a.tenant).cmp(&(&b.queue, &b.tenant)));
        Ok(Counts { lanes, complete, minutes: self.minutes(reading).await? })
    }
}

/// The newer of the lane's last change and its queue's.
fn changed(row: &Row) -> Result<Option<VerbRecord>, Fault> {
    let change = |at| {
        let (verb, by) = (get::<Option<String>>(row, at)?, get::<Option<String>>(row, at + 1)?);
        let when = get::<Option<i64>>(row, at + 2)?;
        Ok::<_, Fault>(verb.zip(when).map(|(verb, at)| (at, verb, by.unwrap_or_default())))
    };
    let newest = [change(8)?, change(5)?].into_iter().flatten().max_by_key(|(at, ..)| *at);
    Ok(newest.map(|(at, verb, by)| VerbRecord { verb, by, at: from_millis(at) }))
}
