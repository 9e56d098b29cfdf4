//! The workers that announced themselves (A4).

use std::collections::BTreeMap;

use jobs_core::queue::Worker;

/// How long a silent worker is still listed, in milliseconds.
const SILENT: i64 = 60_000;

/// By the identity of their process start.
#[derive(Clone, Debug, Default)]
pub(super) struct Workers(BTreeMap<uuid::Uuid, Seen>);

/// One of them.
#[derive(Clone, Debug)]
pub(super) struct Seen {
    pub worker: Worker,
    pub since: i64,
    pub last: i64,
}

impl Workers {
    /// It lives, or says goodbye.
    pub fn announce(&mut self, worker: &Worker, now: i64) {
        self.0.retain(|_, seen| seen.last + SILENT > now);
        if worker.leaving {
            self.0.remove(&worker.id);
            return;
        }
        let since = self.0.get(&worker.id).map_or(now, |seen| seen.since);
        self.0.insert(worker.id, Seen { worker: worker.clone(), since, last: now });
    }

    /// Those alive.
    pub fn alive(&self, now: i64) -> impl Iterator<Item = &Seen> {
        self.0.values().filter(move |seen| seen.last + SILENT > now)
    }
}
