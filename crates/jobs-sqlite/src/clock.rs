//! The store's clock as one handle knows it.

use std::{
    sync::atomic::{AtomicI64, Ordering},
    time::Instant,
};

use jobs_core::Timestamp;

/// Goes on from the highest "now" seen by the time that really passed, so that a machine's clock
/// that steps back neither resurrects what is over nor stops what is to come.
#[derive(Debug)]
pub(crate) struct Clock {
    start: Instant,
    /// What it showed at `start`, by the highest reading since.
    anchor: AtomicI64,
    /// How far this process's clock is off, for the suite.
    off: i64,
}

impl Clock {
    /// On a machine whose clock is off by so many milliseconds; by none outside the suite.
    pub fn off_by(off: i64) -> Self {
        let anchor = AtomicI64::new(system_now().saturating_add(off));
        Self { start: Instant::now(), anchor, off }
    }

    /// Never less than what was seen and the time since.
    pub fn now(&self) -> i64 {
        let shown = self.anchor.load(Ordering::Relaxed).saturating_add(self.elapsed());
        system_now().saturating_add(self.off).max(shown)
    }

    /// Takes note of a reading of the file's clock.
    pub fn seen(&self, now: i64) {
        self.anchor.fetch_max(now.saturating_sub(self.elapsed()), Ordering::Relaxed);
    }

    fn elapsed(&self) -> i64 {
        i64::try_from(self.start.elapsed().as_millis()).unwrap_or(i64::MAX)
    }
}

/// The system's clock, which only the high-water mark in the file makes the store's.
pub(crate) fn system_now() -> i64 {
    Timestamp::now().as_millisecond()
}
