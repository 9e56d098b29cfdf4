//! Background jobs in a MongoDB database.
//!
//! ```no_run
//! # async fn demo() -> jobs_core::Result<()> {
//! let store = jobs_mongo::Mongo::connect("mongodb://localhost/app?replicaSet=rs0").await?;
//! store.migrate().await?;
//! # Ok(()) }
//! ```
//!
//! Collections begin with a prefix of the store's own, `jobs_` unless another is named, beside the
//! application's. [`Mongo::migrate`] makes them and their indexes. The server is a replica set, of one
//! member where that is enough: change streams, transactions and majority need one.
//!
//! | | |
//! |---|---|
//! | promises | every law of the contract, all processes of one set together |
//! | loses in a power cut | nothing that was answered: writes are acknowledged by a majority, journaled |
//! | loses in a failover | nothing that was answered; turns between lanes of the last moment, and who was announced; a claim that was issued again afterwards is refused to its old holder by the nonce |
//! | loses in a process's crash | its counts of failures by minute of the last second |
//! | freshness F | 0 for this handle's pushes and retries and after a wake-up, else 250 ms, or with more lines than 20 ms suffice to look at ten times as long as a look takes |
//! | transactional | yes: [`Mongo::push_in`] |
//! | store's clock | the primary's, `$$NOW`, in whole milliseconds; a push takes what a reply said of it last |
//! | waits for others | a push waits 2 s for an id or key of an open transaction, then answers `Busy` |
//! | a dropped call | each job's part of it happened wholly or not at all |
//!
//! | to know | open |
//! |---|---|
//! | which method runs which statements | `src/queue.rs`, `src/op/` |
//! | who is next, and why | `docs/ARCHITECTURE.md`, `src/op/pick.rs` |
//! | the collections and their indexes | `src/schema.rs`, `src/row.rs` |

mod clock;
mod db;
mod error;
mod frontier;
mod minutes;
mod op;
mod options;
mod push_in;
mod queue;
mod row;
mod schema;
mod settings;
mod turns;
mod wake;

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

use jobs_core::{AuthorizedJob, Nonce, Result, queue::Pushed, share::Sharing};

pub use options::Options;
pub use push_in::PushedIn;
pub use schema::{OLDEST_SERVER, SCHEMA};

use crate::{
    db::Db,
    frontier::{Frontier, Line},
    minutes::Minutes,
    op::prune::Pruning,
    wake::Wake,
};

/// Most pushes of one statement.
const SHARED: usize = 500;
/// Statements of shared pushes on their way at once.
const WRITERS: usize = 2;
/// Reserves whose queue is remembered, the newest.
const REMEMBERED: usize = 4096;

/// Single pushes that wait for a statement.
type Pushes = Sharing<AuthorizedJob, Result<Pushed>>;

/// A handle on a store in a database. Clones share its connections.
#[derive(Clone, Debug)]
pub struct Mongo {
    pub(crate) db: Arc<Db>,
    pub(crate) frontier: Arc<Frontier>,
    pub(crate) wake: Arc<Wake>,
    pub(crate) minutes: Arc<Minutes>,
    pub(crate) pruning: Arc<Pruning>,
    /// From which queue a reserve took: a claim does not say it.
    reserves: Arc<Mutex<Reserves>>,
    /// Concurrent single pushes share a statement (P7).
    pushes: Arc<[Pushes; WRITERS]>,
    turn: Arc<AtomicUsize>,
}

#[derive(Debug, Default)]
struct Reserves {
    queues: HashMap<Nonce, Arc<str>>,
    order: VecDeque<Nonce>,
}

impl Mongo {
    /// Connects to the set at `url` with the defaults.
    ///
    /// # Errors
    /// See [`open`](Self::open).
    pub async fn connect(url: &str) -> Result<Self> {
        Self::open(Options::new(url).await?).await
    }

