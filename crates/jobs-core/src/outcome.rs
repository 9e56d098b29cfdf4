//! How a run ends: what the worker says, and what the store answers.

use std::{borrow::Cow, fmt, time::Duration};

use serde::{Deserialize, Serialize};

use crate::{Claim, State, state::Event};

/// Longest stored cause, in bytes: 16 KiB (S4).
pub const MAX_CAUSE: usize = 16 * 1024;

/// Why an attempt ended, as text that every store can keep: at most [`MAX_CAUSE`] bytes, cut on a
/// character boundary; bytes that are not UTF-8 and NUL become the replacement character.
#[derive(Clone, PartialEq, Eq, Hash, Serialize, Deserialize, Default)]
#[serde(from = "String")]
pub struct Cause(String);

impl Cause {
    /// From text.
    pub fn new(text: impl Into<String>) -> Self {
        let mut text = text.into();
        if text.contains('\0') {
            text = text.replace('\0', "\u{fffd}");
        }
        text.truncate(text.floor_char_boundary(MAX_CAUSE));
        Self(text)
    }

    /// From any bytes.
    pub fn from_bytes(bytes: &[u8]) -> Self {
        Self::new(String::from_utf8_lossy(bytes))
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<String> for Cause {
    fn from(text: String) -> Self {
        Self::new(text)
    }
}

impl From<&str> for Cause {
    fn from(text: &str) -> Self {
        Self::new(text)
    }
}

impl From<Cow<'_, str>> for Cause {
    fn from(text: Cow<'_, str>) -> Self {
        Self::new(text)
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

/// How a run ended, decided by the worker. Delays are durations, added to the store's clock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The work happened; the job leaves for history.
    Done,
    /// It failed; again after a delay. The attempt is spent.
    Retry {
        /// How long from the store's now.
        after: Duration,
        /// What went wrong.
        cause: Cause,
    },
    /// It failed for good; a person decides (retry, cancel, delete).
    Park {
        /// What went wrong.
        cause: Cause,
    },
    /// Not now; again after a delay. The attempt is given back.
    Snooze {
        /// How long from the store's now.
        after: Duration,
    },
    /// Not started, or dropped unspent: back in line with its due time and priority, the attempt
    /// given back.
    Release,
    /// Ended as cancelled, by the handler or because an operator asked.
    Cancelled {
        /// Why.
        cause: Cause,
    },
}

/// An [`Outcome`] without its details.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OutcomeKind {
    /// [`Outcome::Done`]
    Done,
    /// [`Outcome::Retry`]
    Retry,
    /// [`Outcome::Park`]
    Park,
    /// [`Outcome::Snooze`]
    Snooze,
    /// [`Outcome::Release`]
    Release,
    /// [`Outcome::Cancelled`]
    Cancelled,
    /// Not said by a worker: the lease ran out and a sweep took the job back.
    Lost,
}

impl Outcome {
    /// Which kind.
    pub fn kind(&self) -> OutcomeKind {
        match self {
            Self::Done => OutcomeKind::Done,
            Self::Retry { .. } => OutcomeKind::Retry,
            Self::Park { .. } => OutcomeKind::Park,
            Self::Snooze { .. } => OutcomeKind::Snooze,
            Self::Release => OutcomeKind::Release,
            Self::Cancelled { .. } => OutcomeKind::Cancelled,
        }
    }

    /// The row of the transition table, [`state::step`](crate::state::step), that it asks for.
    pub fn event(&self) -> Event {
        match self {
            Self::Done => Event::SettleDone,
            Self::Retry { .. } => Event::SettleRetry,
            Self::Park { .. } => Event::SettlePark,
            Self::Snooze { .. } => Event::SettleSnooze,
            Self::Release => Event::SettleRelease,
            Self::Cancelled { .. } => Event::SettleCancelled,
        }
    }

    /// What went wrong, if something did.
    pub fn cause(&self) -> Option<&Cause> {
        match self {
            Self::Retry { cause, .. } | Self::Park { cause } | Self::Cancelled { cause } => {
                Some(cause)
            }
            Self::Done | Self::Snooze { .. } | Self::Release => None,
        }
    }

    /// How long until it is due again, where it is delayed.
    pub fn delay(&self) -> Option<Duration> {
        match self {
            Self::Retry { after, .. } | Self::Snooze { after } => Some(*after),
            _ => None,
        }
    }
}

impl OutcomeKind {
    /// All of them, in the order of their numbers on disk.
    pub const ALL: [Self; 7] = [
        Self::Done,
        Self::Retry,
        Self::Park,
        Self::Snooze,
        Self::Release,
        Self::Cancelled,
        Self::Lost,
    ];

    /// Is an attempt that ended so recorded one by one (S4)? Snoozes and releases are counted.
    pub fn is_recorded(self) -> bool {
        !matches!(self, Self::Snooze | Self::Release)
    }

    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Retry => "retry",
            Self::Park => "park",
            Self::Snooze => "snooze",
            Self::Release => "release",
            Self::Cancelled => "cancelled",
            Self::Lost => "lost",
        }
    }
}

impl fmt::Display for OutcomeKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// One element of [`Queue::settle`](crate::Queue::settle).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settlement {
    /// Which delivery.
    pub claim: Claim,
    /// How it ended.
    pub outcome: Outcome,
}

/// The answer to one settlement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settled {
    /// Done as asked; the job is in this state now (cancelled where a cancel was requested).
    Applied(State),
    /// This claim was settled before, so; nothing changed.
    AlreadyApplied(OutcomeKind),
    /// The claim is not held any more; nothing changed.
    Lost,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cause_is_cut_on_a_character_boundary() {
        let long = "é".repeat(MAX_CAUSE);
        assert_eq!(Cause::new(format!("a{long}")).as_str().len(), MAX_CAUSE - 1);
        assert_eq!(Cause::from_bytes(b"a\xff\0b").as_str(), "a\u{fffd}\u{fffd}b");
    }
}
