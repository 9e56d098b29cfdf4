//! How a worker ended.

use crate::worker::config::StartError;

/// How a worker ended, and what it left.
#[must_use = "it says whether something was left"]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    /// Why.
    pub how: How,
    /// Runs that were settled, whatever their outcome.
    pub settled: u64,
    /// Jobs it held that it could neither settle nor give back, or whose leases it lost so lately
    /// that nobody may have them yet.
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

/// The process's exit status for what [`run`](crate::Worker::run) answered: [`Ended::exit_code`],
/// or 2 where the worker refused to start.
///
/// ```no_run
/// # async fn run(worker: jobs_core::Worker) {
/// let ended = worker.run().await;
/// if let Err(refused) = &ended {
///     eprintln!("{refused}");
/// }
/// std::process::exit(jobs_core::worker::exit_code(&ended).into());
/// # }
/// ```
pub fn exit_code(ended: &Result<Ended, StartError>) -> u8 {
    ended.as_ref().map_or_else(StartError::exit_code, Ended::exit_code)
}
