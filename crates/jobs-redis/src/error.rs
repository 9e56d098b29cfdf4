//! What goes wrong, and as what callers see it: one mapping.

use fred::error::{Error as FredError, ErrorKind as Kind};
use jobs_core::{Error, ErrorKind};

/// A failed command or an unreadable answer.
#[derive(Debug)]
pub(crate) enum Fault {
    /// The client's, which may hold a server's answer.
    Fred(FredError),
    /// The connection is of no use any more, or the call was late.
    Broken(ErrorKind, &'static str),
    /// What is asked cannot be done, in words that say what to do.
    Refused(ErrorKind, String),
    /// What is stored cannot be read.
    Corrupt(String),
}

impl From<FredError> for Fault {
    fn from(error: FredError) -> Self {
        Self::Fred(error)
    }
}

/// A call whose deadline passed.
pub(crate) const LATE: Fault =
    Fault::Broken(ErrorKind::Timeout, "the call's deadline passed: try again");

/// What a server says while another becomes the master, a slot moves or it loads its file.
const PASSING: [&str; 9] = [
    "TRYAGAIN",
    "CLUSTERDOWN",
    "LOADING",
    "READONLY",
    "MASTERDOWN",
    "BUSY ",
    "MOVED",
    "ASK",
    "UNBLOCKED",
];
/// The same, of a script that met a slot on its way.
const NOT_HERE: &str = "non local key";

impl Fault {
    fn says(&self) -> &str {
        match self {
            Self::Fred(error) => error.details(),
            _ => "",
        }
    }

    /// Has the server no script of this hash?
    pub fn is_no_script(&self) -> bool {
        self.says().starts_with("NOSCRIPT")
    }

    /// Has the client itself ended?
    pub fn is_of_a_dead_client(&self) -> bool {
        matches!(self, Self::Fred(error) if matches!(error.kind(), Kind::Canceled | Kind::Config))
    }

    /// Does the same script, sent again soon, have a chance? What it did is unknown, and every script
    /// is safe to repeat.
    pub fn is_passing(&self) -> bool {
        let Self::Fred(error) = self else { return false };
        let says = self.says();
        PASSING.iter().any(|prefix| says.starts_with(prefix))
            || says.contains(NOT_HERE)
            || matches!(
                error.kind(),
                Kind::IO | Kind::Canceled | Kind::Timeout | Kind::Cluster | Kind::Routing
            )
    }

    /// As callers of `operation` see it.
    pub fn into_error(self, operation: &'static str) -> Error {
        let error = match self {
            Self::Broken(kind, what) => return Error::new(kind, operation, what),
            Self::Refused(kind, what) => return Error::new(kind, operation, what),
            Self::Corrupt(what) => {
                let what = format!("what is stored cannot be read: {what}");
                return Error::new(ErrorKind::Corrupt, operation, what);
            }
            Self::Fred(error) => error,
        };
        let (kind, what) = of(&error);
        Error::with_source(kind, operation, format!("{what} ({})", error.details()), error)
    }
}

fn of(error: &FredError) -> (ErrorKind, &'static str) {
    let says = error.details();
    let begins = |prefix: &str| says.starts_with(prefix);
    if begins("OOM") {
        return (
            ErrorKind::Full,
            "the server is at its maxmemory: let the workers drain it, or give it room",
        );
    }
    if begins("JOBSSCHEMA") {
        return (ErrorKind::Schema, "there is no store under this prefix: call migrate()");
    }
    if begins("NOPERM") {
        return (ErrorKind::Refused, "the user lacks a permission: grant it by ACL SETUSER");
    }
    if begins("NOAUTH") || begins("WRONGPASS") || *error.kind() == Kind::Auth {
        return (ErrorKind::Refused, "the server refuses this user or password");
    }
    if begins("MISCONF") || begins("NOREPLICAS") {
        return (ErrorKind::Unavailable, "the server takes no writes until it can keep them");
    }
    if begins("WRONGTYPE") {
        return (ErrorKind::Corrupt, "a key of the store was written by somebody else");
    }
    if PASSING.iter().any(|prefix| begins(prefix)) || says.contains(NOT_HERE) {
        return (ErrorKind::Unavailable, "the server or the slot is on its way: try again");
    }
    match error.kind() {
        Kind::Timeout => (ErrorKind::Timeout, "the server did not answer in time: try again"),
        Kind::IO | Kind::Canceled | Kind::Cluster | Kind::Routing | Kind::Backpressure => {
            (ErrorKind::Unavailable, "no connection to the server: try again")
        }
        Kind::Url | Kind::InvalidArgument | Kind::Config | Kind::Tls => {
            (ErrorKind::Refused, "the connection's settings are not what the server takes")
        }
        _ => (ErrorKind::Internal, "the server refused a command"),
    }
}
