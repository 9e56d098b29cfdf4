//! What drivers share and callers do not need: how a push is cut, how small values become numbers on
//! disk, and the broken connection of the suite's fault cases.

use std::{
    borrow::Borrow,
    collections::HashSet,
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use crate::{AuthorizedJob, Key, KeyScope, job::Timeout};

/// How many jobs from the front share neither an id nor a key: what one statement can store, because
/// inside one push the first of each wins (P3).
pub fn distinct<J: Borrow<AuthorizedJob>>(jobs: &[J]) -> usize {
    let keyless = jobs.iter().all(|job| job.borrow().key.is_none());
    if keyless && jobs.windows(2).all(|pair| pair[0].borrow().id < pair[1].borrow().id) {
        return jobs.len();
    }
    let mut ids = HashSet::with_capacity(jobs.len());
    let mut keys = HashSet::new();
    for (at, job) in jobs.iter().map(Borrow::borrow).enumerate() {
        let key = job.key.as_ref().map(|key| (job.tenant.as_str(), key.text.as_str()));
        if !ids.insert((job.id, job.tenant.as_str())) || key.is_some_and(|key| !keys.insert(key)) {
            return at;
        }
    }
    jobs.len()
}

/// A timeout as a number: 0 the type's, −1 never, else nanoseconds.
pub fn timeout_number(timeout: Timeout) -> i64 {
    match timeout {
        Timeout::Default => 0,
        Timeout::Never => -1,
        Timeout::After(limit) => i64::try_from(limit.as_nanos()).unwrap_or(i64::MAX),
    }
}

/// The timeout of a number, whatever it is.
pub fn timeout_of(number: i64) -> Timeout {
    match u64::try_from(number) {
        Ok(0) => Timeout::Default,
        Ok(nanos) => Timeout::After(Duration::from_nanos(nanos)),
        Err(_) => Timeout::Never,
    }
}

/// A key's scope as a number: 0 no key, 1 until finished, 2 until started.
pub fn scope_number(key: Option<&Key>) -> u8 {
    match key.map(|key| key.scope) {
        None => 0,
        Some(KeyScope::UntilFinished) => 1,
        Some(KeyScope::UntilStarted) => 2,
    }
}

/// The scope of a number, whatever it is.
pub fn scope_of(number: i64) -> KeyScope {
    if number == 2 { KeyScope::UntilStarted } else { KeyScope::UntilFinished }
}

/// A stored count, whatever it is: the nearest one that there can be.
pub fn small(number: i64) -> u32 {
    u32::try_from(number).unwrap_or(if number < 0 { 0 } else { u32::MAX })
}

/// Breaks a connection after a number of round trips: once, for the suite's fault cases, or again and
/// again.
#[derive(Debug)]
pub struct Cut {
    left: AtomicUsize,
    /// Zero: once.
    every: usize,
}

impl Cut {
    /// After this many, counted from 1.
    pub fn after(round_trips: usize) -> Self {
        Self { left: AtomicUsize::new(round_trips), every: 0 }
    }

    /// After this many, again and again.
    pub fn every(round_trips: usize) -> Self {
        Self { left: AtomicUsize::new(round_trips), every: round_trips }
    }

    /// Counts a round trip: is its answer lost?
    pub fn now(&self) -> bool {
        let next = |left: usize| if left == 1 { Some(self.every) } else { left.checked_sub(1) };
        self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next) == Ok(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Job, authorized, grant_without_user};

    fn job(id: u128, key: Option<&str>) -> AuthorizedJob {
        let grant = grant_without_user("test", "jobs.push", "acme").expect("a grant");
        let mut job = Job::new(&grant, "a", &()).expect("a payload");
        job.id = crate::JobId(uuid::Uuid::from_u128(id));
        authorized(&grant, if let Some(key) = key { job.key(key) } else { job }).expect("covered")
    }

    #[test]
    fn a_statement_ends_before_an_id_or_key_comes_again() {
        let count = |jobs: &[(u128, Option<&str>)]| {
            distinct(&jobs.iter().map(|(id, key)| job(*id, *key)).collect::<Vec<_>>())
        };
        assert_eq!(count(&[]), 0);
        assert_eq!(count(&[(1, None), (2, None), (3, None)]), 3);
        assert_eq!(count(&[(2, None), (1, None), (2, None)]), 2);
        assert_eq!(count(&[(1, Some("k")), (2, Some("l")), (3, Some("k"))]), 2);
    }

    #[test]
    fn numbers_round_trip_and_damage_is_the_nearest_value() {
        let second = Timeout::After(Duration::from_secs(1));
        for timeout in [Timeout::Default, Timeout::Never, second] {
            assert_eq!(timeout_of(timeout_number(timeout)), timeout);
        }
        assert_eq!([small(-1), small(5), small(i64::MAX)], [0, 5, u32::MAX]);
    }

    #[test]
    fn a_cut_happens_once() {
        let cut = Cut::after(2);
        assert_eq!([cut.now(), cut.now(), cut.now()], [false, true, false]);
        let cut = Cut::every(2);
        assert_eq!([(); 4].map(|()| cut.now()), [false, true, false, true]);
    }
}
