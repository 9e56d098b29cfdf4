//! What goes wrong, and as what callers see it: one mapping.

use jobs_core::{Error, ErrorKind};
use mongodb::error::{
    ErrorKind as Kind, RETRYABLE_WRITE_ERROR, TRANSIENT_TRANSACTION_ERROR, WriteFailure,
};

/// A failed command or an unreadable document.
#[derive(Debug)]
pub(crate) enum Fault {
    /// The driver's, which may hold a server's answer.
    Mongo(mongodb::error::Error),
    /// The server's answer to one statement of a command.
    Answered(i32, String),
    /// The server did it, and does not know whether a majority has it.
    Unacknowledged(i32, String),
    /// The connection is of no use any more, or the call was late.
    Broken(ErrorKind, &'static str),
    /// What is asked cannot be done, in words that say what to do.
    Refused(ErrorKind, String),
    /// A stored document cannot be read.
    Corrupt(String),
}

impl From<mongodb::error::Error> for Fault {
    fn from(error: mongodb::error::Error) -> Self {
        Self::Mongo(error)
    }
}

/// A call whose deadline passed.
pub(crate) const LATE: Fault =
    Fault::Broken(ErrorKind::Timeout, "the call's deadline passed: try again");

/// A unique index has the value already.
pub(crate) const DUPLICATE: i32 = 11000;
/// The time that the command was given is over.
pub(crate) const EXPIRED: i32 = 50;

/// Another member is the primary now, or soon: codes of the specification "server discovery and
/// monitoring", recovering and not writable.
const NOT_PRIMARY: [i32; 8] = [11600, 11602, 10107, 13435, 13436, 10058, 189, 91];

/// The same command has a chance soon: a write conflict (112), a cursor that its server forgot (43),
/// the network (6, 7, 89, 9001), what the specification "retryable writes" lists besides (262, 134),
/// a plan that was killed (175), a snapshot that is gone (246, 239).
const PASSING: [i32; 11] = [112, 43, 6, 7, 89, 9001, 262, 134, 175, 246, 239];

impl Fault {
    /// The server's code, where it answered.
    pub fn code(&self) -> Option<i32> {
        match self {
            Self::Answered(code, _) | Self::Unacknowledged(code, _) => Some(*code),
            Self::Mongo(error) => match &*error.kind {
                Kind::Command(command) => Some(command.code),
                Kind::Write(WriteFailure::WriteError(write)) => Some(write.code),
                Kind::Write(WriteFailure::WriteConcernError(concern)) => Some(concern.code),
                _ => None,
            },
            _ => None,
        }
    }

    /// Does the same command, sent again soon, have a chance? What it did is unknown, and every
    /// command that is sent this way is safe to repeat.
    pub fn is_passing(&self) -> bool {
        match self {
            Self::Mongo(error) if self.code().is_none() => matches!(
                *error.kind,
                Kind::Io(_) | Kind::ConnectionPoolCleared { .. } | Kind::ServerSelection { .. }
            ),
            Self::Mongo(error) if error.contains_label(RETRYABLE_WRITE_ERROR) => true,
            Self::Mongo(_) | Self::Answered(..) | Self::Unacknowledged(..) => {
                let code = self.code().unwrap_or_default();
                NOT_PRIMARY.contains(&code) || PASSING.contains(&code)
            }
            _ => false,
        }
    }

