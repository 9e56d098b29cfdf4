//! The claims of a worker process, for writes that must be refused.

use std::{
    collections::{HashSet, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use jobs_core::Claim;

use super::ledger::now;

/// Claims kept for late writes.
const KEPT: usize = 500;

/// Those that are held, and those that are over: their settlements were answered, or the store said
/// that they are lost.
#[derive(Clone, Debug, Default)]
pub struct Claims(Arc<Mutex<Known>>);

#[derive(Debug, Default)]
struct Known {
    held: HashSet<Claim>,
    over: VecDeque<(i64, Claim)>,
}

impl Claims {
    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// These were delivered.
    pub fn taken(&self, claims: &[Claim]) {
        self.known().held.extend(claims.iter().cloned());
    }

    /// This one is over, and kept for a late write if that could do harm.
    pub fn over(&self, claim: &Claim, harms: bool) {
        let mut known = self.known();
        known.held.remove(claim);
        if harms {
            known.over.push_back((now(), claim.clone()));
        }
        if known.over.len() > KEPT {
            known.over.pop_front();
        }
    }

    /// One that was over `age` microseconds ago; `newest` takes the youngest of these.
    pub fn take(&self, age: i64, newest: bool) -> Option<Claim> {
        let mut known = self.known();
        let old = known.over.partition_point(|(at, _)| *at < now() - age);
        let at = if newest { old.checked_sub(1)? } else { 0 };
        if old == 0 { None } else { known.over.remove(at).map(|(_, claim)| claim) }
    }

    /// One that is held, as far as is known.
    pub fn held(&self, random: &mut fastrand::Rng) -> Option<Claim> {
        random.choice(self.known().held.iter()).cloned()
    }
}
