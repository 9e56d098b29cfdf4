//! Weights and pauses, of a lane or of a whole queue (A6).

use std::collections::BTreeMap;

use jobs_core::{
    admin::{LaneChange, Pause},
    time::{MAX_MILLIS, after},
};

use super::row::Did;

/// By queue and tenant; `None` stands for the queue and every tenant that comes later.
#[derive(Clone, Debug, Default)]
pub(super) struct Settings(BTreeMap<(String, Option<String>), Setting>);

#[derive(Clone, Debug, Default)]
struct Setting {
    weight: Option<u32>,
    paused_until: Option<i64>,
    changed: Option<Did>,
}

impl Settings {
    /// Changes one.
    pub fn change(
        &mut self,
        queue: &str,
        tenant: Option<&str>,
        change: LaneChange,
        now: i64,
        changed: Option<Did>,
    ) {
        let place = (queue.to_owned(), tenant.map(str::to_owned));
        let setting = self.0.entry(place).or_default();
        setting.changed = changed;
        setting.weight = change.weight.or(setting.weight);
        match change.pause {
            None => {}
            Some(Pause::Off) => setting.paused_until = None,
            Some(Pause::On) => setting.paused_until = Some(MAX_MILLIS),
            Some(Pause::For(length)) => setting.paused_until = Some(after(now, length)),
        }
    }

    /// The lane's own weight, else its queue's, else 1.
    pub fn weight(&self, queue: &str, tenant: &str) -> u32 {
        let weight = |setting: &Setting| setting.weight;
        self.both(queue, tenant).find_map(weight).unwrap_or(1)
    }

    /// Until when deliveries stop, by whichever pause is longer.
    pub fn paused_until(&self, queue: &str, tenant: &str, now: i64) -> Option<i64> {
        let until = self.both(queue, tenant).filter_map(|setting| setting.paused_until).max();
        until.filter(|until| *until > now)
    }

    /// The newest change of the lane's or of its queue's.
    pub fn changed(&self, queue: &str, tenant: &str) -> Option<&Did> {
        self.both(queue, tenant)
            .filter_map(|setting| setting.changed.as_ref())
            .max_by_key(|did| did.at)
    }

    /// Has it settings of its own?
    pub fn has(&self, queue: &str, tenant: Option<&str>) -> bool {
        self.0.contains_key(&(queue.to_owned(), tenant.map(str::to_owned)))
    }

    /// The lanes that have settings of their own.
    pub fn lanes(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.keys().filter_map(|(queue, tenant)| Some((queue.as_str(), tenant.as_deref()?)))
    }

    fn both(&self, queue: &str, tenant: &str) -> impl Iterator<Item = &Setting> {
        let places = [(queue.to_owned(), Some(tenant.to_owned())), (queue.to_owned(), None)];
        places.into_iter().filter_map(|place| self.0.get(&place))
    }
}
