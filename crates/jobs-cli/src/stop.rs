//! Why a command ended before its end, in words that say what to do.

use std::io;

use jobs_core::{Error, ErrorKind, Forbidden};

/// The exit status of what failed.
pub(crate) const FAILED: u8 = 1;
/// The exit status of what was refused before anything was touched.
pub(crate) const REFUSED: u8 = 2;

/// An application's own error.
pub(crate) type AnyError = Box<dyn std::error::Error + Send + Sync>;

/// A command's early end.
#[derive(Debug)]
pub(crate) struct Stop {
    /// The process's exit status.
    pub status: u8,
    /// For stderr; nothing where nobody reads any more.
    pub message: Option<String>,
}

impl Stop {
    /// Refused before anything was touched.
    pub fn refused(message: impl Into<String>) -> Self {
        Self { status: REFUSED, message: Some(message.into()) }
    }

    /// It failed, perhaps half-way.
    pub fn failed(message: impl Into<String>) -> Self {
        Self { status: FAILED, message: Some(message.into()) }
    }
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Self::failed(with_advice(&error))
    }
}

impl From<Forbidden> for Stop {
    fn from(error: Forbidden) -> Self {
        Self::refused(error.to_string())
    }
}

/// What reads the output may end before it, as `head` does. That is no failure.
impl From<io::Error> for Stop {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self { status: 0, message: None },
            _ => Self::failed(format!("the output cannot be written: {error}")),
        }
    }
}

/// The store did not open: the error is the driver's, or of the application's own around it.
pub(crate) fn not_opened(error: &AnyError) -> String {
    format!("the store cannot be opened: {}", advised(error))
}

/// A store's error with advice, another one as it is.
pub(crate) fn advised(error: &AnyError) -> String {
    match error.downcast_ref::<Error>() {
        Some(error) => with_advice(error),
        None => error.to_string(),
    }
}

/// The driver says what happened; what to do about it here is this program's to say.
pub(crate) fn with_advice(error: &Error) -> String {
    let advice = match error.kind() {
        ErrorKind::Schema => {
            "If the tables are missing or older than this release, `jobs migrate` makes them."
        }
        ErrorKind::Unavailable => "Check that the URL is right and the server runs.",
        ErrorKind::Busy | ErrorKind::Timeout => "Try again: every command is safe to repeat.",
        _ => return error.to_string(),
    };
    format!("{error}\n{advice}")
}
