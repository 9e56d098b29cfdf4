//! Background jobs in a SQLite file: the embedded default.
//!
//! ```no_run
//! # async fn demo() -> jobs_core::Result<()> {
//! let store = jobs_sqlite::Sqlite::connect("sqlite://app.db").await?;
//! # Ok(()) }
//! ```
//!
//! The file is created and migrated on connect, which also turns it to WAL mode for good. Its tables
//! and indexes begin with `jobs_`, a prefix that is then the store's alone, so they live in the
//! application's own file, beside its sqlx migrations. `ANALYZE` and `PRAGMA optimize` are the
//! application's to use: the store deletes what they say of its own tables. Several processes may share it, on one
//! machine and a local disk.
//!
//! | | |
//! |---|---|
//! | promises | every law of the contract, all processes of one file together |
//! | loses with [`Durability::Full`] | nothing that was answered, power cuts included |
//! | loses with [`Durability::Normal`] | in a power cut the last commits, never the file; in a crash of the process nothing |
//! | freshness F | 0 for whatever was committed, by this handle or another; a wake-up from another process takes up to 20 ms |
//! | transactional | yes: [`Sqlite::push_in`] |
//! | store's clock | the machine's, never less than the highest stored in the file, and going on from there by the time that passes |
//! | waits for others | SQLite has one writer: a transaction left open by the application stops every push and worker until it ends, and each answers `Busy`, pushes 2 s after they were made, the rest after 10 s |
//! | a dropped call | one that waits for its turn is not run (a push may be); one that is being run is committed |
//!
//! The driver uses rusqlite 0.39 for itself and sqlx 0.9 for [`Sqlite::push_in`]: both link one
//! SQLite, and an application that links another version of it does not build.
//!
//! | to know | open |
//! |---|---|
//! | which method runs which statements | `src/queue.rs`, `src/op/` |
//! | why one thread writes | `src/writer.rs` |
//! | the tables | `migrations/` |

mod clock;
mod db;
mod error;
mod glance;
mod moves;
mod op;
mod options;
mod own;
mod places;
mod push_in;
mod queue;
mod reader;
mod row;
mod schema;
mod statistics;
mod thread;
mod tx;
mod wake;
mod writer;

use std::sync::Arc;

use jobs_core::Result;

pub use options::{Durability, Options};
pub use push_in::PushedIn;
pub use schema::{SCHEMA, check_version};

use crate::{clock::Clock, reader::Reader, wake::Wake, writer::Writer};

/// A handle on a store in a file. Clones share its two threads, one of which writes and one reads;
/// both end with the last clone.
#[derive(Clone, Debug)]
pub struct Sqlite {
    pub(crate) options: Arc<Options>,
    pub(crate) writer: Writer,
    pub(crate) reader: Reader,
    pub(crate) wake: Arc<Wake>,
    pub(crate) clock: Arc<Clock>,
}

impl Sqlite {
    /// Opens, creates and migrates the file at `url` with the defaults.
    ///
    /// # Errors
    /// See [`open`](Self::open).
    pub async fn connect(url: &str) -> Result<Self> {
        Self::open(Options::new(url)?).await
    }

    /// Opens, creates and migrates a file. Bound to no runtime.
    ///
    /// # Errors
    /// `Refused` when the file cannot be opened, `Unsafe` when this SQLite may damage it, `Schema`
    /// when a newer release made it.
    pub async fn open(options: Options) -> Result<Self> {
        let (options, wake) = (Arc::new(options), Arc::new(Wake::default()));
        let clock = Arc::new(Clock::off_by(options.clock_off));
        let writer = Writer::start(options.clone(), wake.clone(), clock.clone()).await?;
        let reader = Reader::start(options.clone(), wake.clone(), clock.clone())?;
        Ok(Self { options, writer, reader, wake, clock })
    }
}
