//! The fence: what names one delivery of one job, and what a stale worker is refused by.

use serde::{Deserialize, Serialize};

use crate::JobRef;

/// One delivery: the job, the store's counter and the reserve call's random number (R2).
///
/// Both numbers are compared on every later write. The fence is strictly greater than every
/// earlier one of the job that the store still knows, so it orders holders, and a handler may hand
/// it to an outside resource as a fencing token (Kleppmann, "How to do distributed locking", 2016).
/// The nonce is unique, so a holder whose claim was lost in a failover is refused although the
/// counter was issued again.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Claim {
    /// The job held.
    pub job: JobRef,
    /// Which delivery of that job, counting up with every change of ownership.
    pub fence: i64,
    /// The reserve call that made it.
    pub nonce: Nonce,
}

/// Random per reserve call, 63 bits. Repeating a reserve with it answers what it already took (R3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Nonce(pub i64);

impl Nonce {
    /// A new random one; never 0, which no delivery has.
    pub fn random() -> Self {
        let bits = uuid::Uuid::new_v4().as_u64_pair();
        Self(((bits.0 ^ bits.1.rotate_left(32)) >> 1).max(1) as i64)
    }
}
