//! The states of a job and every way between them, as one table.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

/// Where a job is. *Live* is scheduled, ready, running and parked; the rest is history.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// Not due yet.
    Scheduled,
    /// In line.
    Ready,
    /// Held under a lease.
    Running,
    /// Gave up; waits for a person.
    Parked,
    /// The work happened.
    Done,
    /// Ended without it.
    Cancelled,
}

impl State {
    /// All of them, in the order of their numbers on disk.
    pub const ALL: [Self; 6] =
        [Self::Scheduled, Self::Ready, Self::Running, Self::Parked, Self::Done, Self::Cancelled];

    /// Scheduled, ready, running or parked.
    pub fn is_live(self) -> bool {
        !matches!(self, Self::Done | Self::Cancelled)
    }

    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Scheduled => "scheduled",
            Self::Ready => "ready",
            Self::Running => "running",
            Self::Parked => "parked",
            Self::Done => "done",
            Self::Cancelled => "cancelled",
        }
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The text is no state.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0} is no state: use scheduled, ready, running, parked, done or cancelled")]
pub struct NoSuchState(String);

impl FromStr for State {
    type Err = NoSuchState;

    fn from_str(text: &str) -> Result<Self, NoSuchState> {
        let found = Self::ALL.into_iter().find(|state| state.as_str() == text);
        found.ok_or_else(|| NoSuchState(crate::grant::excerpt(text)))
    }
}

/// What can happen to a stored job. The first group comes from the holder of its claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "each is the verb of that name")]
pub enum Event {
    SettleDone,
    SettleRetry,
    SettleSnooze,
    SettleRelease,
    SettlePark,
    SettleCancelled,
    Reserve,
    LoseLease,
    OperatorCancel,
    OperatorRetry,
    OperatorDelete,
}

impl Event {
    /// All of them.
    pub const ALL: [Self; 11] = [
        Self::SettleDone,
        Self::SettleRetry,
        Self::SettleSnooze,
        Self::SettleRelease,
        Self::SettlePark,
        Self::SettleCancelled,
        Self::Reserve,
        Self::LoseLease,
        Self::OperatorCancel,
        Self::OperatorRetry,
        Self::OperatorDelete,
    ];
}

/// What the table looks at beside the state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// run_at ≤ the store's now, whatever the state says.
    pub due: bool,
    /// Running, and the lease is over.
    pub expired: bool,
    /// An operator asked for the running job's end.
    pub cancel_requested: bool,
    /// attempt < max attempts.
    pub attempts_left: bool,
}

/// What becomes of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// It is in this state now.
    To(State),
    /// Running on, with the cancel flag set.
    CancelRequested,
    /// The row is gone.
    Gone,
    /// Nothing happens; the answer names the state.
    Refused,
}

/// The transition table. A job in no state (a push) is [`pushed`].
pub fn step(from: State, event: Event, facts: Facts) -> Step {
    use Event::*;
    use State::*;
    let cancelled_or = |to| Step::To(if facts.cancel_requested { Cancelled } else { to });
    match (from, event) {
        // The work happened, also when a cancel was requested.
        (Running, SettleDone) => Step::To(Done),
        (Running, SettleRetry | SettleSnooze) => cancelled_or(Scheduled),
        (Running, SettleRelease) => cancelled_or(Ready),
        (Running, SettlePark) => cancelled_or(Parked),
        (Running, SettleCancelled) => Step::To(Cancelled),
        (Scheduled | Ready, Reserve) if facts.due => Step::To(Running),
        (Running, LoseLease) if facts.expired => {
            cancelled_or(if facts.attempts_left { Ready } else { Parked })
        }
        (Scheduled | Ready | Parked, OperatorCancel) => Step::To(Cancelled),
        (Running, OperatorCancel) if facts.expired => Step::To(Cancelled),
        (Running, OperatorCancel) => Step::CancelRequested,
        (Parked | Cancelled, OperatorRetry) => Step::To(Ready),
        (Running, OperatorDelete) if !facts.expired => Step::Refused,
        (_, OperatorDelete) => Step::Gone,
        _ => Step::Refused,
    }
}

/// The state of a job just pushed.
pub fn pushed(due: bool) -> State {
    if due { State::Ready } else { State::Scheduled }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn every_row() -> impl Iterator<Item = (State, Event, Facts, Step)> {
        let facts = (0..16).map(|bits: u8| Facts {
            due: bits & 1 > 0,
            expired: bits & 2 > 0,
            cancel_requested: bits & 4 > 0,
            attempts_left: bits & 8 > 0,
        });
        let pairs = State::ALL.into_iter().flat_map(|s| Event::ALL.map(|e| (s, e)));
        pairs.flat_map(move |(s, e)| facts.clone().map(move |f| (s, e, f, step(s, e, f))))
    }

    #[test]
    fn history_is_left_only_by_retry_of_a_cancelled_job_and_by_delete() {
        for (from, event, _, step) in every_row().filter(|row| !row.0.is_live()) {
            let leaves = match event {
                Event::OperatorDelete => Step::Gone,
                Event::OperatorRetry if from == State::Cancelled => Step::To(State::Ready),
                _ => Step::Refused,
            };
            assert_eq!(step, leaves, "{from} {event:?}");
        }
    }

    #[test]
    fn only_a_running_job_is_settled_and_only_a_due_one_reserved() {
        for (from, event, facts, step) in every_row() {
            let settles = Event::ALL[..6].contains(&event);
            if settles {
                assert_eq!(step == Step::Refused, from != State::Running, "{from} {event:?}");
            }
            if step == Step::To(State::Running) {
                let waits = matches!(from, State::Ready | State::Scheduled);
                assert!(waits && facts.due && event == Event::Reserve);
            }
        }
    }

    #[test]
    fn a_requested_cancel_wins_over_everything_but_done() {
        for (from, event, facts, step) in every_row() {
            if from == State::Running && facts.cancel_requested && matches!(step, Step::To(_)) {
                let done = event == Event::SettleDone;
                assert_eq!(step, Step::To(if done { State::Done } else { State::Cancelled }));
            }
        }
    }

    #[test]
    fn words_round_trip() {
        for state in State::ALL {
            assert_eq!(state.as_str().parse(), Ok(state));
        }
        assert!("Ready".parse::<State>().is_err());
    }
}
