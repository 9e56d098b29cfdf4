//! Counts (A1, A2), in one snapshot.

use std::{collections::HashMap, time::Duration};

use async_trait::async_trait;
use jobs_core::{
    Permit, permit,
    time::from_millis,
    view::{COUNTED, COUNTED_LANES, Count, Counts, LaneCounts, LaneSettings, Lanes, Minute},
};
use sqlx::query;

use crate::{
    error::Fault,
    reader::{Read, Reading},
    row::{get, small},
    tx::json,
};

/// How far back counts by minute go.
const HOUR: i64 = 3_600_000;

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
        let shelves = query(include_str!("counts_shelves.sql")).bind(&wanted);
        for row in reading.db.all(shelves).await? {
            let tally = tallies.entry(get(&row, 0)?).or_default();
            (tally.scheduled, tally.parked) = (get(&row, 1)?, get(&row, 2)?);
        }
        let due = query(include_str!("counts_due.sql")).bind(reading.now);
        for row in reading.db.all(due.bind(10 * COUNTED as i64)).await? {
            if let Some(tally) = tallies.get_mut(&get(&row, 0)?) {
                let jobs: i64 = get(&row, 1)?;
                tally.due(jobs, get(&row, 2)?);
                tally.scheduled = (tally.scheduled - jobs).max(0);
            }
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
        let minutes = query(include_str!("counts_minutes.sql")).bind(reading.now - HOUR);
        let minutes = minutes.bind(self.queue.clone()).bind(self.tenant.clone());
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
        let lanes = query(include_str!("counts_lanes.sql")).bind(self.queue.clone());
        let lanes = lanes.bind(self.tenant.clone()).bind(COUNTED_LANES as i64 + 1);
        let rows = reading.db.all(lanes).await?;
        let complete = rows.len() <= COUNTED_LANES;
        let rows = &rows[..rows.len().min(COUNTED_LANES)];
        let numbers: Result<Vec<i64>, Fault> = rows.iter().map(|row| get(row, 0)).collect();
        let tallies = self.tally(reading, &numbers?).await?;
        let mut lanes = Vec::with_capacity(rows.len());
        let capped = |count: i64| Count::capped(count.unsigned_abs());
        for row in rows {
            let Some(tally) = tallies.get(&get(row, 0)?) else { continue };
            let since = tally.oldest.map_or(0, |due| (reading.now - due).max(0));
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
                },
            });
        }
        Ok(Counts { lanes, complete, minutes: self.minutes(reading).await? })
    }
}
