//! Store calls: each has a deadline, failures back off (K9).

use std::{future::Future, time::Duration};

use tokio::time::{Instant, timeout};

use crate::{Error, ErrorKind, Result, retry::jittered};

/// Waits for the store no longer than `limit`.
///
/// # Cancel safety
/// As the call's own.
pub(crate) async fn call<T>(
    limit: Duration,
    operation: &'static str,
    answer: impl Future<Output = Result<T>>,
) -> Result<T> {
    let late = |_| {
        let message = format!("the store did not answer within {limit:?}");
        Err(Error::new(ErrorKind::Timeout, operation, message))
    };
    timeout(limit, answer).await.unwrap_or_else(late)
}

/// After failures in a row: 100 ms doubling to 5 s, jittered.
#[derive(Debug)]
pub(crate) struct Retry {
    pub failures: u32,
    pub at: Instant,
}

impl Retry {
    pub fn new() -> Self {
        Self { failures: 0, at: Instant::now() }
    }

    /// It worked.
    pub fn worked(&mut self) {
        if self.failures > 0 {
            tracing::info!("the store answers again");
        }
        self.failures = 0;
    }

    /// It failed: wait before the next.
    pub fn failed(&mut self, error: &Error) {
        // The first says it; an outage of an hour does not fill the log.
        match self.failures {
            0 => tracing::warn!(%error, "a store call failed, retrying"),
            _ => tracing::debug!(%error, "a store call failed again"),
        }
        let delay = Duration::from_millis(100 << self.failures.min(6)).min(Duration::from_secs(5));
        self.failures += 1;
        self.at = Instant::now() + jittered(delay);
    }
}
