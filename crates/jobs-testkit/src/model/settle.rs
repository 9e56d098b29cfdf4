//! Renew and settle (S1–S4).

use jobs_core::{
    Cause, Claim, JobRef, Outcome, OutcomeKind, Settled, Settlement, State,
    queue::{KEPT_ATTEMPTS, Lease, Renewed, STUB},
    state::{Event, Step, step},
    time::{after, delay_millis},
};

use super::{
    reserve::extend,
    row::{Ended, Row},
    store::Store,
};
use crate::broken::Fault;

/// What a claim is worth now.
enum Standing {
    Held,
    Settled(OutcomeKind),
    Stale,
}

impl Store {
    /// One more lease, if the claim is held.
    pub fn renew(&mut self, claim: &Claim, lease: Lease) -> Renewed {
        let now = self.clock.now();
        let Standing::Held = self.standing(claim, now) else { return Renewed::Lost };
        let length = lease.length();
        let faulty = self.faults();
        let asked = self.change(&claim.job, |row| {
            if !faulty(Fault::RenewExtendsNothing) {
                extend(row, length, now);
            }
            row.fence += i64::from(faulty(Fault::RenewChangesTheClaim));
            row.cancel_requested
        });
        let asked = asked == Some(true) && !faulty(Fault::RenewHidesTheCancel);
        if asked { Renewed::CancelRequested } else { Renewed::Held }
    }

    /// Ends one run, if the claim is held.
    pub fn settle(&mut self, settlement: &Settlement) -> Settled {
        let now = self.clock.now();
        match self.standing(&settlement.claim, now) {
            Standing::Held => self.apply(&settlement.claim.job, &settlement.outcome, now),
            Standing::Settled(_) if self.faulty(Fault::RepeatAnswersLost) => Settled::Lost,
            Standing::Settled(kind) => Settled::AlreadyApplied(kind),
            Standing::Stale => Settled::Lost,
        }
    }

    /// In order, so that inside one batch the first entry for a claim wins.
    pub fn settle_all(&mut self, settlements: &[Settlement]) -> Vec<Settled> {
        let mut answers: Vec<_> = settlements.iter().map(|_| Settled::Lost).collect();
        let mut places: Vec<_> = (0..settlements.len()).collect();
        if self.faulty(Fault::LastInBatchWins) {
            places.reverse();
        }
        for place in places {
            answers[place] = self.settle(&settlements[place]);
        }
        answers
    }

    /// The whole claim is compared, and time is not: an expired claim is held until somebody has
    /// taken or freed its job.
    fn standing(&self, claim: &Claim, now: i64) -> Standing {
        let Some(row) = self.rows.get(&claim.job) else { return Standing::Stale };
        let fence = row.fence == claim.fence || self.faulty(Fault::FenceNotCompared);
        let nonce = row.nonce == Some(claim.nonce) || self.faulty(Fault::NonceNotCompared);
        let ended = row.finished_at.is_some_and(|at| at + delay_millis(STUB) <= now);
        match row.settled {
            _ if !fence || !nonce => Standing::Stale,
            _ if row.expired(now) && self.faulty(Fault::ExpiredClaimRefused) => Standing::Stale,
            _ if row.state == State::Running => Standing::Held,
            Some(kind) if !ended => Standing::Settled(kind),
            _ => Standing::Stale,
        }
    }

    fn apply(&mut self, job: &JobRef, outcome: &Outcome, now: i64) -> Settled {
        let Some(row) = self.rows.get(job) else { return Settled::Lost };
        let mut facts = row.facts(now);
        if self.faulty(Fault::CancelRequestForgotten) {
            facts.cancel_requested = false;
        }
        let mut event = outcome.event();
        if self.faulty(Fault::DoneLostToACancel) && facts.cancel_requested {
            event = Event::SettleCancelled;
        }
        let Step::To(state) = step(row.state, event, facts) else { return Settled::Lost };
        self.end_run(job, state, outcome.kind(), outcome.cause(), now);
        let faulty = self.faults();
        self.change(job, |row| {
            row.settled = Some(outcome.kind());
            if let Some(delay) = outcome.delay() {
                row.due = after(now, delay);
            }
            if *outcome == Outcome::Release && faulty(Fault::ReleaseLosesItsPlace) {
                row.due = now;
            }
        });
        Settled::Applied(state)
    }

    /// A delivery is over: its attempt goes on record or is given back (S4).
    pub fn end_run(
        &mut self,
        job: &JobRef,
        state: State,
        outcome: OutcomeKind,
        cause: Option<&Cause>,
        now: i64,
    ) {
        let faulty = self.faults();
        let lane = self.change(job, |row| {
            match outcome {
                OutcomeKind::Release => {
                    row.releases += 1;
                    row.attempt -= u32::from(!faulty(Fault::ReleaseSpends));
                }
                OutcomeKind::Snooze => {
                    row.snoozes += 1;
                    row.attempt -= u32::from(!faulty(Fault::SnoozeSpends));
                }
                _ if faulty(Fault::AttemptsUnrecorded) => {}
                _ if faulty(Fault::OldestAttemptsKept) && row.attempts.len() == KEPT_ATTEMPTS => {}
                _ => record(row, outcome, cause, now),
            }
            row.state = state;
            row.finished_at = (!state.is_live()).then_some(now);
            (row.lease, row.cancel_requested) = (None, false);
            (row.job.queue.clone(), row.job.tenant.clone())
        });
        let Some((queue, tenant)) = lane else { return };
        // What an operator cancelled did not fail, unless its holder was lost.
        if state == State::Cancelled && outcome != OutcomeKind::Lost {
            return;
        }
        let minute = self.minutes.entry((now - now % 60_000, queue, tenant)).or_default();
        match outcome {
            OutcomeKind::Done => minute.0 += 1,
            OutcomeKind::Retry | OutcomeKind::Park | OutcomeKind::Lost => minute.1 += 1,
            OutcomeKind::Snooze | OutcomeKind::Release | OutcomeKind::Cancelled => {}
        }
    }
}

fn record(row: &mut Row, outcome: OutcomeKind, cause: Option<&Cause>, now: i64) {
    let Some(lease) = &row.lease else { return };
    let (worker, started) = (lease.worker.clone(), lease.started);
    let (number, fence, cause) = (row.attempt, row.fence, cause.cloned());
    row.attempts.push(Ended { number, fence, worker, started, at: now, outcome, cause });
    let old = row.attempts.len().saturating_sub(KEPT_ATTEMPTS);
    row.attempts.drain(..old);
    row.suspect = outcome == OutcomeKind::Lost;
}
