//! Instants of a clock that the judge does not own.

use std::time::{Duration, Instant};

/// An instant in milliseconds of the store's time since the history began, as far as it is known:
/// not before `lo`, not after `hi`.
#[derive(Clone, Copy, Debug)]
pub struct Time {
    pub lo: i64,
    pub hi: i64,
}

/// A store's clock may tick on another millisecond than the judge's.
const TICK: i64 = 2;

impl Time {
    /// `length` later.
    pub fn after(self, length: Duration) -> Self {
        let length = millis(length);
        Self { lo: self.lo + length, hi: self.hi + length }
    }

    /// Has it passed at `now`? `None`: it may have.
    pub fn has_passed(self, now: Self) -> Option<bool> {
        if self.hi + TICK <= now.lo {
            return Some(true);
        }
        (self.lo - TICK > now.hi).then_some(false)
    }

    /// Is it earlier than `other`, for certain?
    pub fn before(self, other: Self) -> bool {
        self.hi + TICK < other.lo
    }
}

/// The judge's clock: real time and what was let go by.
#[derive(Debug)]
pub struct Clock {
    started: Instant,
    aged: i64,
}

impl Clock {
    pub fn start() -> Self {
        Self { started: Instant::now(), aged: 0 }
    }

    pub fn age(&mut self, by: Duration) {
        self.aged += millis(by);
    }

    /// Now, where an operation began at `since`.
    pub fn since(&self, since: i64) -> Time {
        Time { lo: since, hi: self.now() }
    }

    pub fn now(&self) -> i64 {
        self.aged + millis(self.started.elapsed())
    }
}

fn millis(length: Duration) -> i64 {
    i64::try_from(length.as_millis()).unwrap_or(i64::MAX / 4)
}
