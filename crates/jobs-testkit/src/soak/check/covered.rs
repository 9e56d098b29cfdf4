//! A run proves what it has been through and nothing else: what it must have been through is
//! demanded, more of a longer one.

use super::{Evidence, Violation};
use crate::soak::{figures::Figures, schedule::Kind};

const PROMISE: &str = "the run has been through what it is for";

/// From this length on, in seconds, every kind of fault that the store has must have happened.
const ALL_KINDS: u64 = 180;

/// From this length on, those that were to happen. In a run of seconds each comes once, and one that
/// found no worker free or the store's lock taken did not happen.
const SCHEDULED: u64 = 60;

pub fn check(evidence: &Evidence) -> Vec<Violation> {
    let figures = Figures::new(evidence);
    let seconds = evidence.length.as_secs();
    let wanted = |kind: &Kind| {
        let all = seconds >= ALL_KINDS && kind.exists(evidence.has);
        all || (seconds >= SCHEDULED && evidence.scheduled.contains(kind))
    };
    let missing = Kind::ALL.into_iter().filter(wanted);
    let missing = missing.filter(|kind| !figures.faults.contains_key(kind));
    let mut lacking: Vec<String> =
        missing.map(|kind| format!("no {kind:?} was in force")).collect();
    for (from, what, number) in demands(evidence, &figures) {
        if seconds >= from && number == 0 {
            lacking.push(format!("{what}: none in {seconds} s"));
        }
    }
    lacking.into_iter().map(|what| Violation::new(PROMISE, None, what)).collect()
}

/// From how many seconds on, what, and how often it was.
fn demands(evidence: &Evidence, of: &Figures) -> Vec<(u64, String, u64)> {
    let mut all = Vec::new();
    let mut want = |from, what: String, number: u64| all.push((from, what, number));
    let number = |found: Option<&u64>| found.copied().unwrap_or_default();
    for (from, answer) in [(20, "stored"), (20, "key_held"), (60, "duplicate")] {
        want(from, format!("pushes answered {answer}"), number(of.pushes.get(answer)));
    }
    if evidence.has.cut {
        want(60, "pushes without an answer".into(), of.unanswered_pushes);
        want(180, "calls of a worker that were cut".into(), of.calls_cut);
    }
    let ends = [(20, "done"), (20, "failed"), (20, "snoozed"), (20, "panicked")];
    for (from, how) in ends.into_iter().chain([(60, "dropped"), (60, "killed")]) {
        want(from, format!("runs that ended {how}"), number(of.runs.get(how)));
    }
    want(180, "runs that blocked their runtime and were done".into(), of.runs_that_blocked);
    want(180, "runs that met after a loss".into(), of.runs_that_met);
    for (from, outcome) in
        [(20, "done"), (20, "retry"), (20, "park"), (60, "lost"), (180, "cancelled")]
    {
        want(from, format!("attempts on record as {outcome}"), number(of.attempts.get(outcome)));
    }
    want(60, "claims told lost".into(), of.told_lost);
    want(60, "leases that outlived a failed renewal".into(), of.renewed_after_a_failure);
    let late = |told: &str| -> u64 {
        let told = of.late_writes.iter().filter(|(what, _)| what.ends_with(told));
        told.map(|(_, number)| number).sum()
    };
    for (from, told) in [(20, "lost"), (180, "already_applied")] {
        want(from, format!("late writes told {told}"), late(&format!(" {told}")));
    }
    for what in ["done", "retry", "park", "snooze", "release", "cancelled", "renew"] {
        want(180, format!("late writes told {what} lost"), late(&format!("{what} lost")));
    }
    want(60, "writes under another nonce while it was held".into(), of.forged_while_held);
    for (from, verb) in [
        (60, "retry [Retried]"),
        (60, "cancel [Cancelled]"),
        (60, "delete [Deleted]"),
        // These raced with a holder, or with another verb.
        (180, "retry [NotRetryable"),
        (180, "cancel [Requested]"),
        (180, "cancel [NotLive"),
        (180, "delete [Running]"),
    ] {
        want(from, format!("verbs answered {verb}"), number(of.verbs.get(verb)));
    }
    want(20, "processes that dropped their handles".into(), of.closed);
    want(20, "looks at the store's soundness".into(), of.looks);
    all
}
