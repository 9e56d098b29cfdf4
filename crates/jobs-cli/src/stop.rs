//! Why a command ended before its end, in words that say what to do.

use std::{error::Error as AnError, io, iter};

use jobs_core::{Error, ErrorKind, Forbidden};

/// The exit status of what failed.
pub(crate) const FAILED: u8 = 1;
/// The exit status of what was refused before anything was touched.
pub(crate) const REFUSED: u8 = 2;

/// An application's own error.
pub type AnyError = Box<dyn AnError + Send + Sync>;

/// A command's early end.
#[derive(Debug)]
pub(crate) struct Stop {
    /// The process's exit status.
    pub status: u8,
    /// For stderr.
    pub message: String,
}

impl Stop {
    /// Refused before anything was touched.
    pub fn refused(message: impl Into<String>) -> Self {
        Self { status: REFUSED, message: message.into() }
    }

    /// It failed, perhaps half-way.
    pub fn failed(message: impl Into<String>) -> Self {
        Self { status: FAILED, message: message.into() }
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

impl From<io::Error> for Stop {
    fn from(error: io::Error) -> Self {
        Self::failed(format!("the output cannot be written: {error}"))
    }
}

/// The store did not open: the error is the driver's, or of the application's own around it.
pub(crate) fn not_opened(error: &AnyError) -> String {
    format!("the store cannot be opened: {}", advised(error))
}

/// An error with those that caused it, outermost first, and with advice for the first of a store's
/// among them: what `worker` and `jobs …` say of it, for an application's own commands.
pub fn advised(error: &AnyError) -> String {
    let mut words = String::new();
    for error in causes(error) {
        let more = match error.downcast_ref::<Error>() {
            Some(error) => with_advice(error),
            None => error.to_string(),
        };
        // Some errors repeat what their cause says.
        if !words.contains(&more) {
            let between = if words.is_empty() { "" } else { ": " };
            words.push_str(between);
            words.push_str(&more);
        }
        if error.is::<Error>() {
            break;
        }
    }
    words
}

/// Will the same again be right later, without anybody doing something about it here?
pub(crate) fn is_transient(error: &AnyError) -> bool {
    let store = causes(error).find_map(|error| error.downcast_ref::<Error>());
    store.is_some_and(Error::is_transient)
}

/// Does somebody refuse it, or did asking fail?
pub(crate) fn is_forbidden(error: &AnyError) -> bool {
    causes(error).any(|error| error.is::<Forbidden>())
}

fn causes(error: &AnyError) -> impl Iterator<Item = &(dyn AnError + 'static)> {
    let first: &(dyn AnError + 'static) = error.as_ref();
    iter::successors(Some(first), |error: &&(dyn AnError + 'static)| (*error).source())
}

/// The driver says what happened; what to do about it here is this program's to say.
pub(crate) fn with_advice(error: &Error) -> String {
    let advice = match error.kind() {
        ErrorKind::Schema => {
            "If the tables are missing or older than this release, `jobs migrate` makes them."
        }
        ErrorKind::Unavailable => "Check that the URL is right and the server runs.",
        ErrorKind::Busy => "Try again: every command is safe to repeat.",
        // Some stores wait for a server to come, until nobody has come.
        ErrorKind::Timeout => {
            "Try again: every command is safe to repeat. If it stays so, check that the URL is right \
             and the server runs."
        }
        _ => return error.to_string(),
    };
    format!("{error}\n{advice}")
}

#[cfg(test)]
mod tests {
    use std::fmt;

    use super::*;

    #[derive(Debug)]
    struct Around(&'static str, AnyError);

    impl fmt::Display for Around {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(self.0)
        }
    }

    impl AnError for Around {
        fn source(&self) -> Option<&(dyn AnError + 'static)> {
            Some(self.1.as_ref())
        }
    }

    #[test]
    fn an_error_inside_an_applications_own_is_told_with_advice() {
        let error = Error::new(ErrorKind::Unavailable, "open", "connection refused");
        let wrapped: AnyError = Box::new(Around("opening the store", error.into()));
        let words = not_opened(&wrapped);
        assert!(words.starts_with("the store cannot be opened: opening the store: "), "{words}");
        assert!(words.contains("connection refused"), "{words}");
        assert!(words.ends_with("Check that the URL is right and the server runs."), "{words}");
        assert!(is_transient(&wrapped) && !is_forbidden(&wrapped));
        let own: AnyError = Box::new(Around("no settings", "app.toml is missing".into()));
        assert_eq!(advised(&own), "no settings: app.toml is missing");
        assert!(!is_transient(&own));
    }
}
