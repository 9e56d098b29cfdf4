//! The store's own clock.

use std::time::{Duration, Instant};

use jobs_core::{
    AuthorizedJob, Timestamp,
    time::{delay_millis, from_millis},
};

/// Milliseconds that only grow. Letting time go by moves this clock ahead of the one it shows, so
/// every stored instant seems older, and no row is touched.
#[derive(Clone, Debug)]
pub(super) struct Clock {
    started: Instant,
    shown_at_start: i64,
    ahead: i64,
}

impl Clock {
    pub fn start() -> Self {
        let shown_at_start = Timestamp::now().as_millisecond();
        Self { started: Instant::now(), shown_at_start, ahead: 0 }
    }

    /// Now, as it is stored.
    pub fn now(&self) -> i64 {
        self.shown() + self.ahead
    }

    /// Lets `by` go by.
    pub fn age(&mut self, by: Duration) {
        self.ahead += delay_millis(by);
    }

    /// A stored instant as callers see it.
    pub fn show(&self, stored: i64) -> Timestamp {
        from_millis(stored - self.ahead)
    }

    /// When a job pushed now is due.
    pub fn due_at(&self, job: &AuthorizedJob) -> i64 {
        job.due_at(self.shown()) + self.ahead
    }

    fn shown(&self) -> i64 {
        self.shown_at_start + delay_millis(self.started.elapsed())
    }
}
