//! Background jobs in a PostgreSQL database.
//!
//! ```no_run
//! # async fn demo() -> jobs_core::Result<()> {
//! let store = jobs_postgres::Postgres::connect("postgres://app@localhost/app").await?;
//! store.migrate().await?;
//! # Ok(()) }
//! ```
//!
//! Tables and functions live in a schema of the store's own, `jobs` unless another is named, beside the
//! application's, and every statement writes the schema out. [`Postgres::migrate`] makes it, under a
//! lock and with a table of versions of its own; [`sql`] prints it for whoever may run it where the
//! application may not.
//!
//! | | |
//! |---|---|
//! | promises | every law of the contract, all processes of one database together |
//! | loses in a power cut | nothing that was answered, with the server's `synchronous_commit` on |
//! | loses in a failover | what the standby had not received: nothing with synchronous replication; a claim issued again afterwards is refused to its old holder by the nonce |
//! | freshness F | 0 for this handle's pushes and retries and after a wake-up, else 250 ms with up to 500 lines (a name of a tenant) with work, and 200 ms more for each 500 others; under a snapshot that somebody holds for long, for what is committed late or given back by another process, ten times as long as a look at all lines takes |
//! | transactional | yes: [`Postgres::push_in`] |
//! | store's clock | the server's `clock_timestamp()`, in whole milliseconds |
//! | waits for others | a push waits 2 s for a key or id of an uncommitted transaction, then answers `Busy`; a reserve waits 1 s for the turns of its queue, then answers no deliveries |
//! | a push of many | is stored a thousand at a time, and from 400 without keys on in two halves at once: each part wholly or not at all, and answered by itself; due times follow the part, not the list |
//! | a dropped call | happened wholly or not at all; its connection is closed |
//!
//! | to know | open |
//! |---|---|
//! | which method runs which statements | `src/queue.rs`, `src/op/` |
//! | who is next, and why | `docs/ARCHITECTURE.md`, `src/op/reserve.sql` |
//! | the tables | `migrations/` |

mod db;
mod error;
mod frontier;
mod op;
mod options;
mod push_in;
mod queue;
mod row;
mod schema;
mod wake;

use std::sync::{Arc, Mutex};

use jobs_core::{AuthorizedJob, Result, queue::Pushed, share::Sharing};

pub use options::{Mode, Options};
pub use push_in::PushedIn;
pub use schema::{OLDEST_SERVER, SCHEMA, sql};

use crate::{db::Db, frontier::Frontier, wake::Wake};

/// Most pushes of one statement.
const SHARED: usize = 500;

/// A handle on a store in a database. Clones share its connections.
#[derive(Clone, Debug)]
pub struct Postgres {
    pub(crate) db: Arc<Db>,
    pub(crate) frontier: Arc<Frontier>,
    pub(crate) wake: Arc<Wake>,
    /// Concurrent single pushes share a statement (P7).
    pub(crate) pushes: Arc<Sharing<AuthorizedJob, Result<Pushed>>>,
    /// From which queue on the next sweep prunes history.
    pub(crate) swept: Arc<Mutex<String>>,
}

impl Postgres {
    /// Connects to the database at `url` with the defaults.
    ///
    /// # Errors
    /// See [`open`](Self::open).
    pub async fn connect(url: &str) -> Result<Self> {
        Self::open(Options::new(url)?).await
    }

    /// Connects to a database and looks at the server's version and the schema's. The schema may be
    /// missing: [`migrate`](Self::migrate) makes it.
    ///
    /// # Errors
    /// `Unavailable` when there is no connection, `Unsafe` when the server is older than
    /// [`OLDEST_SERVER`], `Schema` when a newer release made the schema.
    pub async fn open(options: Options) -> Result<Self> {
        let store = Self::new(Arc::new(options));
        schema::check(&store.db).await?;
        Ok(store)
    }

    /// Brings the schema to this release's version. Any number of processes may do that at once, beside
    /// the application's own migrations.
    ///
    /// # Errors
    /// `Refused` without the privilege to create the schema or its tables; [`sql`] is for that case.
    /// `Schema` when a newer release made it.
    pub async fn migrate(&self) -> Result<()> {
        schema::migrate(&self.db).await
    }

    fn new(options: Arc<Options>) -> Self {
        Self {
            db: Arc::new(Db::new(options)),
            frontier: Arc::default(),
            wake: Arc::default(),
            pushes: Arc::new(Sharing::new(SHARED)),
            swept: Arc::new(Mutex::new(op::sweep::FIRST.to_owned())),
        }
    }

    /// Another handle on the same store, with connections of its own. What one of them puts in line
    /// the other knows, and wakes who watches it, without a word to the server.
    pub(crate) fn another(&self) -> Self {
        let another = Self::new(self.db.options.clone());
        Self { frontier: self.frontier.clone(), wake: self.wake.clone(), ..another }
    }

    /// Looks at everything again, as after instants were moved by hand. For the suite.
    #[doc(hidden)]
    pub fn forget(&self) {
        self.frontier.forget();
    }
}