    /// As callers of `operation` see it.
    pub fn into_error(self, operation: &'static str) -> Error {
        let code = self.code();
        let error = match self {
            Self::Broken(kind, what) => return Error::new(kind, operation, what),
            Self::Refused(kind, what) => return Error::new(kind, operation, what),
            Self::Corrupt(what) => {
                let what = format!("a stored document cannot be read: {what}");
                return Error::new(ErrorKind::Corrupt, operation, what);
            }
            Self::Unacknowledged(_, said) => {
                let what = "too few members acknowledged in time, so what happened is unknown";
                return Error::new(ErrorKind::Unavailable, operation, format!("{what} ({said})"));
            }
            Self::Answered(code, said) => {
                let (kind, what) = of_code(code);
                return Error::new(kind, operation, format!("{what} ({said})"));
            }
            Self::Mongo(error) => error,
        };
        let (kind, what) = match code {
            _ if error.contains_label(TRANSIENT_TRANSACTION_ERROR) => {
                (ErrorKind::Busy, "another transaction was in the way: do the whole one again")
            }
            Some(code) => of_code(code),
            None => of_kind(&error.kind),
        };
        Error::with_source(kind, operation, format!("{what} ({})", error.kind), error)
    }
}

fn of_kind(kind: &Kind) -> (ErrorKind, &'static str) {
    match kind {
        Kind::Io(_)
        | Kind::ConnectionPoolCleared { .. }
        | Kind::ServerSelection { .. }
        | Kind::DnsResolve { .. } => {
            (ErrorKind::Unavailable, "no connection to a primary: try again")
        }
        Kind::Authentication { .. } => {
            (ErrorKind::Refused, "the server refuses this user or password")
        }
        Kind::InvalidTlsConfig { .. } => (ErrorKind::Refused, "TLS could not be agreed on"),
        Kind::InvalidArgument { .. } => {
            (ErrorKind::Refused, "a value is not what the server takes")
        }
        Kind::IncompatibleServer { .. } => {
            (ErrorKind::Unsafe, "the server's version does not fit: upgrade it")
        }
        Kind::Transaction { .. } => (ErrorKind::Refused, "the session has no such transaction"),
        _ => (ErrorKind::Internal, "the command failed"),
    }
}

/// MongoDB's error codes, from `error_codes.yml` of its source.
fn of_code(code: i32) -> (ErrorKind, &'static str) {
    match code {
        112 | 24 | DUPLICATE => {
            (ErrorKind::Busy, "another write was in the way of this one: try again")
        }
        251 | 244 | 290 => (ErrorKind::Busy, "the transaction was ended: do the whole one again"),
        EXPIRED | 202 | 262 | 11601 => {
            (ErrorKind::Timeout, "the server ended the command: try again")
        }
        64 | 100 => {
            (ErrorKind::Unavailable, "too few members acknowledged, so what happened is unknown")
        }
        14031 => (ErrorKind::Full, "the server is out of disk: give it room"),
        146 => (ErrorKind::Full, "the server is out of memory for this command"),
        13 | 8000 => (ErrorKind::Refused, "the user lacks a privilege on the database: grant it"),
        18 | 11 => (ErrorKind::Refused, "the server refuses this user or password"),
        26 | 27 => (ErrorKind::Schema, "the jobs collections are missing: run the migrations"),
        10334 | 17280 | 17419 | 17420 => {
            (ErrorKind::Refused, "the job is larger than the server's 16 MiB: push its id instead")
        }
        121 => (ErrorKind::Schema, "a validator was put on the jobs collection: take it off"),
        code if NOT_PRIMARY.contains(&code) => {
            (ErrorKind::Unavailable, "another member becomes the primary: try again")
        }
        6 | 7 | 89 | 9001 => (ErrorKind::Unavailable, "the server lost its network: try again"),
        43 | 134 | 175 | 239 | 246 => {
            (ErrorKind::Unavailable, "the server could not do it just now: try again")
        }
        _ => (ErrorKind::Internal, "the server refused a command"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_soon_passes_is_transient_and_a_late_majority_is_no_lock() {
        for code in PASSING.into_iter().chain(NOT_PRIMARY).chain([290, 11601, 50]) {
            let error = Fault::Answered(code, String::new()).into_error("test");
            assert!(error.is_transient(), "{code}: {error}");
        }
        for code in PASSING.into_iter().chain(NOT_PRIMARY) {
            assert!(Fault::Answered(code, String::new()).is_passing(), "{code}");
        }
        let late = Fault::Unacknowledged(EXPIRED, String::new());
        assert!(!late.is_passing());
        assert_eq!(late.into_error("test").kind(), ErrorKind::Unavailable);
    }
}
