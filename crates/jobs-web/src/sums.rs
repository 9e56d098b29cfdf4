//! Counts of lanes, added up by queue or by tenant.

use std::{collections::BTreeMap, time::Duration};

use jobs_core::{
    Timestamp,
    view::{Count, Counts, LaneCounts, Minute},
};

/// Minutes of a chart.
pub(crate) const HOUR: usize = 60;

/// Of one queue, or of one tenant.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sum {
    pub waiting: Count,
    pub running: Count,
    pub scheduled: Count,
    pub parked: Count,
    pub oldest: Duration,
    pub lanes: usize,
    pub paused: usize,
    /// The last end of a pause.
    pub paused_until: Option<Timestamp>,
    pub weights: Vec<u32>,
    /// Finished and failed of each of the last minutes, the current one last.
    pub minutes: Vec<[u64; 2]>,
}

pub(crate) fn by_queue(counts: &Counts, now: Timestamp) -> BTreeMap<String, Sum> {
    add_up(counts, now, |lane| &lane.queue, |minute| &minute.queue)
}

pub(crate) fn by_tenant(counts: &Counts, now: Timestamp) -> BTreeMap<String, Sum> {
    add_up(counts, now, |lane| &lane.tenant, |minute| &minute.tenant)
}

fn add_up(
    counts: &Counts,
    now: Timestamp,
    of_lane: fn(&LaneCounts) -> &String,
    of_minute: fn(&Minute) -> &String,
) -> BTreeMap<String, Sum> {
    let mut sums: BTreeMap<String, Sum> = BTreeMap::new();
    for lane in &counts.lanes {
        sums.entry(of_lane(lane).clone()).or_default().add(lane);
    }
    for minute in &counts.minutes {
        let sum = sums.entry(of_minute(minute).clone()).or_default();
        sum.minutes.resize(HOUR, [0; 2]);
        let ago = now.as_second().div_euclid(60) - minute.at.as_second().div_euclid(60);
        // The store's clock may have gone on since it counted.
        if let Some(place) =
            usize::try_from(ago.max(0)).ok().and_then(|ago| (HOUR - 1).checked_sub(ago))
        {
            sum.minutes[place][0] += minute.finished;
            sum.minutes[place][1] += minute.failed;
        }
    }
    for sum in sums.values_mut() {
        sum.minutes.resize(HOUR, [0; 2]);
    }
    sums
}

impl Sum {
    fn add(&mut self, lane: &LaneCounts) {
        for (all, one) in [
            (&mut self.waiting, lane.waiting),
            (&mut self.running, lane.running),
            (&mut self.scheduled, lane.scheduled),
            (&mut self.parked, lane.parked),
        ] {
            all.number += one.number;
            all.or_more |= one.or_more;
        }
        self.oldest = self.oldest.max(lane.oldest);
        self.lanes += 1;
        self.paused += usize::from(lane.settings.paused_until.is_some());
        self.paused_until = self.paused_until.max(lane.settings.paused_until);
        self.weights.push(lane.settings.weight);
    }

    /// Finished and failed in the last hour.
    pub fn hour(&self) -> [u64; 2] {
        self.minutes.iter().fold([0; 2], |[a, b], [finished, failed]| [a + finished, b + failed])
    }
}
