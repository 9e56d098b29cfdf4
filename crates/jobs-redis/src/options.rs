//! Where the server is and how it is used.

use std::{fmt, sync::Arc, time::Duration};

use fred::{
    clients::{Client, Pool},
    interfaces::ClientLike,
    types::config::{Config, ServerConfig},
};
use jobs_core::{Error, ErrorKind, Result, driver::Cut, retention::Retention};

use crate::client::Lent;

/// What an answer is worth.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// As durable as the server is set: with `appendfsync everysec` a power cut loses what was
    /// answered in the last second or two, without an append-only file more.
    #[default]
    Fast,
    /// The server has to write and sync its append-only file before it answers (`appendonly yes`,
    /// `appendfsync always`): a power cut loses nothing that was answered. [`Redis::open`] refuses
    /// one that does not.
    ///
    /// [`Redis::open`]: crate::Redis::open
    Durable,
}

/// How to open a store. [`Redis::connect`](crate::Redis::connect) takes the defaults.
#[derive(Clone)]
pub struct Options {
    pub(crate) config: Config,
    pub(crate) lent: Option<Lent>,
    pub(crate) prefix: String,
    pub(crate) shards: Option<u32>,
    pub(crate) retention: Retention,
    pub(crate) durability: Durability,
    pub(crate) listen: bool,
    pub(crate) deadline: Duration,
    pub(crate) cut: Option<Arc<Cut>>,
}

/// Without the connection's settings: a password may be among them.
impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Options(prefix {}, {:?})", self.prefix, self.durability)
    }
}

/// What keys begin with unless set.
const PREFIX: &str = "jobs";
/// Longest prefix, in bytes.
const MAX_PREFIX: usize = 64;
/// Done jobs kept of a queue unless set: history is in memory.
const DONE_PER_QUEUE: u64 = 10_000;
/// Shards of a new store on a cluster unless set.
const SHARDS_OF_A_CLUSTER: u32 = 8;
/// Most shards: each reserve asks all of them.
const MAX_SHARDS: u32 = 64;

impl Options {
    /// For a URL `redis://user:password@host:port/database`, `rediss://` with TLS, or
    /// `redis-cluster://host:port?node=host:port`.
    ///
    /// # Errors
    /// Refused: no such URL.
    pub fn new(url: &str) -> Result<Self> {
        let what = "the URL cannot be read: write redis://user:password@host:port or \
                    redis-cluster://host:port";
        // The crate takes any scheme for a lone server's.
        if !["redis", "valkey"].iter().any(|scheme| url.starts_with(scheme)) {
            return Err(Error::new(ErrorKind::Refused, "connect", what));
        }
        let config = Config::from_url(url);
        let refused = |error| Error::with_source(ErrorKind::Refused, "connect", what, error);
        Ok(Self::with(config.map_err(refused)?))
    }

    /// For a configuration of the fred crate's. The driver sets timeouts and reconnections itself.
    pub fn with(config: Config) -> Self {
        Self {
            config,
            lent: None,
            prefix: PREFIX.to_owned(),
            shards: None,
            retention: Retention { done_per_queue: DONE_PER_QUEUE, ..Retention::default() },
            durability: Durability::default(),
            listen: true,
            deadline: Duration::from_secs(10),
            cut: None,
        }
    }

    /// For a client that the application has, connected and on this runtime: calls from here go over
    /// its connection, which the store leaves open. Wake-ups and other runtimes, the worker's control
    /// thread among them, get connections of their own by the same configuration, without which a
    /// busy application would hold up renewals.
    ///
    /// # Errors
    /// Refused: outside of a runtime.
    pub fn with_client(client: &Client) -> Result<Self> {
        let lent = Some(Lent::of_client(client)?);
        Ok(Self { lent, ..Self::with(client.client_config()) })
    }

    /// The same for a pool, whose clients take turns.
    ///
    /// # Errors
    /// Refused: outside of a runtime.
    pub fn with_pool(pool: &Pool) -> Result<Self> {
        let lent = Some(Lent::of_pool(pool)?);
        Ok(Self { lent, ..Self::with(pool.client_config()) })
    }

    /// Begins the names of all keys with `{prefix:`, `jobs` unless set. Two prefixes are two stores.
    ///
    /// # Errors
    /// Refused: empty, longer than 64 bytes, or other than letters, digits, `_`, `-`, `.`.
    pub fn prefix(self, prefix: &str) -> Result<Self> {
        let plain = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
        if !(1..=MAX_PREFIX).contains(&prefix.len()) || !prefix.chars().all(plain) {
            let what = "a prefix has 1 to 64 letters, digits, _, - and .";
            return Err(Error::new(ErrorKind::Refused, "connect", what));
        }
        Ok(Self { prefix: prefix.to_owned(), ..self })
    }

    /// Over how many slots a new store spreads its tenants, 1 to 64: 1 unless set, on a cluster 8.
    /// What the store was made with stays.
    ///
    /// # Errors
    /// Refused: outside of that.
    pub fn shards(self, shards: u32) -> Result<Self> {
        if !(1..=MAX_SHARDS).contains(&shards) {
            let what = "a store has 1 to 64 shards";
            return Err(Error::new(ErrorKind::Refused, "connect", what));
        }
        Ok(Self { shards: Some(shards), ..self })
    }

    /// How long finished jobs stay. Of the done ones of a queue the newest 10,000 unless set.
    pub fn retention(self, retention: Retention) -> Self {
        Self { retention, ..self }
    }

    /// What an answer is worth; [`Durability::Fast`] unless set.
    pub fn durability(self, durability: Durability) -> Self {
        Self { durability, ..self }
    }

    /// Opens no subscription: other processes' pushes are found by polling.
    pub fn poll_only(self) -> Self {
        Self { listen: false, ..self }
    }

    /// How long a call may take in all, a failover that it waits for included; 10 s unless set.
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

    pub(crate) fn shards_of_a_new_store(&self) -> u32 {
        let of_a_cluster = matches!(self.config.server, ServerConfig::Clustered { .. });
        self.shards.unwrap_or(if of_a_cluster { SHARDS_OF_A_CLUSTER } else { 1 })
    }
}