    /// Connects to a set and looks at the server's version and the schema's. The collections may be
    /// missing: [`migrate`](Self::migrate) makes them.
    ///
    /// # Errors
    /// `Unavailable` when there is no primary, `Unsafe` when the server is a standalone or older than
    /// [`OLDEST_SERVER`], `Schema` when a newer release made the collections.
    pub async fn open(options: Options) -> Result<Self> {
        let store = Self::new(Arc::new(options));
        schema::check(&store.db).await?;
        Ok(store)
    }

    /// Makes collections and indexes that are missing. Any number of processes may do that at once,
    /// beside live work, which an index that is being made does not stop.
    ///
    /// # Errors
    /// `Refused` without the privilege to create them; `Schema` when a newer release made them.
    pub async fn migrate(&self) -> Result<()> {
        schema::migrate(&self.db).await
    }

    fn new(options: Arc<Options>) -> Self {
        Self {
            db: Arc::new(Db::new(options)),
            frontier: Arc::default(),
            wake: Arc::default(),
            minutes: Arc::default(),
            pruning: Arc::default(),
            reserves: Arc::default(),
            pushes: Arc::new(std::array::from_fn(|_| Sharing::new(SHARED))),
            turn: Arc::default(),
        }
    }

    /// Another handle on the same store, with connections of its own. What one of them knows the
    /// other does, and wakes who watches it, without a word to the server. It listens by itself: a
    /// change stream ends with the runtime that opened it.
    pub(crate) fn another(&self) -> Self {
        let db = Arc::new(Db::new(self.db.options.clone()));
        Self { db, wake: Arc::new(self.wake.another()), ..self.clone() }
    }

    /// These queues have work, where known in these lines from then on: known to this handle, and
    /// whoever watches is woken.
    pub(crate) fn put_in_line(
        &self,
        lines: impl IntoIterator<Item = (String, Option<(Line, i64)>)>,
    ) {
        let mut firsts = BTreeMap::<String, Option<BTreeMap<Line, i64>>>::new();
        for (queue, line) in lines {
            let known = firsts.entry(queue).or_insert_with(|| Some(BTreeMap::new()));
            match line {
                None => *known = None,
                Some((line, due)) => {
                    if let Some(known) = known {
                        let first = known.entry(line).or_insert(due);
                        *first = due.min(*first);
                    }
                }
            }
        }
        for (queue, lines) in &firsts {
            match lines {
                Some(lines) => self.frontier.note(lines.iter().map(|(line, due)| (line, *due))),
                None => self.frontier.look(Some(queue)),
            }
        }
        self.wake.tell(&self.db, firsts);
    }

    /// Whom the next single push waits with.
    pub(crate) fn sharing(&self) -> &Pushes {
        &self.pushes[self.turn.fetch_add(1, Ordering::Relaxed) % WRITERS]
    }

    /// A reserve with this nonce took from this queue.
    pub(crate) fn remember(&self, nonce: Nonce, queue: &str) {
        let mut reserves = self.reserves.lock().unwrap_or_else(PoisonError::into_inner);
        if reserves.queues.insert(nonce, queue.into()).is_none() {
            reserves.order.push_back(nonce);
        }
        if reserves.order.len() > REMEMBERED
            && let Some(oldest) = reserves.order.pop_front()
        {
            reserves.queues.remove(&oldest);
        }
    }

    /// From which queue a reserve of this handle took.
    pub(crate) fn remembered(&self, nonce: Nonce) -> Option<String> {
        let reserves = self.reserves.lock().unwrap_or_else(PoisonError::into_inner);
        reserves.queues.get(&nonce).map(|queue| queue.to_string())
    }

    /// The same without a look, for the suite: its cuts begin with the first call.
    #[doc(hidden)]
    pub fn open_lazily(options: Options) -> Self {
        Self::new(Arc::new(options))
    }

    /// Writes what is counted and not written. For the suite.
    #[doc(hidden)]
    pub async fn flush(&self) {
        if let Err(fault) = self.minutes.write(&self.db).await {
            tracing::debug!(?fault, "counts by minute are written later");
        }
    }

    /// Looks at everything again, as after instants were moved by hand. For the suite.
    #[doc(hidden)]
    pub fn forget(&self) {
        self.frontier.forget();
        self.minutes.forget();
        self.pruning.forget();
    }
}
