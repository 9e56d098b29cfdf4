//! What goes wrong, and as what callers see it: one mapping.

use jobs_core::{Error, ErrorKind};

/// A failed statement or an unreadable row.
#[derive(Debug)]
pub(crate) enum Fault {
    /// SQLite's, on a connection of the driver's own.
    Sql(rusqlite::Error),
    /// The same, on the caller's connection.
    Callers(sqlx::Error),
    /// The connection is of no use any more.
    Broken(ErrorKind, &'static str),
    /// A stored row cannot be read.
    Corrupt(String),
    /// The code that was to run it panicked.
    Panicked,
}

impl From<rusqlite::Error> for Fault {
    fn from(error: rusqlite::Error) -> Self {
        match error.sqlite_error_code() {
            // Its own deadline is all that interrupts a statement.
            Some(rusqlite::ErrorCode::OperationInterrupted) => LATE,
            _ => Self::Sql(error),
        }
    }
}

impl From<sqlx::Error> for Fault {
    fn from(error: sqlx::Error) -> Self {
        Self::Callers(error)
    }
}

/// A call whose deadline passed.
pub(crate) const LATE: Fault =
    Fault::Broken(ErrorKind::Timeout, "the call's deadline passed: try again");

impl Fault {
    /// SQLite's primary result code, where it has one.
    pub fn code(&self) -> Option<i32> {
        let extended = match self {
            Self::Sql(rusqlite::Error::SqlInputError { error, .. }) => error.extended_code,
            Self::Sql(error) => error.sqlite_error()?.extended_code,
            Self::Callers(error) => error.as_database_error()?.code()?.parse().ok()?,
            Self::Broken(..) | Self::Corrupt(_) | Self::Panicked => return None,
        };
        Some(extended & 0xff)
    }

    /// Another connection holds the lock.
    pub fn is_busy(&self) -> bool {
        matches!(self.code(), Some(5 | 6))
    }

    /// Is the connection to be replaced, rather than the transaction rolled back?
    pub fn breaks(&self) -> bool {
        match self {
            Self::Broken(..) | Self::Panicked => true,
            Self::Corrupt(_) => false,
            // I/O, corrupt, cannot open, not a database: a new connection may do better.
            Self::Sql(_) | Self::Callers(_) => matches!(self.code(), Some(10 | 11 | 14 | 26)),
        }
    }

    /// May it be one call's own, which leaves the others of its group alone?
    pub fn is_of_one(&self) -> bool {
        matches!(self, Self::Panicked) || !self.breaks()
    }

    /// The file cannot be opened: wrong from the start when it never could.
    pub fn is_closed(&self) -> bool {
        self.code() == Some(14)
    }

    /// As callers of `operation` see it.
    pub fn into_error(self, operation: &'static str) -> Error {
        let code = self.code();
        let broken =
            matches!(&self, Self::Callers(sqlx::Error::Io(_) | sqlx::Error::WorkerCrashed));
        let error: Box<dyn std::error::Error + Send + Sync> = match self {
            Self::Broken(kind, what) => return Error::new(kind, operation, what),
            Self::Corrupt(what) => return Error::new(ErrorKind::Corrupt, operation, what),
            Self::Panicked => {
                let what = "the driver panicked: the panic's message tells where; report it";
                return Error::new(ErrorKind::Internal, operation, what);
            }
            Self::Sql(error) => error.into(),
            Self::Callers(error) => error.into(),
        };
        let (kind, what) = match code {
            Some(5 | 6) => {
                (ErrorKind::Busy, "another connection holds the file's write lock: try again")
            }
            Some(8 | 23) => (
                ErrorKind::Refused,
                "the file or its directory cannot be written: check its permissions",
            ),
            Some(10) => (ErrorKind::Unavailable, "the disk failed: check it and its free space"),
            Some(11 | 26) => {
                (ErrorKind::Corrupt, "the file is damaged or no database: restore it from a backup")
            }
            Some(13) => (ErrorKind::Full, "the disk is full; nothing was stored: give it room"),
            Some(14) => (
                ErrorKind::Unavailable,
                "the file cannot be opened: check that its directory exists and is writable",
            ),
            Some(18) => (ErrorKind::Refused, "a value is larger than SQLite takes"),
            _ if broken => (ErrorKind::Unavailable, "the connection broke: try again"),
            _ => (ErrorKind::Internal, "SQLite refused a statement"),
        };
        Error::with_source(kind, operation, format!("{what} ({error})"), error)
    }
}
