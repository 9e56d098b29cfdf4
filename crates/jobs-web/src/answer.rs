//! How a request ends that has no page.

use axum::http::StatusCode;
use jobs_core::{Error, ErrorKind, Forbidden};

/// Why there is no answer, in words for whoever asked.
#[derive(Debug)]
pub(crate) struct Refused {
    pub status: StatusCode,
    pub words: String,
}

impl Refused {
    pub fn new(status: StatusCode, words: impl Into<String>) -> Self {
        Self { status, words: words.into() }
    }

    pub fn bad(words: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, words)
    }

    /// The same words for an unknown job, another tenant's and what is no id at all.
    pub fn no_job() -> Self {
        Self::new(StatusCode::NOT_FOUND, "There is no such job here.")
    }
}

impl From<Forbidden> for Refused {
    fn from(forbidden: Forbidden) -> Self {
        Self::new(StatusCode::FORBIDDEN, forbidden.to_string())
    }
}

impl From<Error> for Refused {
    fn from(error: Error) -> Self {
        // Its own words may name any tenant's rows: they go to the log.
        tracing::error!(%error, "the queue page's store failed");
        let words = match error.kind() {
            ErrorKind::Unavailable => "The store cannot be reached.",
            ErrorKind::Busy | ErrorKind::Timeout => "The store is busy. Try again: it is safe.",
            ErrorKind::Schema => "The store's schema does not fit this release: migrate it.",
            _ => "The store failed. The application's log says how.",
        };
        Self::new(StatusCode::SERVICE_UNAVAILABLE, words)
    }
}
