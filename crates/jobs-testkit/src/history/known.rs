//! What is known of one job, and what the contract allows next.

use std::time::Duration;

use jobs_core::{
    Claim, Job, KeyScope, OutcomeKind, State,
    queue::STUB,
    state::{Event, Facts, Step, step},
};

use super::time::Time;

/// A stored job.
#[derive(Clone, Debug)]
pub struct Known {
    pub job: Job,
    pub max_attempts: u32,
    pub state: State,
    pub due: Time,
    pub finished: Option<Time>,
    pub lease: Option<Time>,
    pub attempt: u32,
    /// Its last attempt was lost. `None` after an operator's retry of such a job: both are legal.
    pub suspect: Option<bool>,
    pub cancel_requested: bool,
    pub holds_key: bool,
    /// The newest claim, and how it was settled.
    pub claim: Option<Claim>,
    pub settled: Option<OutcomeKind>,
    /// An operator moved it since it was settled: a repetition may answer either.
    pub moved_since: bool,
    pub fence: i64,
    pub snoozes: u32,
    pub releases: u32,
    /// Attempts on record, at least and at most.
    pub recorded: (usize, usize),
}

/// What a claim is worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    Held,
    /// Settled before, so; and must, must not or may still be told.
    Settled(OutcomeKind, Option<bool>),
    Stale,
}

impl Known {
    /// A job just pushed.
    pub fn pushed(job: Job, delay: Duration, now: Time) -> Self {
        Self {
            max_attempts: job.max_attempts.unwrap_or(5),
            state: jobs_core::state::pushed(delay.is_zero()),
            due: now.after(delay),
            finished: None,
            lease: None,
            attempt: 0,
            suspect: Some(false),
            cancel_requested: false,
            holds_key: job.key.is_some(),
            claim: None,
            settled: None,
            moved_since: false,
            fence: 0,
            snoozes: 0,
            releases: 0,
            recorded: (0, 0),
            job,
        }
    }

    /// May the store say that it is in this state? One that came due may be ready already or not.
    pub fn may_be(&self, state: State, now: Time) -> bool {
        let waits = |state| matches!(state, State::Scheduled | State::Ready);
        if !waits(self.state) || !waits(state) {
            return self.state == state;
        }
        match self.due.has_passed(now) {
            Some(false) => state == State::Scheduled,
            Some(true) => true,
            None => true,
        }
    }

    /// What the event may lead to: one step, or two where an instant may have passed or not.
    pub fn steps(&self, event: Event, now: Time) -> Vec<Step> {
        let either = |known: Option<bool>| known.map_or(vec![false, true], |known| vec![known]);
        let expired = self.lease.map_or(Some(false), |lease| lease.has_passed(now));
        let mut steps = Vec::new();
        for due in either(self.due.has_passed(now)) {
            for expired in either(expired) {
                let facts = Facts {
                    due,
                    expired,
                    cancel_requested: self.cancel_requested,
                    attempts_left: self.attempt < self.max_attempts,
                };
                steps.push(step(self.state, event, facts));
            }
        }
        steps
    }

    /// What `claim` is worth at `now`.
    pub fn standing(&self, claim: &Claim, now: Time) -> Standing {
        if self.claim.as_ref() != Some(claim) {
            return Standing::Stale;
        }
        match self.settled {
            _ if self.state == State::Running => Standing::Held,
            Some(_) if self.moved_since => Standing::Settled(self.settled_kind(), None),
            Some(kind) => {
                let over = self.finished.map_or(Some(false), |at| at.after(STUB).has_passed(now));
                Standing::Settled(kind, over.map(|over| !over))
            }
            None => Standing::Stale,
        }
    }

    fn settled_kind(&self) -> OutcomeKind {
        self.settled.unwrap_or(OutcomeKind::Lost)
    }

    /// It is in another state now; its key follows (P3).
    pub fn goes_to(&mut self, state: State, now: Time) {
        if state != State::Running {
            self.lease = None;
            self.cancel_requested = false;
        }
        self.state = state;
        self.finished = (!state.is_live()).then_some(now);
        let Some(key) = &self.job.key else { return };
        let waits = matches!(state, State::Scheduled | State::Ready);
        self.holds_key = match key.scope {
            KeyScope::UntilStarted => self.holds_key && waits,
            KeyScope::UntilFinished => state.is_live(),
        };
    }

    /// Its attempt was lost.
    pub fn loses(&mut self, state: State, now: Time) {
        self.goes_to(state, now);
        (self.claim, self.settled) = (None, None);
        self.suspect = Some(true);
        self.recorded = (self.recorded.0 + 1, self.recorded.1 + 1);
        // Back in line at once: with its old place, or with the moment's.
        self.due.hi = now.hi;
    }
}
