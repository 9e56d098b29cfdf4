//! The figures of a run, as one line.

use std::collections::{BTreeMap, BTreeSet};

use jobs_core::State;
use serde::Serialize;

use super::{
    check::{Evidence, fairness, meetings},
    ledger::{Answer, Event, How, Told},
    read::{Late, Renewal, Story, UNANSWERED},
    schedule::Kind,
    watched::SLOW_CALL,
    worker::STALL,
};

/// What happened, in numbers.
#[derive(Debug, Default, Serialize)]
pub struct Figures {
    seed: u64,
    minutes: f64,
    /// By answer.
    pub pushes: BTreeMap<String, u64>,
    /// Pushes that had to be repeated.
    pub unanswered_pushes: u64,
    /// By how they ended.
    pub runs: BTreeMap<String, u64>,
    /// Pairs of runs of one job that met: after a loss, the earlier one still ran.
    pub runs_that_met: u64,
    /// By state.
    pub jobs: BTreeMap<State, u64>,
    /// By outcome.
    pub attempts: BTreeMap<String, u64>,
    /// That were in force.
    pub faults: BTreeMap<Kind, u64>,
    /// By answer.
    pub verbs: BTreeMap<String, u64>,
    /// Attempts on record as lost.
    pub lost_leases: u64,
    /// Claims of which the store told their holder that they are lost.
    pub told_lost: u64,
    /// Times that a lease outlived renewals that had no answer.
    pub renewed_after_a_failure: u64,
    /// Writes that had to be refused, by what they were and their answer.
    pub late_writes: BTreeMap<String, u64>,
    /// Writes under another nonce than the delivery's, while it was held.
    pub forged_while_held: u64,
    slow_or_failed_calls: u64,
    /// Of a worker, in milliseconds: a machine that is busy shows here.
    slowest_call: i64,
    /// Processes that dropped their handles and told what was left.
    pub closed: u64,
    /// Calls without an answer in workers whose connection was to break.
    pub calls_cut: u64,
    /// Runs that blocked their process's runtime for longer than a lease, and were done.
    pub runs_that_blocked: u64,
    stalls: u64,
    clock_jumps: usize,
    /// How often the store was asked about its soundness while the run went on.
    pub looks: u64,
    probes: u64,
    probes_counted: u64,
    /// Probes before which others were seen to be delivered.
    pub probes_overtaken: u64,
    worst_fairness: u64,
    fairness_bound: u64,
    violations: usize,
}

impl Figures {
    /// Of a run.
    pub fn new(evidence: &Evidence) -> Self {
        let fairness = fairness(evidence);
        let mut figures = Self {
            minutes: evidence.length.as_secs_f64() / 60.0,
            clock_jumps: evidence.danger.jumps().len(),
            probes: fairness.probes,
            probes_counted: fairness.counted,
            probes_overtaken: fairness.overtaken,
            worst_fairness: fairness.worst,
            fairness_bound: fairness.bound,
            ..Self::default()
        };
        figures.count_stories(evidence);
        figures.count_lines(evidence);
        for kept in evidence.store.jobs.values() {
            *figures.jobs.entry(kept.state).or_default() += 1;
            for attempt in &kept.attempts {
                *figures.attempts.entry(attempt.outcome.to_string()).or_default() += 1;
            }
        }
        figures.lost_leases = figures.attempts.get("lost").copied().unwrap_or_default();
        figures
    }

    /// With what identifies the run, and what became of it.
    pub fn of_run(self, seed: u64, violations: usize) -> Self {
        Self { seed, violations, ..self }
    }

