//! One connection, statement by statement.

use std::sync::atomic::{AtomicUsize, Ordering};

use jobs_core::ErrorKind;
use sqlx::{
    Sqlite, SqliteConnection,
    query::Query,
    sqlite::{SqliteArguments, SqliteRow},
};

use crate::error::Fault;

pub(crate) type Statement<'q> = Query<'q, Sqlite, SqliteArguments>;

/// Breaks a connection once, after a number of round trips, for the suite's fault cases.
#[derive(Debug)]
pub(crate) struct Cut(AtomicUsize);

impl Cut {
    pub fn after(round_trips: usize) -> Self {
        Self(AtomicUsize::new(round_trips))
    }

    /// Was this answer lost?
    fn now(&self) -> bool {
        let left = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| n.checked_sub(1));
        left == Ok(1)
    }
}

/// A connection, the driver's own or the caller's.
pub(crate) struct Db<'c> {
    pub conn: &'c mut SqliteConnection,
    pub cut: Option<&'c Cut>,
}

impl Db<'_> {
    /// All rows of a statement.
    pub async fn all(&mut self, statement: Statement<'_>) -> Result<Vec<SqliteRow>, Fault> {
        let answer = statement.fetch_all(&mut *self.conn).await;
        self.lose()?;
        Ok(answer?)
    }

    /// The first row, if there is one.
    pub async fn first(&mut self, statement: Statement<'_>) -> Result<Option<SqliteRow>, Fault> {
        Ok(self.all(statement).await?.into_iter().next())
    }

    /// How many rows it changed.
    pub async fn run(&mut self, statement: Statement<'_>) -> Result<u64, Fault> {
        let answer = statement.execute(&mut *self.conn).await;
        self.lose()?;
        Ok(answer?.rows_affected())
    }

    fn lose(&self) -> Result<(), Fault> {
        match self.cut {
            Some(cut) if cut.now() => {
                Err(Fault::Broken(ErrorKind::Unavailable, "the connection was cut"))
            }
            _ => Ok(()),
        }
    }
}
