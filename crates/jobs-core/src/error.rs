//! When the store fails. Losing a claim, a duplicate and a refused push are answers, not errors.

use std::{fmt, sync::Arc};

/// The result of a store call.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A store call that did not answer. Says what happened, in which operation, and by
/// [`is_transient`](Self::is_transient) whether repeating it makes sense: every operation of
/// [`Queue`](crate::Queue) is safe to repeat.
///
/// Cloneable, because one failed statement is the answer to everybody who shared it (P7).
#[derive(Clone)]
pub struct Error(Arc<Inner>);

struct Inner {
    kind: ErrorKind,
    operation: &'static str,
    message: String,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

/// What kind of failure, as far as a caller acts on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// Somebody else holds what this needs: a lock, or a unique key of an uncommitted transaction.
    Busy,
    /// No connection, or it broke. Whether the operation happened is unknown.
    Unavailable,
    /// The call's deadline passed. Whether the operation happened is unknown.
    Timeout,
    /// The store is full; nothing was stored. Let the workers drain, or give it room.
    Full,
    /// The store refused the operation for good: bad input, a missing schema, no permission.
    Refused,
    /// The store's settings or version would lose data; the message says which to change.
    Unsafe,
    /// The schema is missing, or made by a release that this one cannot run on.
    Schema,
    /// A stored row cannot be read. The message names it.
    Corrupt,
    /// Anything else; a defect of the driver or of the store.
    Internal,
}

impl Error {
    /// An error of `operation` (the method's name) with a sentence that says what to do.
    pub fn new(kind: ErrorKind, operation: &'static str, message: impl Into<String>) -> Self {
        Self(Arc::new(Inner { kind, operation, message: message.into(), source: None }))
    }

    /// The same, caused by `source`.
    pub fn with_source(
        kind: ErrorKind,
        operation: &'static str,
        message: impl Into<String>,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        let (message, source) = (message.into(), Some(source.into()));
        Self(Arc::new(Inner { kind, operation, message, source }))
    }

    /// What kind of failure it is.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The method that failed.
    pub fn operation(&self) -> &'static str {
        self.0.operation
    }

    /// Does repeating the call make sense?
    pub fn is_transient(&self) -> bool {
        use ErrorKind::{Busy, Full, Timeout, Unavailable};
        matches!(self.kind(), Busy | Unavailable | Timeout | Full)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.0.operation, self.0.message)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Error")
            .field("kind", &self.0.kind)
            .field("operation", &self.0.operation)
            .field("message", &self.0.message)
            .field("source", &self.0.source)
            .finish()
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source.as_deref().map(|source| source as _)
    }
}
