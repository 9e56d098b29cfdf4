//! The driver's own connections: how they are opened, and the deadline that their statements keep.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use jobs_core::driver::Cut;
use rusqlite::{Connection, OpenFlags, config::DbConfig};

use crate::{
    db::Db,
    error::Fault,
    options::{Durability, Options},
};

/// How long SQLite's own busy handler waits. It sleeps longer each time, up to 100 ms, which
/// starves one of eight processes for seconds; the writer asks again in short steps instead.
const BUSY_STEP: Duration = Duration::from_millis(20);
/// Statements that are kept prepared: all there are.
const PREPARED: usize = 200;
/// Steps of SQLite's machine between two looks at the deadline, well under a millisecond.
const LOOK: i32 = 10_000;

/// A connection of the driver's own.
#[derive(Debug)]
pub(crate) struct Own {
    conn: Connection,
    /// When a statement that still runs is interrupted.
    until: Arc<Mutex<Option<Instant>>>,
}

impl Own {
    /// To write with.
    pub fn writing(options: &Options, create: bool) -> Result<Self, Fault> {
        let own = Self::open(options, create)?;
        let synchronous = match options.durability {
            Durability::Full => "FULL",
            Durability::Normal => "NORMAL",
        };
        // Incremental, so that a sweep after a flood can give pages back; only a new file takes it.
        own.conn.pragma_update(None, "auto_vacuum", "INCREMENTAL")?;
        own.conn.pragma_update(None, "journal_mode", "WAL")?;
        own.conn.pragma_update(None, "synchronous", synchronous)?;
        Ok(own)
    }

    /// Only to read with: it asks for nothing that takes the write lock, so it opens while a
    /// transaction of the application is open.
    pub fn reading(options: &Options) -> Result<Self, Fault> {
        let own = Self::open(options, false)?;
        own.conn.pragma_update(None, "query_only", true)?;
        Ok(own)
    }

    fn open(options: &Options, create: bool) -> Result<Self, Fault> {
        // No mutex: a connection stays on one thread.
        let mut flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        if create {
            flags |= OpenFlags::SQLITE_OPEN_CREATE;
        }
        let conn = Connection::open_with_flags(&options.path, flags)?;
        conn.busy_timeout(BUSY_STEP)?;
        conn.set_prepared_statement_cache_capacity(PREPARED);
        conn.pragma_update(None, "foreign_keys", false)?;
        conn.pragma_update(None, "cache_size", -16_000)?;
        // One plan a statement, whatever is bound: otherwise each new bound of a range is a reason
        // to prepare it again, 15 µs a time.
        conn.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
        let until = Arc::new(Mutex::new(None));
        let due = until.clone();
        let late = move || {
            let until: Option<Instant> = *due.lock().unwrap_or_else(PoisonError::into_inner);
            until.is_some_and(|until| Instant::now() >= until)
        };
        conn.progress_handler(LOOK, Some(late))?;
        Ok(Self { conn, until })
    }

    /// Statements that still run then are interrupted.
    pub fn until(&self, until: Instant) {
        *self.until.lock().unwrap_or_else(PoisonError::into_inner) = Some(until);
    }

    /// To run statements on.
    pub fn db<'c>(&'c mut self, cut: Option<&'c Cut>) -> Db<'c> {
        Db::own(&mut self.conn, cut)
    }

    /// Runs statements without answers, as a migration is.
    pub fn batch(&self, sql: &str) -> Result<(), Fault> {
        Ok(self.conn.execute_batch(sql)?)
    }
}
