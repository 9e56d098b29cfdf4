//! What goes wrong, and as what callers see it: one mapping.

use jobs_core::{Error, ErrorKind};

/// A failed statement or an unreadable row.
#[derive(Debug)]
pub(crate) enum Fault {
    /// SQLite's.
    Sql(sqlx::Error),
    /// The connection is of no use any more.
    Broken(ErrorKind, &'static str),
    /// A stored row cannot be read.
    Corrupt(String),
    /// The code that was to run it panicked.
    Panicked,
}

impl From<sqlx::Error> for Fault {
    fn from(error: sqlx::Error) -> Self {
        Self::Sql(error)
    }
}

/// SQLite's primary result code, where the error has one.
pub(crate) fn code(error: &sqlx::Error) -> Option<u32> {
    let code = error.as_database_error()?.code()?.parse::<u32>().ok()?;
    Some(code & 0xff)
}

impl Fault {
    /// Another connection holds the lock.
    pub fn is_busy(&self) -> bool {
        matches!(self, Self::Sql(error) if matches!(code(error), Some(5 | 6)))
    }

    /// Is the connection to be replaced, rather than the transaction rolled back?
    pub fn breaks(&self) -> bool {
        match self {
            Self::Broken(..) | Self::Panicked => true,
            Self::Corrupt(_) => false,
            Self::Sql(error) => match code(error) {
                // I/O, corrupt, cannot open, not a database: a new connection may do better.
                Some(code) => matches!(code, 10 | 11 | 14 | 26),
                None => matches!(
                    error,
                    sqlx::Error::Io(_) | sqlx::Error::WorkerCrashed | sqlx::Error::PoolClosed
                ),
            },
        }
    }

    /// May it be one call's own, which leaves the others of its group alone?
    pub fn is_of_one(&self) -> bool {
        matches!(self, Self::Panicked) || !self.breaks()
    }

    /// The file cannot be opened: wrong from the start when it never could.
    pub fn is_closed(&self) -> bool {
        matches!(self, Self::Sql(error) if code(error) == Some(14))
    }

    /// As callers of `operation` see it.
    pub fn into_error(self, operation: &'static str) -> Error {
        let error = match self {
            Self::Broken(kind, what) => return Error::new(kind, operation, what),
            Self::Corrupt(what) => return Error::new(ErrorKind::Corrupt, operation, what),
            Self::Panicked => {
                let what = "the driver panicked: the panic's message tells where; report it";
                return Error::new(ErrorKind::Internal, operation, what);
            }
            Self::Sql(error) => error,
        };
        let (kind, what) = match (code(&error), &error) {
            (Some(5 | 6), _) => {
                (ErrorKind::Busy, "another connection holds the file's write lock: try again")
            }
            (Some(8 | 23), _) => (
                ErrorKind::Refused,
                "the file or its directory cannot be written: check its permissions",
            ),
            (Some(10), _) => {
                (ErrorKind::Unavailable, "the disk failed: check it and its free space")
            }
            (Some(11 | 26), _) => {
                (ErrorKind::Corrupt, "the file is damaged or no database: restore it from a backup")
            }
            (Some(13), _) => {
                (ErrorKind::Full, "the disk is full; nothing was stored: give it room")
            }
            (Some(14), _) => (
                ErrorKind::Unavailable,
                "the file cannot be opened: check that its directory exists and is writable",
            ),
            (Some(18), _) => (ErrorKind::Refused, "a value is larger than SQLite takes"),
            (None, sqlx::Error::Io(_) | sqlx::Error::WorkerCrashed) => {
                (ErrorKind::Unavailable, "the connection broke: try again")
            }
            (
                None,
                sqlx::Error::ColumnDecode { .. } | sqlx::Error::Decode(_) | sqlx::Error::Encode(_),
            ) => (ErrorKind::Corrupt, "a stored value cannot be read"),
            _ => (ErrorKind::Internal, "SQLite refused a statement"),
        };
        Error::with_source(kind, operation, format!("{what} ({error})"), error)
    }
}
