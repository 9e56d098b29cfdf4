//! What must hold of the ledger and the store together; a file for each promise.

mod cancelled;
mod clock;
mod covered;
mod ended;
mod fair;
mod holders;
mod keys;
mod lost;
mod own;
mod paused;
mod reach;
mod refused;
mod settled;
mod spent;
mod stale;
#[cfg(test)]
mod tests;

pub use fair::fairness;
pub use holders::meetings;

use std::{collections::BTreeSet, fmt, path::Path, time::Duration};

use jobs_core::JobRef;

use super::{
    Faults, danger::Danger, ledger::EXTENSION, process::files, read::Ledger, schedule::Kind,
    store::Store,
};

/// What the checks look at.
#[derive(Debug)]
pub struct Evidence {
    /// What was seen.
    pub ledger: Ledger,
    /// What is stored.
    pub store: Store,
    /// What excuses a lost lease.
    pub danger: Danger,
    /// How long the faults went on.
    pub length: Duration,
    /// Which faults the store has.
    pub has: Faults,
    /// Which kinds of faults were to happen.
    pub scheduled: BTreeSet<Kind>,
}

/// Something out of place.
#[derive(Clone, Debug, PartialEq)]
pub struct Violation {
    /// Of which promise.
    pub promise: &'static str,
    /// Of which job, if of one.
    pub job: Option<JobRef>,
    /// What.
    pub what: String,
}

impl Violation {
    /// Of this promise.
    pub fn new(promise: &'static str, job: Option<&JobRef>, what: impl Into<String>) -> Self {
        Self { promise, job: job.cloned(), what: what.into() }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.job {
            Some(job) => write!(f, "{}: {job}: {}", self.promise, self.what),
            None => write!(f, "{}: {}", self.promise, self.what),
        }
    }
}

/// Every check.
const CHECKS: [fn(&Evidence) -> Vec<Violation>; 15] = [
    own::check,
    ended::check,
    cancelled::check,
    spent::check,
    holders::check,
    stale::check,
    settled::check,
    lost::check,
    keys::check,
    refused::check,
    fair::check,
    paused::check,
    reach::check,
    clock::check,
    covered::check,
];

/// All that is out of place.
pub fn all(evidence: &Evidence) -> Vec<Violation> {
    CHECKS.iter().flat_map(|check| check(evidence)).collect()
}

/// The ledger's lines with this text, in order of time.
pub fn lines_about(directory: &Path, text: &str) -> Vec<String> {
    let ending = format!(".{EXTENSION}");
    let ledgers = files(directory).into_iter().filter(|name| name.ends_with(&ending));
    let texts = ledgers.filter_map(|name| std::fs::read_to_string(directory.join(name)).ok());
    let mut lines: Vec<String> = texts
        .flat_map(|all| {
            let about = all.lines().filter(|line| line.contains(text));
            about.map(str::to_owned).collect::<Vec<_>>()
        })
        .collect();
    // Each begins with its time, in as many digits.
    lines.sort_unstable();
    lines
}
