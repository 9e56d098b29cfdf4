//! Weights and pauses of one queue (A6): one document for all its lanes, so that a reserve sees by one
//! number whether what it knows of them still holds.

use std::collections::HashMap;

use jobs_core::{
    time::from_millis,
    view::{LaneSettings, VerbRecord},
};
use mongodb::bson::Document;

use crate::row::{date, int, text};

/// Of a queue and every lane that comes later, or of one lane.
#[derive(Clone, Debug, Default)]
pub(crate) struct Setting {
    weight: Option<u32>,
    paused_until: Option<i64>,
    /// When, verb, who.
    changed: Option<(i64, String, String)>,
}

impl Setting {
    fn read(row: &Document) -> Self {
        let changed = date(row, "changed_at").zip(text(row, "changed"));
        let by = text(row, "changed_by").unwrap_or_default();
        Self {
            weight: int(row, "weight").and_then(|weight| u32::try_from(weight).ok()),
            paused_until: date(row, "paused_until"),
            changed: changed.map(|(at, verb)| (at, verb, by)),
        }
    }
}

/// Of one queue.
#[derive(Clone, Debug, Default)]
pub(crate) struct Settings {
    /// Counts the changes; 0 where there is no document.
    pub version: i64,
    queue: Setting,
    pub lanes: HashMap<String, Setting>,
}

impl Settings {
    pub fn read(row: &Document) -> Self {
        let lanes = row.get_document("lanes").into_iter().flatten();
        let lanes = lanes.filter_map(|(tenant, lane)| {
            lane.as_document().map(|lane| (tenant.clone(), Setting::read(lane)))
        });
        Self {
            version: int(row, "version").unwrap_or_default(),
            queue: Setting::read(row),
            lanes: lanes.collect(),
        }
    }

    fn both(&self, tenant: &str) -> impl Iterator<Item = &Setting> {
        self.lanes.get(tenant).into_iter().chain([&self.queue])
    }

    /// The lane's own, else its queue's, else 1.
    pub fn weight(&self, tenant: &str) -> u32 {
        self.both(tenant).find_map(|setting| setting.weight).unwrap_or(1).max(1)
    }

    /// By whichever pause is longer.
    pub fn paused_until(&self, tenant: &str, now: i64) -> Option<i64> {
        let until = self.both(tenant).filter_map(|setting| setting.paused_until).max();
        until.filter(|until| *until > now)
    }

    /// As operators see them.
    pub fn shown(&self, tenant: &str, now: i64) -> LaneSettings {
        let changed = self.both(tenant).filter_map(|setting| setting.changed.clone());
        let newest = changed.max_by_key(|(at, ..)| *at);
        LaneSettings {
            weight: self.weight(tenant),
            paused_until: self.paused_until(tenant, now).map(from_millis),
            changed: newest.map(|(at, verb, by)| VerbRecord { verb, by, at: from_millis(at) }),
        }
    }
}
