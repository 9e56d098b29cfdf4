//! Wake-ups: hints that a queue may have work (N1).

use std::{any::Any, collections::HashMap, fmt, sync::Arc, task::Poll};

use tokio::sync::watch;

/// A wake-up for some queues, from [`Queue::watch`](crate::Queue::watch). Bound to no runtime.
pub struct Watch {
    queues: Vec<watch::Receiver<u64>>,
    _keep: Option<Arc<dyn Any + Send + Sync>>,
}

impl Watch {
    /// Over the receivers of some queues; `keep` lives as long as the handle, for a driver whose
    /// listener ends with its last watcher.
    pub fn new(
        queues: Vec<watch::Receiver<u64>>,
        keep: Option<Arc<dyn Any + Send + Sync>>,
    ) -> Self {
        Self { queues, _keep: keep }
    }

    /// Waits until one of the queues may have work. At once when that was said since the last
    /// call, or since the handle was taken.
    ///
    /// # Cancel safety
    /// A dropped wait misses nothing: the next call returns at once.
    pub async fn woken(&mut self) {
        let mut waits: Vec<_> =
            self.queues.iter_mut().map(|queue| Some(Box::pin(queue.changed()))).collect();
        std::future::poll_fn(|context| {
            for wait in &mut waits {
                match wait.as_mut().map(|changed| changed.as_mut().poll(context)) {
                    Some(Poll::Ready(Ok(()))) => return Poll::Ready(()),
                    // Its driver is gone and wakes nobody any more: the poll interval remains.
                    Some(Poll::Ready(Err(_))) => *wait = None,
                    Some(Poll::Pending) | None => {}
                }
            }
            Poll::Pending
        })
        .await;
        drop(waits);
        // One wake-up for all that was said so far, not one per queue.
        for queue in &mut self.queues {
            queue.mark_unchanged();
        }
    }
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Watch({} queues)", self.queues.len())
    }
}

/// The sending half that a driver keeps: one channel per queue that somebody watches.
#[derive(Debug, Default)]
pub struct Bell(std::sync::Mutex<HashMap<String, watch::Sender<u64>>>);

impl Bell {
    /// Receivers for `queues`.
    pub fn watch(&self, queues: &[String]) -> Vec<watch::Receiver<u64>> {
        let mut senders = self.lock();
        let mut receiver = |queue: &String| {
            senders.entry(queue.clone()).or_insert_with(|| watch::channel(0).0).subscribe()
        };
        queues.iter().map(&mut receiver).collect()
    }

    /// Wakes the watchers of `queue`.
    pub fn ring(&self, queue: &str) {
        if let Some(sender) = self.lock().get(queue) {
            sender.send_modify(|count| *count = count.wrapping_add(1));
        }
    }

    /// Wakes everybody: after a reconnect, when what was missed is unknown.
    pub fn ring_all(&self) {
        for sender in self.lock().values() {
            sender.send_modify(|count| *count = count.wrapping_add(1));
        }
    }

    /// The queues that somebody watches now.
    pub fn watched(&self) -> Vec<String> {
        let watched = |(_, sender): &(&String, &watch::Sender<u64>)| sender.receiver_count() > 0;
        self.lock().iter().filter(watched).map(|(queue, _)| queue.clone()).collect()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<String, watch::Sender<u64>>> {
        // Nothing under this lock can panic half way, so a poisoned map is whole.
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn one_ring_wakes_once_and_none_is_missed() {
        let bell = Bell::default();
        let queues = ["a".to_owned(), "b".to_owned()];
        let mut watch = Watch::new(bell.watch(&queues), None);
        bell.ring("b");
        bell.ring("a");
        watch.woken().await;
        let quiet = tokio::time::timeout(std::time::Duration::from_millis(20), watch.woken());
        assert!(quiet.await.is_err());
        let (_, ()) = tokio::join!(watch.woken(), async {
            tokio::task::yield_now().await;
            bell.ring("a");
        });
        assert_eq!(bell.watched().len(), 2);
    }
}
