//! How long finished jobs stay as history.

use std::time::Duration;

/// Finished jobs stay by age *and* number, whichever ends first (S5). Whatever is set here, zero
/// included, a stub answers P2 and S3 for [`STUB`](crate::queue::STUB) after the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    /// How long a done job stays; 24 h unless set.
    pub done: Duration,
    /// How many done jobs of one queue stay, the newest; 100,000 unless set.
    pub done_per_queue: u64,
    /// How long a cancelled job stays; 7 days unless set.
    pub cancelled: Duration,
}

impl Default for Retention {
    fn default() -> Self {
        let day = Duration::from_secs(24 * 3600);
        Self { done: day, done_per_queue: 100_000, cancelled: day * 7 }
    }
}
