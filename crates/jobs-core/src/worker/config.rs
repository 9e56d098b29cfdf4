//! What can be set on a worker, and the defaults.

use std::{
    collections::{HashMap, HashSet},
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    time::Duration,
};

use crate::{
    Error,
    authorized::{MAX_ATTEMPTS, MAX_AUTHORIZED_BY, MAX_TIMEOUT},
    handler::Erased,
    job::{DEFAULT_QUEUE, Timeout},
    payload,
    queue::{BadRequest, Lease, Reserve},
    retry::exponential_backoff,
    worker::record::Recorder,
};

/// Jobs that run at once.
pub const CONCURRENCY: usize = 4;
/// How long handlers may go on after a shutdown began.
pub const GRACE: Duration = Duration::from_secs(25);
/// How long one run may take, where neither the job nor its type says.
pub const TIMEOUT: Duration = Duration::from_secs(3600);
/// Between two sweeps.
pub const SWEEP: Duration = Duration::from_secs(5);
/// Between two announcements.
pub const ANNOUNCE: Duration = Duration::from_secs(10);
/// Between two looks at a queue that just became empty, and that has been empty for long.
pub const POLL: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(5));
/// No store call takes longer (K9).
pub const CALL: Duration = Duration::from_secs(10);
/// A handler that still runs this long after it was told to stop is stuck (K5).
pub const STUCK_AFTER: Duration = Duration::from_secs(5);
/// Between telling a handler to stop and dropping its future; when its lease is lost, and else.
pub const DROP_AFTER: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(1));

/// A function from the attempt that failed to the delay before the next.
pub(crate) type Backoff = Arc<dyn Fn(u32) -> Duration + Send + Sync>;

/// A registered name.
pub(crate) struct Registered {
    pub handler: Erased,
    pub timeout: Timeout,
    pub max_attempts: u32,
    /// The queue its jobs are pushed to unless they say otherwise; `None` where it has no type.
    pub queue: Option<&'static str>,
    pub backoff: Option<Backoff>,
}

impl Registered {
    /// What a job type says must be what a push of it could say.
    fn check(&self, name: &str) -> Result<(), StartError> {
        let bad = |field, found, must| {
            Err(StartError::BadType { name: name.to_owned(), field, found, must })
        };
        match self.timeout {
            Timeout::After(limit) if limit.is_zero() || limit > MAX_TIMEOUT => {
                bad("TIMEOUT", format!("{limit:?}"), "more than 0 and at most 366 days, or Never")
            }
            _ if !(1..=MAX_ATTEMPTS).contains(&self.max_attempts) => {
                bad("MAX_ATTEMPTS", self.max_attempts.to_string(), "1 to 1000")
            }
            _ => Ok(()),
        }
    }
}

/// Everything set on a worker.
pub(crate) struct Config {
    pub label: String,
    pub concurrency: usize,
    pub lease: Lease,
    pub grace: Duration,
    pub queues: Vec<(String, u32)>,
    pub handlers: HashMap<String, Registered>,
    pub backoff: Backoff,
    pub payload_limit: usize,
    pub recorder: Option<Arc<dyn Recorder>>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            label: String::new(),
            concurrency: CONCURRENCY,
            lease: Lease::default(),
            grace: GRACE,
            queues: Vec::new(),
            handlers: HashMap::new(),
            backoff: Arc::new(exponential_backoff),
            payload_limit: payload::DEFAULT_LIMIT,
            recorder: None,
        }
    }
}

impl Config {
    /// The names it knows, sorted.
    pub fn names(&self) -> Vec<String> {
        let mut names: Vec<_> = self.handlers.keys().cloned().collect();
        names.sort_unstable();
        names
    }

    /// What can be refused before anything is touched; works the types' own queues where none is
    /// named.
    pub fn check(&mut self) -> Result<(), StartError> {
        if self.handlers.is_empty() {
            return Err(StartError::NoHandlers);
        }
        if self.concurrency == 0 {
            return Err(StartError::NoSlots);
        }
        for (name, known) in &self.handlers {
            known.check(name)?;
        }
        let mut own: Vec<_> = self.handlers.values().map(|known| known.queue).collect();
        own.sort_unstable();
        own.dedup();
        let own = own.into_iter().map(|queue| queue.unwrap_or(DEFAULT_QUEUE));
        if self.queues.is_empty() {
            for queue in own {
                if !self.queue_names().iter().any(|known| known == queue) {
                    self.queues.push((queue.to_owned(), 1));
                }
            }
        } else {
            for (name, known) in &self.handlers {
                let worked = |queue| self.queues.iter().any(|(named, _)| named == queue);
                if let Some(queue) = known.queue.filter(|queue| !worked(*queue)) {
                    tracing::warn!(name, queue, "this worker does not work the queue of this type");
                }
            }
        }
        let mut seen = HashSet::new();
        if let Some((twice, _)) = self.queues.iter().find(|(queue, _)| !seen.insert(queue)) {
            return Err(StartError::QueueTwice(twice.clone()));
        }
        // The label stands before the identity in what the worker calls itself.
        let name = format!("{}:{}", self.label, uuid::Uuid::nil());
        if name.len() > MAX_AUTHORIZED_BY || name.contains('\0') {
            let most = MAX_AUTHORIZED_BY - (name.len() - self.label.len());
            return Err(StartError::BadLabel { most });
        }
        for (queue, _) in &self.queues {
            Reserve::new(queue, self.names(), &name)?;
        }
        Ok(())
    }

