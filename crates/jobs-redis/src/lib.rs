//! Background jobs in a Redis, standalone or a cluster.
//!
//! ```no_run
//! # async fn demo() -> jobs_core::Result<()> {
//! let store = jobs_redis::Redis::connect("redis://localhost").await?;
//! store.migrate().await?;
//! # Ok(()) }
//! ```
//!
//! [`Options::with_client`] and [`Options::with_pool`] take a client of the fred crate that the
//! application has already.
//!
//! Keys begin with `{prefix:shard}`, `{jobs:0}` unless another prefix is named, beside the
//! application's. [`Redis::migrate`] marks the shards. The server is Redis 7.0 or newer that evicts
//! nothing; one that may is refused.
//!
//! | | |
//! |---|---|
//! | promises | every law of the contract, all processes of one server or cluster together |
//! | loses in a power cut | [`Durability::Fast`]: with `appendfsync everysec` what was answered in the last second or two; [`Durability::Durable`]: nothing that was answered |
//! | loses in a failover | what the promoted replica had not been sent yet, at either durability: pushes of that moment are lost, settlements run again; a claim that was issued again is refused to its old holder by the nonce |
//! | freshness F | 0 |
//! | transactional | no: push into another store's transaction and relay from there |
//! | store's clock | the server's, `TIME`, in whole milliseconds |
//! | full server | a push answers `Full`; settlements, renewals and sweeps go on, so it drains |
//! | a dropped call | each job's part of it happened wholly or not at all |
//!
//! What each durability keeps and loses, of what a call had answered:
//!
//! | | [`Durability::Fast`], the default | [`Durability::Durable`] |
//! |---|---|---|
//! | asks of the server | nothing; [`check`](jobs_core::Admin::check) tells where the append-only file is off | `appendonly yes` and `appendfsync always`, or it is refused |
//! | a worker or producer is killed | nothing | nothing |
//! | the server is killed (`appendonly yes`) | nothing: the system has what was written | nothing |
//! | power cut, `appendfsync everysec` | the last second, two where the disk is slow | does not run so |
//! | power cut, no append-only file | everything since the last snapshot | does not run so |
//! | a replica is promoted | what it had not been sent | the same: replication does not wait |
//! | costs | no wait | a sync of the disk for what a server's turn answered together |
//!
//! What is lost is lost in the order of time: a push whose answer is lost with it is no job, a
//! settlement runs its job again, a claim lets another have the job while its first holder's writes
//! answer `Lost`.
//!
//! | to know | open |
//! |---|---|
//! | which method runs which script | `src/queue.rs`, `src/op/` |
//! | the keys | `src/op/prelude.lua`, `src/keys.rs` |
//! | who is next, and why | `docs/ARCHITECTURE.md`, `src/op/reserve.lua` |

mod client;
mod db;
mod error;
mod keys;
mod op;
mod options;
mod queue;
mod reply;
mod row;
mod schema;
mod script;
mod wake;

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use jobs_core::{AuthorizedJob, Result, queue::Pushed, share::Sharing};

pub use fred;
pub use options::{Durability, Options};
pub use schema::OLDEST_SERVER;

use crate::{db::Db, wake::Wake};

/// Most pushes of one script.
const SHARED: usize = 200;
/// Scripts of shared pushes on their way at once.
const WRITERS: usize = 2;

/// Single pushes that wait for a script.
type Pushes = Sharing<AuthorizedJob, Result<Pushed>>;

/// A handle on a store. Clones share its connections.
#[derive(Clone, Debug)]
pub struct Redis {
    pub(crate) db: Arc<Db>,
    pub(crate) wake: Arc<Wake>,
    /// Concurrent single pushes share a script (P7).
    pushes: Arc<[Pushes; WRITERS]>,
    turn: Arc<AtomicUsize>,
}

impl Redis {
    /// Connects to the server or cluster at `url` with the defaults.
    ///
    /// # Errors
    /// See [`open`](Self::open).
    pub async fn connect(url: &str) -> Result<Self> {
        Self::open(Options::new(url)?).await
    }

    /// Connects and looks at the server's version and settings, and the store's version. The store may
    /// be missing: [`migrate`](Self::migrate) makes it.
    ///
    /// # Errors
    /// `Unavailable` without a server, `Unsafe` when it may evict jobs, is older than
    /// [`OLDEST_SERVER`] or less durable than asked, `Schema` when a newer release made the store.
    pub async fn open(options: Options) -> Result<Self> {
        let store = Self::open_lazily(options);
        schema::check(&store.db).await?;
        Ok(store)
    }

    /// Makes the store where it is missing. Any number of processes may do that at once.
    ///
    /// # Errors
    /// `Schema` when a newer release made it.
    pub async fn migrate(&self) -> Result<()> {
        schema::migrate(&self.db).await
    }

    /// The same without a look, for the suite: its cuts begin with the first call.
    #[doc(hidden)]
    pub fn open_lazily(options: Options) -> Self {
        Self {
            db: Arc::new(Db::new(Arc::new(options))),
            wake: Arc::default(),
            pushes: Arc::new(std::array::from_fn(|_| Sharing::new(SHARED))),
            turn: Arc::default(),
        }
    }

    /// Another handle on the same store, with connections of its own. What one of them pushes wakes
    /// who watches the other, without a word to the server.
    pub(crate) fn another(&self) -> Self {
        Self { db: Arc::new(Db::new(self.db.options.clone())), ..self.clone() }
    }

    /// Whom the next single push waits with.
    pub(crate) fn sharing(&self) -> &Pushes {
        &self.pushes[self.turn.fetch_add(1, Ordering::Relaxed) % WRITERS]
    }
}
