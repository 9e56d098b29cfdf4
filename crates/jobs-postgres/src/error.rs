//! What goes wrong, and as what callers see it: one mapping.

use jobs_core::{Error, ErrorKind};
use sqlx::{error::DatabaseError, postgres::PgDatabaseError};

/// A failed statement or an unreadable row.
#[derive(Debug)]
pub(crate) enum Fault {
    /// The server's or the connection's.
    Sql(sqlx::Error),
    /// The connection is of no use any more.
    Broken(ErrorKind, &'static str),
    /// A stored row cannot be read.
    Corrupt(String),
}

impl From<sqlx::Error> for Fault {
    fn from(error: sqlx::Error) -> Self {
        match error {
            sqlx::Error::ColumnDecode { .. } | sqlx::Error::Decode(_) => {
                Self::Corrupt(error.to_string())
            }
            error => Self::Sql(error),
        }
    }
}

/// A call whose deadline passed.
pub(crate) const LATE: Fault =
    Fault::Broken(ErrorKind::Timeout, "the call's deadline passed: try again");

impl Fault {
    /// The server's SQLSTATE, where it answered.
    pub fn state(&self) -> Option<String> {
        let Self::Sql(sqlx::Error::Database(error)) = self else { return None };
        error.code().map(|code| code.into_owned())
    }

    /// Did the server answer, so that the connection may serve the next call?
    pub fn leaves_the_connection(&self) -> bool {
        match self {
            Self::Sql(sqlx::Error::Database(_)) => {
                // 57P01 to 57P05: the session is ended; 25006: it is on a standby now; after an
                // altered schema it has statements that are no use any more.
                let state = self.state().unwrap_or_default();
                let ended = state.starts_with("57P") || state == "25006" || state.starts_with("08");
                !ended && of_state(&state).0 != ErrorKind::Schema
            }
            Self::Sql(_) | Self::Broken(..) => false,
            Self::Corrupt(_) => true,
        }
    }

    /// Another transaction was in the way in a manner that a second attempt at once gets around.
    pub fn is_conflict(&self) -> bool {
        matches!(self.state().as_deref(), Some("40001" | "40P01"))
    }

    /// As callers of `operation` see it.
    pub fn into_error(self, operation: &'static str) -> Error {
        let state = self.state();
        let error = match self {
            Self::Broken(kind, what) => return Error::new(kind, operation, what),
            Self::Corrupt(what) => {
                let what = format!("a stored row cannot be read: {what}");
                return Error::new(ErrorKind::Corrupt, operation, what);
            }
            Self::Sql(error) => error,
        };
        let (kind, what) = match state.as_deref() {
            Some(state) => of_state(state),
            None => match &error {
                sqlx::Error::Io(_) | sqlx::Error::Protocol(_) | sqlx::Error::WorkerCrashed => {
                    (ErrorKind::Unavailable, "the connection broke or cannot be made: try again")
                }
                sqlx::Error::Tls(_) => (ErrorKind::Refused, "TLS could not be agreed on"),
                sqlx::Error::Configuration(_) => (ErrorKind::Refused, "the options are no use"),
                _ => (ErrorKind::Internal, "the statement failed"),
            },
        };
        let said = match &error {
            sqlx::Error::Database(error) => said(error.as_ref(), kind),
            error => error.to_string(),
        };
        Error::with_source(kind, operation, format!("{what} ({said})"), error)
    }
}

/// The server's own words. Of an altered schema also which function met what: such details hold no
/// values, while those of a constraint show the row.
fn said(error: &dyn DatabaseError, kind: ErrorKind) -> String {
    let mut said = error.message().to_owned();
    let found = error.try_downcast_ref::<PgDatabaseError>();
    if let Some(found) = found.filter(|_| kind == ErrorKind::Schema) {
        let detail = found.detail().filter(|_| !found.code().starts_with("23"));
        let place =
            found.r#where().and_then(|all| all.lines().find(|line| line.contains("function")));
        for more in [detail, place].into_iter().flatten() {
            said.push_str("; ");
            said.push_str(more);
        }
    }
    said
}

/// PostgreSQL's error codes, appendix A of its manual.
fn of_state(state: &str) -> (ErrorKind, &'static str) {
    match state {
        "55P03" => (
            ErrorKind::Busy,
            "another transaction holds what this needs, a lock or an uncommitted key: try again",
        ),
        "40001" | "40P01" => {
            (ErrorKind::Busy, "another transaction was in the way: roll back and try again")
        }
        "57014" => (ErrorKind::Timeout, "the call's deadline passed: try again"),
        "53100" | "53200" => (ErrorKind::Full, "the server is out of disk or memory: give it room"),
        "53300" => (ErrorKind::Unavailable, "the server has no connection left: try again"),
        "53400" => (ErrorKind::Full, "the server reached a configured limit"),
        "25P02" => (ErrorKind::Refused, "the transaction has failed already: roll it back"),
        "25006" => (ErrorKind::Unavailable, "the server only reads: it was demoted; try again"),
        "3F000" | "42P01" | "42883" => (
            ErrorKind::Schema,
            "the jobs schema is missing or incomplete: run the migrations, or restore it",
        ),
        // A missing column or type, another type, no unique index any more, a constraint that the
        // migrations do not make, a cached statement whose answer changed.
        "0A000" | "22P02" | "23502" | "23514" | "42703" | "42704" | "42725" | "42804" | "42809"
        | "42846" | "42P10" | "42P13" => {
            (ErrorKind::Schema, "the jobs schema was altered: restore it as the migrations made it")
        }
        "42P06" | "42P07" | "42710" | "42723" => (
            ErrorKind::Refused,
            "the schema holds something of that name already: name another schema, or clear it",
        ),
        "42501" => (ErrorKind::Refused, "the role lacks a privilege on the jobs schema: grant it"),
        "28000" | "28P01" => (ErrorKind::Refused, "the server refuses this user or password"),
        "3D000" => (ErrorKind::Refused, "there is no such database: create it"),
        "54000" | "22021" | "22P05" | "22001" => {
            (ErrorKind::Refused, "a value is not what the server takes")
        }
        state if state.starts_with("57P") || state.starts_with("08") => {
            (ErrorKind::Unavailable, "the server ended the session: try again")
        }
        state if state.starts_with("23") => {
            (ErrorKind::Internal, "a constraint of the jobs schema was violated")
        }
        state if state.starts_with("XX") => {
            (ErrorKind::Corrupt, "the server found damage: check its log")
        }
        _ => (ErrorKind::Internal, "the server refused a statement"),
    }
}
