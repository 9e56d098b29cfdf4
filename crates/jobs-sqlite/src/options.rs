//! Where the file is and how it is treated.

use std::{path::PathBuf, sync::Arc, time::Duration};

use jobs_core::{Error, ErrorKind, Result, driver::Cut, retention::Retention};

/// What a commit survives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// A power cut: each group commit is synced.
    #[default]
    Full,
    /// The process's death; a power cut may lose the last commits, never the file.
    Normal,
}

/// How to open a store. [`Sqlite::connect`](crate::Sqlite::connect) takes the defaults.
#[derive(Clone, Debug)]
pub struct Options {
    pub(crate) path: PathBuf,
    pub(crate) durability: Durability,
    pub(crate) retention: Retention,
    pub(crate) busy: Duration,
    pub(crate) deadline: Duration,
    pub(crate) cut: Option<Arc<Cut>>,
    pub(crate) clock_off: i64,
}

impl Options {
    /// For a URL `sqlite://path`, `sqlite:path`, or a plain path. The file is created; its
    /// directory is not.
    ///
    /// # Errors
    /// Refused: a database in memory, another scheme, parameters in the URL.
    pub fn new(url: &str) -> Result<Self> {
        let refused = |what: String| Err(Error::new(ErrorKind::Refused, "connect", what));
        let path = url.strip_prefix("sqlite://").or_else(|| url.strip_prefix("sqlite:"));
        let path = path.unwrap_or(url);
        if path.contains(":memory:") || path.contains("mode=memory") {
            return refused(
                "a database in memory is lost with its connection and seen by no other: name a \
                 file, in a temporary directory if it is for a test"
                    .into(),
            );
        }
        if path.is_empty() {
            return refused("the URL names no file: write sqlite://path/to/jobs.db".into());
        }
        if path.contains("://") || path.starts_with("file:") {
            return refused(format!("{url} is no URL of a file: write sqlite://path/to/jobs.db"));
        }
        if path.contains('?') {
            return refused(format!("{url} has parameters: set them on Options instead"));
        }
        Ok(Self {
            path: path.into(),
            durability: Durability::default(),
            retention: Retention::default(),
            busy: Duration::from_secs(10),
            deadline: Duration::from_secs(30),
            cut: None,
            clock_off: 0,
        })
    }

    /// What a commit survives; [`Durability::Full`] unless set.
    pub fn durability(self, durability: Durability) -> Self {
        Self { durability, ..self }
    }

    /// How long finished jobs stay.
    pub fn retention(self, retention: Retention) -> Self {
        Self { retention, ..self }
    }

    /// How long a write waits for another connection's transaction before it answers `Busy`,
    /// counted from the call; 10 s unless set, a push at most 2 s.
    pub fn busy(self, busy: Duration) -> Self {
        Self { busy, ..self }
    }

    /// How long a call may take in all, its turn included; 30 s unless set. A sync that the disk does
    /// not answer is waited for: no statement of SQLite's can be interrupted there.
    pub fn deadline(self, deadline: Duration) -> Self {
        Self { deadline, ..self }
    }

    /// Breaks the writing connection once, after its `round_trips`-th answer. For the suite.
    #[doc(hidden)]
    pub fn cut_after(self, round_trips: usize) -> Self {
        Self { cut: Some(Arc::new(Cut::after(round_trips))), ..self }
    }

    /// Breaks it again and again, each time after so many answers. For the soak.
    #[doc(hidden)]
    pub fn cut_every(self, round_trips: usize) -> Self {
        Self { cut: Some(Arc::new(Cut::every(round_trips))), ..self }
    }

    /// Opens it as a process whose clock is off by so many milliseconds would. For the soak.
    #[doc(hidden)]
    pub fn clock_off_by(self, millis: i64) -> Self {
        Self { clock_off: millis, ..self }
    }
}
