//! How a worker ended.

use std::process::{ExitCode, Termination};

/// How a worker ended, and what it left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    /// Why.
    pub how: How,
    /// Runs that were settled, whatever their outcome.
    pub settled: u64,
    /// Jobs it held that it could neither settle nor give back; their leases run out.
    pub left: usize,
    /// Handlers that ignored their end and still hold a thread.
    pub stuck: usize,
}

/// Why a worker ended.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum How {
    /// It was asked to, or ran out of work, and stopped in order.
    Stopped,
    /// A second signal: it ended at once.
    SecondSignal,
    /// It failed itself; the text says how.
    Failed(String),
}

impl Ended {
    /// The process's exit status: 0 drained, 1 failed, 3 something was left, 130 second signal.
    pub fn exit_code(&self) -> u8 {
        match self.how {
            How::SecondSignal => 130,
            How::Failed(_) => 1,
            How::Stopped if self.left + self.stuck > 0 => 3,
            How::Stopped => 0,
        }
    }
}

/// So that `main` may return it.
impl Termination for Ended {
    fn report(self) -> ExitCode {
        ExitCode::from(self.exit_code())
    }
}
