//! The ledger: what happened, written outside the store by those who saw it, before and after each
//! effect. One file per process, only ever appended to, one line per event.

use std::{
    fs::{File, OpenOptions},
    io::Write,
    path::Path,
    time::{SystemTime, UNIX_EPOCH},
};

use jobs_core::{Claim, JobId, JobRef, Key, OutcomeKind, Settled, State};
use serde::{Deserialize, Serialize};

use super::{Done, schedule::Kind};

/// How a file of the ledger is called, after its process.
pub const EXTENSION: &str = "ledger";

/// One line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Line {
    /// When, by the machine's clock, in microseconds.
    pub at: i64,
    /// Which process: its role and how often it was started.
    pub by: String,
    /// What.
    pub event: Event,
}

/// What happened. Times in it are as [`Line::at`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Event {
    /// A process has opened the store, with this trouble.
    Up { cut: Option<usize>, clock: i64 },
    /// A process was told to end.
    Told { who: String },
    /// A process is gone; `clean`: as it should; `left`: it says that it left something.
    Gone { who: String, status: String, clean: bool, left: bool },
    /// A push was answered.
    Pushed { job: JobRef, queue: String, name: String, key: Option<Key>, sent: i64, answer: Answer },
    /// A push was not: it is repeated until it is.
    Unknown { job: JobRef, error: String },
    /// A reserve was answered with these.
    Taken { queue: String, sent: i64, claims: Vec<Claim> },
    /// A handler starts.
    Start {
        job: JobRef,
        queue: String,
        name: String,
        /// The job's own id, if nothing is mixed up.
        payload: String,
        attempt: u32,
        fence: i64,
    },
    /// A handler ended.
    End { job: JobRef, fence: i64, how: How },
    /// The store said that this claim is lost.
    Lost { job: JobRef, fence: i64, call: String },
    /// The store said that these claims are held, and renewed.
    Renewed { sent: i64, claims: Vec<(JobRef, i64)> },
    /// A settlement was sent by the claim's holder, and this was the answer; `None`: there was none.
    Settled { job: JobRef, fence: i64, outcome: OutcomeKind, sent: i64, told: Option<Told> },
    /// A worker's call was slow, or had no answer.
    Call { call: String, sent: i64, trouble: String },
    /// The process did not run from then to now.
    Stall { since: i64 },
    /// A write that must be refused, sent on purpose.
    Late {
        job: JobRef,
        fence: i64,
        /// A settlement, or a renewal.
        outcome: Option<OutcomeKind>,
        /// Under another nonce than the delivery's; else the claim is over.
        forged: bool,
        sent: i64,
        told: Told,
        /// What it did all the same, where that was looked at.
        changed: Option<String>,
    },
    /// A process has dropped its handles, and this is still open.
    Closed { left: Vec<String> },
    /// A call of anybody failed for good.
    Refused { call: String, error: String },
    /// An operator's verb: asked, and with an answer, answered.
    Verb { verb: String, job: JobRef, answer: Option<String> },
    /// A fault is in force, or over.
    Fault { number: usize, kind: Kind, who: Option<String>, over: bool },
    /// The store's clock less the machine's, in milliseconds, as exactly as it could be read.
    Ahead { millis: i64, within: i64 },
    /// A newcomer pushes while this many of the backlog wait.
    Probe { job: JobRef, waiting: u64 },
    /// Two live jobs hold one key, seen while the run goes on.
    TwoKeys { job: JobRef, other: JobRef, key: String },
    /// The store was asked about its soundness while the run goes on, and this is wrong.
    Looked { findings: Vec<String> },
}

/// What a settlement, or a late renewal, was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Told {
    /// Done as asked; the job's state then.
    Applied(State),
    /// It was settled before, so.
    Already(OutcomeKind),
    /// The claim is not held any more.
    Lost,
    /// Renewed.
    Held,
}

impl From<Settled> for Told {
    fn from(settled: Settled) -> Self {
        match settled {
            Settled::Applied(state) => Self::Applied(state),
            Settled::AlreadyApplied(outcome) => Self::Already(outcome),
            Settled::Lost => Self::Lost,
        }
    }
}

/// What a push was answered.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// Stored.
    Stored,
    /// Stored before, in this state now.
    Duplicate(State),
    /// Another job holds the key.
    KeyHeld(JobId, State),
    /// The store refused it for good.
    Refused(String),
}

/// How a handler ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum How {
    /// The work happened.
    Done,
    /// It failed.
    Failed,
    /// Not now.
    Snoozed,
    /// It panicked.
    Panicked,
    /// Its future was dropped.
    Dropped,
}

/// Now by the machine's clock, in microseconds.
pub fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
}

/// Writes one process's part.
#[derive(Debug)]
pub struct Pen {
    by: String,
    file: File,
}

impl Pen {
    /// For the process called `by`.
    ///
    /// # Errors
    /// The file's.
    pub fn open(directory: &Path, by: &str) -> Done<Self> {
        let path = directory.join(format!("{by}.{EXTENSION}"));
        let file = OpenOptions::new().create(true).append(true).open(&path);
        let file = file.map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(Self { by: by.to_owned(), file })
    }

    /// Writes one line, now.
    pub fn write(&self, event: Event) {
        self.write_all([event]);
    }

    /// Writes several at once.
    pub fn write_all(&self, events: impl IntoIterator<Item = Event>) {
        let mut text = String::new();
        for event in events {
            let line = Line { at: now(), by: self.by.clone(), event };
            text.push_str(&serde_json::to_string(&line).unwrap_or_default());
            text.push('\n');
        }
        // One call of the system, so that lines of two threads do not mix, and what was written
        // outlives the process.
        if let Err(error) = (&self.file).write_all(text.as_bytes()) {
            // Without its witness the run proves nothing.
            eprintln!("{}: the ledger cannot be written: {error}", self.by);
            std::process::exit(super::BROKEN.into());
        }
    }
}
