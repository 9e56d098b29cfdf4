//! Wake-ups (N1): at once inside a handle, by polling across handles and processes.
//!
//! Each queue counts the group commits that brought it work. The writer rings after its own
//! commit. For the commits of others the reader glances at the WAL file (see `glance.rs`), and
//! only while somebody watches; when it moved, the counts say which queues to ring. Rejected: a
//! file watcher, which differs by system and misses network mounts of containers.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError, Weak},
};

use jobs_core::wake::{Bell, Watch};
use tokio::sync::Notify;

/// What a handle's threads and watchers share.
#[derive(Debug, Default)]
pub(crate) struct Wake {
    bell: Bell,
    seen: Mutex<HashMap<String, i64>>,
    /// Somebody began to watch.
    pub watched: Notify,
    /// The worker's handles that write through this one's thread, which wakes them too.
    own: Mutex<Vec<Weak<Wake>>>,
}

impl Wake {
    /// For a handle that writes through this one's thread and reads by itself.
    pub fn another(self: &Arc<Self>) -> Arc<Self> {
        let another = Arc::new(Self::default());
        let mut own = self.own.lock().unwrap_or_else(PoisonError::into_inner);
        own.retain(|wake| wake.strong_count() > 0);
        own.push(Arc::downgrade(&another));
        another
    }

    fn others(&self) -> Vec<Arc<Self>> {
        let own = self.own.lock().unwrap_or_else(PoisonError::into_inner);
        own.iter().filter_map(Weak::upgrade).collect()
    }

    pub fn watch(&self, queues: &[String]) -> Watch {
        let watch = Watch::new(self.bell.watch(queues), None);
        self.watched.notify_one();
        watch
    }

    pub fn is_watched(&self) -> bool {
        !self.bell.watched().is_empty()
    }

    pub fn ring_all(&self) {
        self.bell.ring_all();
        self.others().iter().for_each(|wake| wake.ring_all());
    }

    pub fn ring(&self, queue: &str) {
        self.bell.ring(queue);
        self.others().iter().for_each(|wake| wake.ring(queue));
    }

    /// Rings the queues whose count grew since it was last seen, each once.
    pub fn committed(&self, counts: Vec<(String, i64)>) {
        self.others().iter().for_each(|wake| wake.committed(counts.clone()));
        for (queue, count) in counts {
            let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
            let last = seen.insert(queue.clone(), count);
            if last.is_some_and(|last| last >= count) {
                seen.insert(queue, last.unwrap_or(count));
                continue;
            }
            drop(seen);
            self.bell.ring(&queue);
        }
    }
}
