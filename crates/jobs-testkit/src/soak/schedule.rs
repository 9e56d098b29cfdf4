//! The faults of a run: which, when and how long, all from one seed.

use std::time::Duration;

use fastrand::Rng;
use serde::{Deserialize, Serialize};

use super::Faults;

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A worker process is killed, and started again.
    Kill,
    /// A worker process is stopped for longer than its lease.
    Stop,
    /// A worker process is stopped for less than its lease, which it keeps.
    Nap,
    /// A worker process is replaced by one whose connection breaks after some reply.
    Cut,
    /// A worker process is replaced by one whose clock is off by minutes.
    Clock,
    /// The store is slow.
    Hold,
    /// The store's server is restarted.
    Restart,
    /// Handlers block the runtimes of workers for longer than a lease.
    Block,
    /// A lane, or a whole queue, is paused for a while.
    Pause,
    /// Operators cancel, retry and delete what runs and waits.
    Verbs,
}

impl Kind {
    /// All.
    pub const ALL: [Self; 10] = [
        Self::Kill,
        Self::Stop,
        Self::Nap,
        Self::Cut,
        Self::Clock,
        Self::Hold,
        Self::Restart,
        Self::Block,
        Self::Pause,
        Self::Verbs,
    ];

    /// Can it be done to a store that has these?
    pub fn exists(self, faults: Faults) -> bool {
        match self {
            Self::Cut => faults.cut,
            Self::Clock => faults.clock,
            Self::Hold => faults.hold,
            Self::Restart => faults.restart,
            _ => true,
        }
    }
}

/// One fault.
#[derive(Clone, Debug, PartialEq)]
pub struct Fault {
    /// When it begins, from the start of the run.
    pub at: Duration,
    /// Which.
    pub kind: Kind,
    /// How long it lasts, where it lasts.
    pub length: Duration,
    /// Which worker, queue or lane, modulo how many there are.
    pub target: usize,
    /// What else it needs: the round trip of a cut, the offset of a clock.
    pub number: i64,
}

/// The faults of a run from `seed`, one every few seconds. Kinds are dealt like cards, so that each
/// occurs before one occurs again, and a short run has them all.
pub fn schedule(seed: u64, length: Duration, faults: Faults) -> Vec<Fault> {
    let mut random = Rng::with_seed(seed);
    let (mut all, mut ahead) = (Vec::new(), 0);
    let mut deck: Vec<Kind> = Vec::new();
    // In a run of seconds they come closer together.
    let (least, most) = if length < Duration::from_secs(60) { (1500, 2500) } else { (2500, 6500) };
    let mut at = Duration::from_secs(2);
    // The last one ends with the run.
    while at + Duration::from_secs(3) < length {
        let kind = match deck.pop() {
            Some(kind) => kind,
            None => {
                deck = Kind::ALL.into_iter().filter(|kind| kind.exists(faults)).collect();
                random.shuffle(&mut deck);
                continue;
            }
        };
        all.push(fault(&mut random, at, kind, &mut ahead));
        at += Duration::from_millis(random.u64(least..most));
    }
    all
}

/// `ahead` is how far the most advanced clock was ahead so far: one that is ahead again is so of all
/// before, or a store's clock that goes on from the highest would not notice.
fn fault(random: &mut Rng, at: Duration, kind: Kind, ahead: &mut i64) -> Fault {
    let millis = match kind {
        Kind::Kill => random.u64(200..2000),
        // Past the lease, and sometimes past the sweep that takes it back.
        Kind::Stop => random.u64(2500..8000),
        Kind::Nap => random.u64(1000..1800),
        Kind::Hold => random.u64(1000..5000),
        Kind::Pause => random.u64(1000..4000),
        Kind::Verbs => random.u64(1500..3000),
        Kind::Cut | Kind::Clock | Kind::Restart | Kind::Block => 0,
    };
    let number = match kind {
        Kind::Cut => random.i64(2..400),
        Kind::Clock if random.bool() => {
            *ahead += random.i64(30_000..600_000);
            *ahead
        }
        Kind::Clock => -random.i64(30_000..600_000),
        _ => random.i64(0..1000),
    };
    let target = random.usize(0..1000);
    Fault { at, kind, length: Duration::from_millis(millis), target, number }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: Faults = Faults { cut: true, clock: true, hold: true, restart: true };

    #[test]
    fn a_seed_is_a_schedule() {
        let minute = Duration::from_secs(60);
        assert_eq!(schedule(7, minute, ALL), schedule(7, minute, ALL));
        assert_ne!(schedule(7, minute, ALL), schedule(8, minute, ALL));
    }

    #[test]
    fn a_minute_has_every_kind() {
        for seed in 0..100 {
            let faults = schedule(seed, Duration::from_secs(70), ALL);
            for kind in Kind::ALL {
                assert!(faults.iter().any(|fault| fault.kind == kind), "{seed}: no {kind:?}");
            }
        }
    }

    #[test]
    fn a_clock_that_is_ahead_is_ahead_of_all_before() {
        for seed in 0..20 {
            let faults = schedule(seed, Duration::from_secs(1800), ALL);
            let clocks = faults.iter().filter(|fault| fault.kind == Kind::Clock);
            let (ahead, behind): (Vec<i64>, Vec<i64>) =
                clocks.map(|fault| fault.number).partition(|number| *number > 0);
            assert!(ahead.len() > 5 && behind.len() > 5, "{seed}");
            assert!(ahead.windows(2).all(|pair| pair[1] - pair[0] >= 30_000), "{ahead:?}");
        }
    }

    #[test]
    fn what_a_store_lacks_is_not_done_to_it() {
        let none = Faults { restart: false, hold: false, ..ALL };
        let faults = schedule(1, Duration::from_secs(600), none);
        assert!(faults.iter().all(|fault| fault.kind.exists(none)) && faults.len() > 90);
    }
}
