//! The figures of a run, as one line.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use jobs_core::State;
use serde::Serialize;

use super::{
    check::{Evidence, fairness},
    ledger::{Answer, Event, How},
    schedule::{Fault, Kind},
};

/// What happened, in numbers.
#[derive(Debug, Serialize)]
pub struct Figures {
    seed: u64,
    minutes: f64,
    pushes: BTreeMap<String, u64>,
    unanswered_pushes: u64,
    runs: BTreeMap<String, u64>,
    jobs: BTreeMap<State, u64>,
    attempts: BTreeMap<String, u64>,
    faults: BTreeMap<Kind, u64>,
    verbs: BTreeMap<String, u64>,
    lost_leases: u64,
    told_lost: u64,
    late_writes: u64,
    slow_or_failed_calls: u64,
    stalls: u64,
    probes: u64,
    probes_counted: u64,
    worst_fairness: u64,
    fairness_bound: u64,
    violations: usize,
}

impl Figures {
    /// Of a run.
    pub fn new(evidence: &Evidence, seed: u64, violations: usize) -> Self {
        let fairness = fairness(evidence);
        let mut figures = Self {
            seed,
            minutes: evidence.length.as_secs_f64() / 60.0,
            pushes: BTreeMap::new(),
            unanswered_pushes: 0,
            runs: BTreeMap::new(),
            jobs: BTreeMap::new(),
            attempts: BTreeMap::new(),
            faults: BTreeMap::new(),
            verbs: BTreeMap::new(),
            lost_leases: 0,
            told_lost: 0,
            late_writes: 0,
            slow_or_failed_calls: 0,
            stalls: 0,
            probes: fairness.probes,
            probes_counted: fairness.counted,
            worst_fairness: fairness.worst,
            fairness_bound: fairness.bound,
            violations,
        };
        figures.count_stories(evidence);
        figures.count_lines(evidence);
        for kept in evidence.store.jobs.values() {
            *figures.jobs.entry(kept.state).or_default() += 1;
            for attempt in &kept.attempts {
                let outcome = format!("{:?}", attempt.outcome).to_lowercase();
                *figures.attempts.entry(outcome).or_default() += 1;
            }
        }
        figures.lost_leases = figures.attempts.get("lost").copied().unwrap_or_default();
        figures
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
            for (_, verb, answer) in &story.verbs {
                let told = answer.as_ref().map(|answer| format!("{verb} {answer}"));
                let told = told.filter(|told| !told.contains("no answer"));
                // The id of the job that holds a key is no figure.
                let told = told.map(|told| told.split('(').next().unwrap_or_default().to_owned());
                if let Some(told) = told {
                    *self.verbs.entry(told).or_default() += 1;
                }
            }
        }
    }

    fn count_lines(&mut self, evidence: &Evidence) {
        let mut seen = BTreeSet::new();
        for line in &evidence.ledger.lines {
            match &line.event {
                Event::Fault { number, kind, .. } if seen.insert(*number) => {
                    *self.faults.entry(*kind).or_default() += 1;
                }
                Event::Lost { .. } => self.told_lost += 1,
                Event::Late { .. } => self.late_writes += 1,
                Event::Call { .. } => self.slow_or_failed_calls += 1,
                Event::Stall { .. } => self.stalls += 1,
                _ => {}
            }
        }
    }

    /// What never occurred, in a run long enough for it to: the run proves nothing about that.
    pub fn lacking(&self, scheduled: &[Fault], length: Duration) -> Vec<String> {
        if length < Duration::from_secs(60) {
            return Vec::new();
        }
        let kinds: BTreeSet<Kind> = scheduled.iter().map(|fault| fault.kind).collect();
        let kinds = kinds.into_iter().filter(|kind| !self.faults.contains_key(kind));
        let mut lacking: Vec<_> = kinds.map(|kind| format!("no {kind:?} happened")).collect();
        let parked = self.jobs.get(&State::Parked).copied().unwrap_or_default();
        let key_held = self.pushes.get("key_held").copied().unwrap_or_default();
        for (number, what) in [
            (self.lost_leases, "no lease was lost"),
            (parked, "no job was parked"),
            (key_held, "no key was held"),
            (self.late_writes, "no late write was sent"),
            (self.unanswered_pushes, "no push was left without an answer"),
        ] {
            if number == 0 {
                lacking.push(what.to_owned());
            }
        }
        lacking
    }
}
