//! Where the database is and how it is used.

use std::{str::FromStr, sync::Arc, time::Duration};

use jobs_core::{Error, ErrorKind, Result, driver::Cut, retention::Retention};
use sqlx::{PgPool, postgres::PgConnectOptions};

/// What stands between the driver and the server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// Nothing that shares sessions: cached statements, the isolation in the connect options.
    #[default]
    Direct,
    /// A pooler in transaction mode: every call is a transaction of its own that says READ COMMITTED,
    /// nothing is prepared by name, and nothing is expected of the session.
    Pooled,
}

/// How wake-ups of other handles and processes arrive.
#[derive(Clone, Debug)]
pub(crate) enum Listen {
    /// LISTEN on the same URL; in [`Mode::Pooled`] there is none.
    Same,
    /// LISTEN on another, past the pooler.
    Other(Box<PgConnectOptions>),
    /// Polling finds them.
    Never,
}

/// How to open a store. [`Postgres::connect`](crate::Postgres::connect) takes the defaults.
#[derive(Clone, Debug)]
pub struct Options {
    pub(crate) connect: PgConnectOptions,
    pub(crate) listen: Listen,
    pub(crate) schema: String,
    pub(crate) mode: Mode,
    pub(crate) retention: Retention,
    pub(crate) connections: usize,
    pub(crate) busy: Duration,
    pub(crate) deadline: Duration,
    pub(crate) cut: Option<Arc<Cut>>,
    pub(crate) tells: bool,
}

/// The schema unless another is named.
pub(crate) const SCHEMA_NAME: &str = "jobs";
/// Longest schema name, in bytes: PostgreSQL cuts longer identifiers, and the channel of wake-ups is
/// named after it.
const MAX_SCHEMA: usize = 58;

impl Options {
    /// For a URL `postgres://user@host/database`.
    ///
    /// # Errors
    /// Refused: no such URL.
    pub fn new(url: &str) -> Result<Self> {
        let what = "the URL cannot be read: write postgres://user:password@host/database";
        // It would be read whatever it begins with, as another server's.
        if !["postgres://", "postgresql://"].iter().any(|scheme| url.starts_with(scheme)) {
            return Err(Error::new(ErrorKind::Refused, "connect", what));
        }
        let connect = PgConnectOptions::from_str(url)
            .map_err(|error| Error::with_source(ErrorKind::Refused, "connect", what, error))?;
        Ok(Self::with(connect))
    }

    /// For the database of a pool of the application's. The driver makes connections of its own with
    /// the pool's options: it sets timeouts and an isolation that are not the application's.
    pub fn of_pool(pool: &PgPool) -> Self {
        Self::with((*pool.connect_options()).clone())
    }

    /// For connect options of sqlx's.
    pub fn with(connect: PgConnectOptions) -> Self {
        Self {
            connect,
            listen: Listen::Same,
            schema: SCHEMA_NAME.to_owned(),
            mode: Mode::default(),
            retention: Retention::default(),
            connections: 8,
            busy: Duration::from_secs(2),
            deadline: Duration::from_secs(30),
            cut: None,
            tells: true,
        }
    }

    /// In this schema, `jobs` unless set; made by [`migrate`](crate::Postgres::migrate).
    ///
    /// # Errors
    /// Refused: empty, longer than 58 bytes, or with a control character, `'` or `$$`, because the name
    /// is written into texts and functions too.
    pub fn schema(self, schema: &str) -> Result<Self> {
        let plain =
            !schema.contains(|c: char| c.is_control() || c == '\'') && !schema.contains("$$");
        if schema.is_empty() || schema.len() > MAX_SCHEMA || !plain {
            let what = format!(
                "a schema's name has 1 to {MAX_SCHEMA} bytes, no control character, no ' and no $$"
            );
            return Err(Error::new(ErrorKind::Refused, "connect", what));
        }
        Ok(Self { schema: schema.to_owned(), ..self })
    }

    /// Through a pooler or not; [`Mode::Direct`] unless set.
    pub fn mode(self, mode: Mode) -> Self {
        Self { mode, ..self }
    }

    /// Listens for wake-ups on this URL, past the pooler of the other.
    ///
    /// # Errors
    /// Refused: no such URL.
    pub fn listen_on(self, url: &str) -> Result<Self> {
        let listen = Listen::Other(Box::new(Self::new(url)?.connect));
        Ok(Self { listen, ..self })
    }

    /// Listens for nothing: other processes' pushes are found by polling.
    pub fn poll_only(self) -> Self {
        Self { listen: Listen::Never, ..self }
    }

    /// How long finished jobs stay.
    pub fn retention(self, retention: Retention) -> Self {
        Self { retention, ..self }
    }

    /// Most connections of one handle, 8 unless set, beside the one that listens.
    pub fn connections(self, connections: usize) -> Self {
        Self { connections: connections.max(1), ..self }
    }

    /// How long a call waits for another transaction's lock or key before it answers `Busy`; 2 s
    /// unless set.
    pub fn busy(self, busy: Duration) -> Self {
        Self { busy, ..self }
    }

    /// How long a call may take in all, connecting included; 30 s unless set.
    pub fn deadline(self, deadline: Duration) -> Self {
        Self { deadline, ..self }
    }

    /// Breaks the connection once, after its `round_trips`-th answer. For the suite.
    #[doc(hidden)]
    pub fn cut_after(self, round_trips: usize) -> Self {
        Self { cut: Some(Arc::new(Cut::after(round_trips))), ..self }
    }

    /// Breaks it again and again, each time after so many answers. For the soak.
    #[doc(hidden)]
    pub fn cut_every(self, round_trips: usize) -> Self {
        Self { cut: Some(Arc::new(Cut::every(round_trips))), ..self }
    }

    /// Sends no wake-ups to other handles. For the measurement of what they cost.
    #[doc(hidden)]
    pub fn tells_nobody(self) -> Self {
        Self { tells: false, ..self }
    }

    /// With which the driver's own connections are opened.
    pub(crate) fn own(&self) -> PgConnectOptions {
        let connect = self
            .connect
            .clone()
            .application_name(self.connect.get_application_name().unwrap_or("jobs"));
        match self.mode {
            Mode::Direct => connect.options([
                ("default_transaction_isolation", "read committed"),
                ("search_path", "pg_catalog, pg_temp"),
                ("lock_timeout", &format!("{}ms", millis(self.busy))),
                ("statement_timeout", &format!("{}ms", millis(self.deadline))),
            ]),
            Mode::Pooled => connect.extra_float_digits(None).statement_cache_capacity(0),
        }
    }

    /// With which it listens; `None` where it does not.
    pub(crate) fn listener(&self) -> Option<PgConnectOptions> {
        match (&self.listen, self.mode) {
            (Listen::Other(options), _) => Some((**options).clone()),
            (Listen::Same, Mode::Direct) => Some(self.connect.clone()),
            (Listen::Same, Mode::Pooled) | (Listen::Never, _) => None,
        }
    }
}

/// As the server takes it, where 0 would be without end.
pub(crate) fn millis(limit: Duration) -> i32 {
    i32::try_from(limit.as_millis()).unwrap_or(i32::MAX).max(1)
}