    /// The names of its queues.
    pub fn queue_names(&self) -> Vec<String> {
        self.queues.iter().map(|(queue, _)| queue.clone()).collect()
    }

    /// How long before a lease could end the worker stops trusting it: 10 %, at least 1 s, at most
    /// a quarter. So 2 s of 20 s, and 250 ms of the shortest lease, 1 s.
    pub fn margin(&self) -> Duration {
        let lease = self.lease.length();
        (lease / 10).max(Duration::from_secs(1)).min(lease / 4)
    }

    /// How long a lease is trusted, from before the request that took or renewed it was sent: the
    /// store counts from later, so it can not have handed the job on before that.
    pub fn trust(&self) -> Duration {
        self.lease.length() - self.margin()
    }

    /// How long a run of `name` may take.
    pub fn timeout(&self, name: &str, job: Timeout) -> Option<Duration> {
        let own = self.handlers.get(name).map_or(Timeout::Default, |known| known.timeout);
        match (job, own) {
            (Timeout::After(limit), _) | (Timeout::Default, Timeout::After(limit)) => {
                // A stored one is checked by nobody else.
                Some(limit.min(MAX_TIMEOUT))
            }
            (Timeout::Never, _) | (Timeout::Default, Timeout::Never) => None,
            (Timeout::Default, Timeout::Default) => Some(TIMEOUT),
        }
    }

    /// The delay after a failed attempt of `name`. Jitter only shortens it (K6).
    pub fn delay(&self, name: &str, attempt: u32) -> Duration {
        let own = self.handlers.get(name).and_then(|known| known.backoff.as_ref());
        let backoff = own.unwrap_or(&self.backoff);
        // The application's code, on the thread that keeps everybody's leases.
        let delay = catch_unwind(AssertUnwindSafe(|| backoff(attempt))).unwrap_or_else(|_| {
            tracing::error!(name, attempt, "the backoff function panicked");
            exponential_backoff(attempt)
        });
        crate::retry::jittered(delay.min(MAX_TIMEOUT))
    }
}

impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Worker")
            .field("label", &self.label)
            .field("concurrency", &self.concurrency)
            .field("lease", &self.lease)
            .field("grace", &self.grace)
            .field("queues", &self.queues)
            .field("names", &self.names())
            .finish_non_exhaustive()
    }
}

/// Why a worker did not start. Nothing was reserved.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// It could run nothing.
    #[error("the worker has no handlers: register one with .handle(…)")]
    NoHandlers,
    /// It would run nothing.
    #[error("concurrency is 0: a worker needs at least one slot")]
    NoSlots,
    /// A queue or job name outside its alphabet.
    #[error(transparent)]
    BadName(#[from] BadRequest),
    /// A label that does not fit beside the worker's identity.
    #[error("the worker's label is longer than {most} bytes or has a NUL")]
    BadLabel {
        /// Most bytes.
        most: usize,
    },
    /// One queue was named twice: which weight is meant?
    #[error("the queue {0} is named twice: name it once, with its weight")]
    QueueTwice(String),
    /// A job type says something that no push of it could.
    #[error("{field} of the job type {name} is {found}, must be {must}")]
    BadType {
        /// The type's job name.
        name: String,
        /// Which constant.
        field: &'static str,
        /// What it says.
        found: String,
        /// What it must be.
        must: &'static str,
    },
    /// The store refused for good: a missing schema, unsafe settings, no permission.
    #[error("the store refused the worker: {0}")]
    Store(#[from] Error),
    /// There is no tokio runtime, or the operating system gave no thread or signal handler.
    #[error("the worker's runtime could not start: {0}")]
    Runtime(String),
}

impl StartError {
    /// The process's exit status: 2.
    pub fn exit_code(&self) -> u8 {
        2
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_is_distrusted_before_it_ends() {
        for (lease, trusted) in [(1000, 750), (2000, 1500), (4000, 3000), (20_000, 18_000)] {
            let lease = Lease::new(Duration::from_millis(lease)).unwrap();
            let config = Config { lease, ..Config::default() };
            assert_eq!(config.trust(), Duration::from_millis(trusted));
        }
    }
}
