//! Where the database is and how it is used.

use std::{sync::Arc, time::Duration};

use jobs_core::{Error, ErrorKind, Result, driver::Cut, retention::Retention};
use mongodb::{Database, options::ClientOptions};

/// Whose client it is.
#[derive(Clone, Debug)]
pub(crate) enum Source {
    /// The driver's own, one for each runtime that calls.
    Own(Box<ClientOptions>),
    /// The application's.
    Borrowed(Database),
}

/// How to open a store. [`Mongo::connect`](crate::Mongo::connect) takes the defaults.
#[derive(Clone, Debug)]
pub struct Options {
    pub(crate) source: Source,
    pub(crate) database: String,
    pub(crate) prefix: String,
    pub(crate) retention: Retention,
    pub(crate) listen: bool,
    pub(crate) busy: Duration,
    pub(crate) deadline: Duration,
    pub(crate) cut: Option<Arc<Cut>>,
}

/// The database, where neither the URL nor the caller names one.
const DATABASE: &str = "jobs";
/// What the collections' names begin with unless set.
const PREFIX: &str = "jobs_";
/// Longest prefix, in bytes: a namespace has 255, the database's name and the dot among them.
const MAX_PREFIX: usize = 64;

impl Options {
    /// For a URL `mongodb://user:password@host,host/database?replicaSet=name`. Looks up its DNS
    /// records where it begins with `mongodb+srv`.
    ///
    /// # Errors
    /// Refused: no such URL. Unavailable: no answer to the look-up.
    pub async fn new(url: &str) -> Result<Self> {
        let what =
            "the URL cannot be read: write mongodb://user:password@host/database?replicaSet=name";
        let parsed = ClientOptions::parse(url).await.map_err(|error| {
            let passing = matches!(*error.kind, mongodb::error::ErrorKind::DnsResolve { .. });
            let kind = if passing { ErrorKind::Unavailable } else { ErrorKind::Refused };
            Error::with_source(kind, "connect", what, error)
        })?;
        Ok(Self::with(parsed))
    }

    /// For options of the mongodb crate's. The database is their default one, else `jobs`.
    pub fn with(client: ClientOptions) -> Self {
        let database = client.default_database.clone().unwrap_or_else(|| DATABASE.to_owned());
        Self::of(Source::Own(Box::new(client)), database)
    }

    /// For a database of the application's client. It pushes, and serves operators; a client is
    /// bound to the runtime that made it, so a worker, which calls from a thread of its own, is
    /// opened by a URL or by [`with`](Self::with).
    pub fn of_database(database: &Database) -> Self {
        Self::of(Source::Borrowed(database.clone()), database.name().to_owned())
    }

    fn of(source: Source, database: String) -> Self {
        Self {
            source,
            database,
            prefix: PREFIX.to_owned(),
            retention: Retention::default(),
            listen: true,
            busy: Duration::from_secs(2),
            deadline: Duration::from_secs(30),
            cut: None,
        }
    }

    /// In this database of the same server.
    ///
    /// # Errors
    /// Refused: no name of a database.
    pub fn database(self, name: &str) -> Result<Self> {
        let refused = |c: char| "/\\. \"$*<>:|?\0".contains(c);
        if name.is_empty() || name.len() > 63 || name.contains(refused) {
            let what = "a database's name has 1 to 63 bytes and none of /\\. \"$*<>:|?";
            return Err(Error::new(ErrorKind::Refused, "connect", what));
        }
        let source = match self.source {
            Source::Borrowed(database) => Source::Borrowed(database.client().database(name)),
            own @ Source::Own(_) => own,
        };
        Ok(Self { source, database: name.to_owned(), ..self })
    }

    /// Begins the names of the collections with this, `jobs_` unless set.
    ///
    /// # Errors
    /// Refused: empty, longer than 64 bytes, or other than letters, digits, `_`, `-` and `.`, or
    /// beginning with `system.`, which is the server's.
    pub fn prefix(self, prefix: &str) -> Result<Self> {
        let plain = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
        let fits = (1..=MAX_PREFIX).contains(&prefix.len()) && prefix.chars().all(plain);
        if !fits || prefix.starts_with("system.") || prefix.starts_with('.') {
            let what =
                "a prefix has 1 to 64 letters, digits, _, - and ., and does not begin with system.";
            return Err(Error::new(ErrorKind::Refused, "connect", what));
        }
        Ok(Self { prefix: prefix.to_owned(), ..self })
    }

    /// How long finished jobs stay.
    pub fn retention(self, retention: Retention) -> Self {
        Self { retention, ..self }
    }

    /// Opens no change stream: other processes' pushes are found by polling.
    pub fn poll_only(self) -> Self {
        Self { listen: false, ..self }
    }

    /// How long a push waits for another transaction's id or key before it answers `Busy`; 2 s unless
    /// set.
    pub fn busy(self, busy: Duration) -> Self {
        Self { busy: busy.max(Duration::from_millis(1)), ..self }
    }

    /// How long a call may take in all, an election that it waits for included; 30 s unless set.
    pub fn deadline(self, deadline: Duration) -> Self {
        Self { deadline: deadline.max(Duration::from_millis(1)), ..self }
    }

    /// Breaks the connection once, after its `round_trips`-th answer. For the suite.
    #[doc(hidden)]
    pub fn cut_after(self, round_trips: usize) -> Self {
        Self { cut: Some(Arc::new(Cut::after(round_trips))), ..self }
    }

    /// The same, again and again.
    #[doc(hidden)]
    pub fn cut_every(self, round_trips: usize) -> Self {
        Self { cut: Some(Arc::new(Cut::every(round_trips))), ..self }
    }
}
