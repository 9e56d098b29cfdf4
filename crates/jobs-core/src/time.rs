//! Times on the wire: UTC, whole milliseconds since 1970, decided by the store's clock.
//!
//! A process never sends "now". It sends durations, which the store adds to its own clock, and an
//! absolute `run_at` only where the application gave one. `run_at` rounds up and "now" rounds down,
//! so a job never starts early (P1, P4).

use std::time::Duration;

use jiff::Timestamp;

/// The last `run_at`: 2200-12-31T23:59:59.999Z (G5). A delay that would pass it ends there.
pub const MAX_MILLIS: i64 = 7_289_654_399_999;

/// `time` in milliseconds, rounded up: the form of a `run_at`.
pub fn millis_up(time: Timestamp) -> i64 {
    let nanos = time.as_nanosecond();
    i64::try_from(-(-nanos).div_euclid(1_000_000)).unwrap_or(MAX_MILLIS)
}

/// The time `millis` after 1970. Outside what a [`Timestamp`] holds, the nearest one it does.
pub fn from_millis(millis: i64) -> Timestamp {
    let nearest = if millis < 0 { Timestamp::MIN } else { Timestamp::MAX };
    Timestamp::from_millisecond(millis).unwrap_or(nearest)
}

/// `delay` in whole milliseconds, rounded up, at most [`MAX_MILLIS`].
pub fn delay_millis(delay: Duration) -> i64 {
    i64::try_from(delay.as_nanos().div_ceil(1_000_000)).unwrap_or(MAX_MILLIS).min(MAX_MILLIS)
}

/// `now` plus `delay`, at most [`MAX_MILLIS`]: when a job delayed by the store is due.
pub fn after(now: i64, delay: Duration) -> i64 {
    now.saturating_add(delay_millis(delay)).min(MAX_MILLIS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn run_at_rounds_up_and_delays_saturate() {
        let at = |ns: i128| millis_up(Timestamp::from_nanosecond(ns).unwrap());
        assert_eq!([at(0), at(1), at(1_000_000), at(1_000_001)], [0, 1, 1, 2]);
        assert_eq!([at(-1), at(-1_000_000), at(-1_000_001)], [0, -1, -1]);
        assert_eq!(after(5, Duration::MAX), MAX_MILLIS);
        assert_eq!(after(5, Duration::from_nanos(1)), 6);
        assert_eq!(from_millis(MAX_MILLIS).to_string(), "2200-12-31T23:59:59.999Z");
        assert_eq!(from_millis(i64::MAX), Timestamp::MAX);
    }
}