    fn count_stories(&mut self, evidence: &Evidence) {
        for story in evidence.ledger.stories.values() {
            self.unanswered_pushes += story.unknown.len() as u64;
            for push in &story.pushes {
                let answer = match push.answer {
                    Answer::Stored => "stored",
                    Answer::Duplicate(_) => "duplicate",
                    Answer::KeyHeld(..) => "key_held",
                    Answer::Refused(_) => "refused",
                };
                *self.pushes.entry(answer.to_owned()).or_default() += 1;
            }
            for run in &story.runs {
                let done = matches!(run.end, Some((_, How::Done)));
                self.runs_that_blocked += u64::from(run.name == "blocks" && done);
                let how = match run.end {
                    Some((_, How::Done)) => "done",
                    Some((_, How::Failed)) => "failed",
                    Some((_, How::Snoozed)) => "snoozed",
                    Some((_, How::Panicked)) => "panicked",
                    Some((_, How::Dropped)) => "dropped",
                    None => "killed",
                };
                *self.runs.entry(how.to_owned()).or_default() += 1;
            }
            self.runs_that_met += meetings(evidence, story).count() as u64;
            self.renewed_after_a_failure += outlived_failures(evidence, story);
            for late in &story.late {
                let how = match late.told {
                    Told::Applied(_) => "applied",
                    Told::Already(_) => "already_applied",
                    Told::Lost => "lost",
                    Told::Held => "held",
                };
                let what = late.outcome.map_or("renew".to_owned(), |outcome| outcome.to_string());
                *self.late_writes.entry(format!("{what} {how}")).or_default() += 1;
                self.forged_while_held += u64::from(held(evidence, story, late));
            }
            for (_, verb, answer) in &story.verbs {
                let told = answer.as_ref().map(|answer| format!("{verb} {answer}"));
                let told = told.filter(|told| !told.contains(UNANSWERED));
                // The id of the job that holds a key is no figure.
                let told = told.map(|told| told.split('(').next().unwrap_or_default().to_owned());
                if let Some(told) = told {
                    *self.verbs.entry(told).or_default() += 1;
                }
            }
        }
    }

    fn count_lines(&mut self, evidence: &Evidence) {
        let (mut seen, mut cut) = (BTreeSet::new(), BTreeSet::new());
        for line in &evidence.ledger.lines {
            match &line.event {
                Event::Fault { number, kind, .. } if seen.insert(*number) => {
                    *self.faults.entry(*kind).or_default() += 1;
                }
                Event::Lost { .. } => self.told_lost += 1,
                Event::Up { cut: Some(_), .. } => _ = cut.insert(line.by.as_str()),
                Event::Closed { .. } => self.closed += 1,
                Event::Call { trouble, sent, .. } => {
                    self.slowest_call = self.slowest_call.max((line.at - sent) / 1000);
                    self.slow_or_failed_calls += 1;
                    let failed = trouble != SLOW_CALL;
                    self.calls_cut += u64::from(failed && cut.contains(line.by.as_str()));
                }
                Event::Stall { since } if line.at - since >= STALL.as_micros() as i64 => {
                    self.stalls += 1;
                }
                Event::Looked { .. } => self.looks += 1,
                _ => {}
            }
        }
    }
}

/// Was this sent and answered under another nonce while the delivery was certainly held: after it
/// came, and before a renewal of it?
fn held(evidence: &Evidence, story: &Story, late: &Late) -> bool {
    let own = |renewal: &&Renewal| renewal.fence == late.fence;
    let after = story.renewals.iter().filter(own).any(|renewal| renewal.sent > late.at);
    let taken = story.takes.iter().filter(|(_, fence)| *fence == late.fence);
    let taken = taken.map(|(take, _)| evidence.ledger.takes[*take].at).min();
    late.forged && after && taken.is_some_and(|at| at < late.sent)
}

/// Between two renewals of one delivery that were answered, at least one was not.
fn outlived_failures(evidence: &Evidence, story: &Story) -> u64 {
    let pairs = story.renewals.windows(2).filter(|pair| {
        let (one, next) = (&pair[0], &pair[1]);
        let between = |sent: i64| one.sent < sent && sent < next.sent;
        let mut failed = evidence.danger.failed(&one.by).iter();
        one.by == next.by
            && one.fence == next.fence
            && failed.any(|failed| failed.call == "renew" && between(failed.span.0))
    });
    pairs.count() as u64
}
