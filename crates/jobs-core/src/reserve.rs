//! What a worker asks for when it reserves; built checked.

use std::time::Duration;

use crate::{Nonce, queue::MAX_RESERVE};

/// How long a claim lasts without a renewal, 1 s to 1 h; the default is 20 s.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Lease(Duration);

impl Lease {
    /// Of this length.
    ///
    /// # Errors
    /// [`BadRequest`] outside 1 s to 1 h.
    pub fn new(length: Duration) -> Result<Self, BadRequest> {
        let fits = (Duration::from_secs(1)..=Duration::from_secs(3600)).contains(&length);
        if fits { Ok(Self(length)) } else { Err(BadRequest::Lease(length)) }
    }

    /// Its length.
    pub fn length(self) -> Duration {
        self.0
    }
}

impl Default for Lease {
    fn default() -> Self {
        Self(Duration::from_secs(20))
    }
}

/// What to reserve. Built checked, so a driver needs no checks of its own.
///
/// Of the deliveries, at most [`slots`](Self::slots) may be anything this worker knows; up to
/// [`ahead`](Self::ahead) more are held until a slot is free, and may only be of the
/// [`quick`](Self::quick) names and not suspect (R7).
#[derive(Clone, Debug)]
pub struct Reserve {
    queue: String,
    names: Vec<String>,
    worker: String,
    slots: usize,
    ahead: usize,
    quick: Vec<String>,
    lease: Lease,
    nonce: Nonce,
}

impl Reserve {
    /// One job of `names` from `queue` for `worker` (text for people, at most 200 bytes), under
    /// the default lease and a new nonce.
    ///
    /// # Errors
    /// [`BadRequest`] when a name is outside its alphabet or the worker's text too long.
    pub fn new<N: Into<String>>(
        queue: impl Into<String>,
        names: impl IntoIterator<Item = N>,
        worker: impl Into<String>,
    ) -> Result<Self, BadRequest> {
        let (queue, worker) = (queue.into(), worker.into());
        let mut names: Vec<String> = names.into_iter().map(Into::into).collect();
        names.sort_unstable();
        names.dedup();
        if let Some(bad) = names.iter().chain([&queue]).find(|name| !crate::names::is_name(name)) {
            return Err(BadRequest::Name(crate::grant::excerpt(bad)));
        }
        if worker.len() > crate::authorized::MAX_AUTHORIZED_BY || worker.contains('\0') {
            return Err(BadRequest::Worker);
        }
        let (quick, lease, nonce) = (Vec::new(), Lease::default(), Nonce::random());
        Ok(Self { queue, names, worker, slots: 1, ahead: 0, quick, lease, nonce })
    }

    /// Up to this many of any known name, at most [`MAX_RESERVE`].
    pub fn slots(self, slots: usize) -> Self {
        let slots = slots.min(MAX_RESERVE);
        Self { slots, ahead: self.ahead.min(MAX_RESERVE - slots), ..self }
    }

    /// Up to this many more of the known names in `quick`, [`MAX_RESERVE`] in all.
    pub fn ahead<N: Into<String>>(self, ahead: usize, quick: impl IntoIterator<Item = N>) -> Self {
        let ahead = ahead.min(MAX_RESERVE - self.slots);
        let mut quick: Vec<String> = quick.into_iter().map(Into::into).collect();
        quick.retain(|name| self.names.binary_search(name).is_ok());
        quick.sort_unstable();
        quick.dedup();
        Self { ahead, quick, ..self }
    }

    /// Under this lease.
    pub fn lease(self, lease: Lease) -> Self {
        Self { lease, ..self }
    }

    /// With this nonce: to repeat a call whose answer was lost.
    pub fn nonce(self, nonce: Nonce) -> Self {
        Self { nonce, ..self }
    }

    /// From which queue.
    pub fn queue(&self) -> &str {
        &self.queue
    }

    /// The names it knows, sorted.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Who reserves.
    pub fn worker(&self) -> &str {
        &self.worker
    }

    /// How many of any known name.
    pub fn free_slots(&self) -> usize {
        self.slots
    }

    /// How many more of the quick names.
    pub fn held_ahead(&self) -> usize {
        if self.quick.is_empty() { 0 } else { self.ahead }
    }

    /// The names that may be held ahead, sorted; a subset of [`names`](Self::names).
    pub fn quick(&self) -> &[String] {
        &self.quick
    }

    /// Most deliveries: slots and ahead. With 0 the driver answers without I/O.
    pub fn most(&self) -> usize {
        if self.names.is_empty() { 0 } else { self.slots + self.held_ahead() }
    }

    /// May a job be held ahead?
    pub fn may_hold_ahead(&self, name: &str, suspect: bool) -> bool {
        !suspect && self.quick.binary_search_by(|quick| quick.as_str().cmp(name)).is_ok()
    }

    /// The lease asked for.
    pub fn leased_for(&self) -> Lease {
        self.lease
    }

    /// The call's nonce.
    pub fn nonce_of(&self) -> Nonce {
        self.nonce
    }
}

/// A request outside its bounds; nothing was touched.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadRequest {
    /// Not a name's alphabet.
    #[error("{0} is no name: use [a-z0-9][a-z0-9._:-]{{0,63}}")]
    Name(String),
    /// Outside 1 s to 1 h.
    #[error("a lease of {0:?} is outside 1 s to 1 h")]
    Lease(Duration),
    /// Too long, or with a NUL.
    #[error("the worker's name is longer than 200 bytes or has a NUL")]
    Worker,
}
