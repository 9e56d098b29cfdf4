//! How long runs of each name take: what may be held ahead (K1).

use std::{collections::HashMap, time::Duration};

/// Runs that are looked at, per name.
const WINDOW: usize = 64;
/// Runs before a name may be called quick, and between two looks.
const LOOK_EVERY: usize = 16;
/// A name is quick when its p95 is under this.
const QUICK: Duration = Duration::from_millis(10);
/// Held jobs start within this.
const START_WITHIN: Duration = Duration::from_millis(100);
/// Most jobs held ahead.
pub(crate) const MOST_AHEAD: usize = 128;

/// The run times of every name this worker ran, from hand-over to result, so that a busy
/// application runtime counts as slow.
#[derive(Debug, Default)]
pub(crate) struct Speed(HashMap<String, Runs>);

#[derive(Debug, Default)]
struct Runs {
    times: Vec<Duration>,
    count: usize,
    p95: Option<Duration>,
}

impl Speed {
    /// One run of `name` took `time`.
    pub fn ran(&mut self, name: &str, time: Duration) {
        let runs = match self.0.get_mut(name) {
            Some(runs) => runs,
            None => self.0.entry(name.to_owned()).or_default(),
        };
        if runs.times.len() < WINDOW {
            runs.times.push(time);
        } else {
            runs.times[runs.count % WINDOW] = time;
        }
        runs.count += 1;
        if runs.count % LOOK_EVERY == 0 {
            let mut sorted = runs.times.clone();
            sorted.sort_unstable();
            runs.p95 = sorted.get(sorted.len() * 95 / 100).copied();
        }
    }

    /// `name` is to be measured anew.
    pub fn forget(&mut self, name: &str) {
        self.0.remove(name);
    }

    /// The names that may be held ahead.
    pub fn quick(&self) -> Vec<String> {
        let quick = self.0.iter().filter(|(_, runs)| runs.p95.is_some_and(|p95| p95 < QUICK));
        quick.map(|(name, _)| name.clone()).collect()
    }

    /// How many jobs of the quick names `slots` slots start within the time a job may be held.
    pub fn ahead(&self, slots: usize) -> usize {
        let quick = self.0.values().filter_map(|runs| runs.p95.filter(|p95| *p95 < QUICK));
        let Some(slowest) = quick.max() else { return 0 };
        let each = START_WITHIN.as_micros() / slowest.as_micros().max(50);
        usize::try_from(each).unwrap_or(MOST_AHEAD).saturating_mul(slots).min(MOST_AHEAD)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn speed(name: &str, millis: u64) -> Speed {
        let mut speed = Speed::default();
        for _ in 0..LOOK_EVERY {
            speed.ran(name, Duration::from_millis(millis));
        }
        speed
    }

    #[test]
    fn only_measured_quick_names_are_held_ahead() {
        assert_eq!(Speed::default().ahead(4), 0);
        assert_eq!((speed("a", 5).quick(), speed("a", 5).ahead(4)), (vec!["a".to_owned()], 80));
        assert_eq!((speed("a", 10).quick(), speed("a", 10).ahead(4)), (vec![], 0));
        assert_eq!((speed("a", 0).ahead(4), speed("a", 1).ahead(1)), (MOST_AHEAD, 100));
        assert_eq!(speed("a", 1).ahead(0), 0);
    }

    #[test]
    fn one_slow_run_in_a_window_is_forgiven_and_a_slow_name_is_noticed() {
        let mut speed = speed("a", 1);
        (0..47).for_each(|_| speed.ran("a", Duration::from_millis(1)));
        speed.ran("a", Duration::from_secs(1));
        assert_eq!(speed.quick(), ["a"]);
        (0..LOOK_EVERY).for_each(|_| speed.ran("a", Duration::from_secs(1)));
        assert!(speed.quick().is_empty());
    }
}
