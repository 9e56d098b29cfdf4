//! When a failed attempt is tried again (K6).

use std::time::Duration;

/// Deliveries before a job is parked, unless the job or its type says otherwise (R7).
pub const DEFAULT_MAX_ATTEMPTS: u32 = 5;

/// min(15 s · 2^(attempt−1), 1 h) for the attempt that just failed; 0 counts as 1.
///
/// With five attempts, runs start at 0, 15, 45, 105 and 225 s: long enough to outlive a rate limit
/// of a minute, which a schedule of 2, 4, 8, 16 s is not.
///
/// - **K6** Exact for every `u32` (`k6_backoff_is_exact_for_every_attempt`).
pub fn exponential_backoff(attempt: u32) -> Duration {
    const FIRST: u64 = 15;
    const CAP: u64 = 3600;
    let doublings = attempt.max(1) - 1;
    // 2^8 · 15 s is past the cap already; the shift can not overflow below it.
    let seconds = if doublings >= 8 { CAP } else { (FIRST << doublings).min(CAP) };
    Duration::from_secs(seconds)
}

/// 90 to 100 % of `delay`, at random: jitter only shortens, so a stated delay is an upper bound.
pub fn jittered(delay: Duration) -> Duration {
    // In floating point, the longest delay times almost one is more than a Duration holds.
    let seconds = delay.as_secs_f64() * (0.9 + 0.1 * fastrand::f64());
    Duration::try_from_secs_f64(seconds).unwrap_or(delay).min(delay)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn k6_backoff_is_exact_for_every_attempt() {
        let seconds = |attempt| exponential_backoff(attempt).as_secs();
        let first: Vec<_> = (0..=10).map(seconds).collect();
        assert_eq!(first, [15, 15, 30, 60, 120, 240, 480, 960, 1920, 3600, 3600]);
        for attempt in [33, 34, 63, 64, 65, 1 << 20, u32::MAX - 1, u32::MAX] {
            assert_eq!(seconds(attempt), 3600, "{attempt}");
        }
        let starts = (1..5).map(seconds).scan(0, |at, delay| {
            *at += delay;
            Some(*at)
        });
        assert_eq!(starts.collect::<Vec<_>>(), [15, 45, 105, 225]);
    }

    #[test]
    fn k6_jitter_only_shortens() {
        for _ in 0..10_000 {
            let delay = jittered(Duration::from_secs(100));
            assert!((90..=100).contains(&delay.as_secs()), "{delay:?}");
        }
    }
}
