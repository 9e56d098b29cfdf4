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
    /// What it showed at `start`, by the highest reading since, in microseconds. In milliseconds, what
    /// is cut when a reading is seen and when it is shown added up: processes that commit less than
    /// one apart would drive each other ahead of the time, by half and more.
    anchor: AtomicI64,
    /// How far this process's clock is off, for the suite.
    off: i64,
}

impl Clock {
    /// On a machine whose clock is off by so many milliseconds; by none outside the suite.
    pub fn off_by(off: i64) -> Self {
        let anchor = AtomicI64::new(micros(system_now().saturating_add(off)));
        Self { start: Instant::now(), anchor, off }
    }

    /// Never less than what was seen and the time since.
    pub fn now(&self) -> i64 {
        let shown = self.anchor.load(Ordering::Relaxed).saturating_add(self.elapsed());
        system_now().saturating_add(self.off).max(shown.div_euclid(1000))
    }

    /// Takes note of a reading of the file's clock.
    pub fn seen(&self, now: i64) {
        self.anchor.fetch_max(micros(now).saturating_sub(self.elapsed()), Ordering::Relaxed);
    }

    fn elapsed(&self) -> i64 {
        i64::try_from(self.start.elapsed().as_micros()).unwrap_or(i64::MAX)
    }
}

fn micros(millis: i64) -> i64 {
    millis.saturating_mul(1000)
}

/// The system's clock, which only the high-water mark in the file makes the store's.
pub(crate) fn system_now() -> i64 {
    Timestamp::now().as_millisecond()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// Two processes that take note of each other's commits all the time, ahead of the system's clock.
    #[test]
    fn exchange_gains_no_time() {
        let clocks = [Clock::off_by(0), Clock::off_by(0)];
        let begin = system_now() + 100_000;
        clocks[0].seen(begin);
        let start = Instant::now();
        while start.elapsed() < Duration::from_millis(300) {
            for (shows, sees) in [(0, 1), (1, 0)] {
                clocks[sees].seen(clocks[shows].now());
            }
        }
        let passed = i64::try_from(start.elapsed().as_millis()).expect("short");
        let gained = clocks[0].now().max(clocks[1].now()) - begin - passed;
        assert!(gained <= 1, "{gained} ms in {passed} ms");
    }
}
