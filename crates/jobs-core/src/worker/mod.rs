//! The worker: reserves jobs, runs them, renews beside, settles.
//!
//! One file per stage: `reserve` decides what to ask for, `exchange` talks to the store,
//! `watch` listens to wake-ups, `execute` runs (and knows no storage), `verdict` turns the end of a run into an outcome,
//! `settle` keeps it until the store took it (and knows no handler), `heartbeat` renews, `timeout`
//! watches the clock, `sweep`, `announce`, `shutdown`. `table` is what the worker has in hand. All
//! but the handlers run on the control thread (`control`). Defaults are in [`config`], numbers in
//! [`metrics`].
//!
//! - **K1** Slots refill one by one, nothing waits for the slowest of a batch
//!   (`k1_500_jobs_without_a_barrier`); jobs are held ahead only where their names measured quick,
//!   long ones never (`k1_long_jobs_are_never_held_ahead`, `k1_quick_jobs_come_in_batches`); the
//!   drain rate does not depend on the poll interval (`k1_the_drain_rate_is_not_the_polls`), and a
//!   store that cannot say yet is not empty (`k1_a_reserve_that_cannot_say_is_not_empty`); a
//!   slow job is not passed over by an endless backlog of quick ones
//!   (`k1_a_slow_job_among_quick_ones_starts`).
//! - **K2** More jobs than slots always complete, also when they are longer than a lease, fail,
//!   panic, time out or are cancelled (`k2_more_jobs_than_slots_complete`,
//!   `k2_more_failing_jobs_than_slots_complete`).
//! - **K3** Losing a lease cancels the handler, token first, and its result is discarded
//!   (`k3_a_lost_lease_cancels_the_handler`). A worker that cannot reach the store distrusts its
//!   leases by its own clock before they end (`k3_an_outage_ends_runs_before_their_leases`). One
//!   failed renewal is not a loss (`k3_one_failed_renewal_is_no_loss`).
//! - **K4** A handler that blocks the whole application runtime for three leases keeps its lease
//!   and runs once, and what waits behind it is charged for nothing
//!   (`k4_a_blocked_runtime_keeps_its_lease`).
//! - **K5** Error, panic, timeout, undecodable payload: each a failed attempt with its message on
//!   record, and the worker lives on (`k5_every_failure_is_on_record`); a handler can say park,
//!   snooze, cancel, and when to retry (`k5_a_handler_decides`); a cancel requested by an operator
//!   reaches the handler (`k5_a_requested_cancel_reaches_the_handler`). A handler that ignores its
//!   timeout is settled without it and its slot reported (`k5_a_handler_stuck_for_ever`), and a
//!   drain does not wait for it (`k5_a_stuck_handler_does_not_stop_a_drain`).
//! - **K6** Backoff is the worker's, or the type's own (`k6_own_backoff`); where that panics, the
//!   default (`k6_a_backoff_that_panics`).
//! - **K7** Registering a name twice panics, no handlers are refused
//!   (`k7_registration_is_checked`), and so are types whose settings no push could have
//!   (`k7_extreme_settings_are_refused_or_clamped`).
//! - **K8** Shutdown: before the start, with jobs held, running, returning and settling, nothing is
//!   lost and nothing spent that was not run (`k8_shutdown_at_each_point`,
//!   `k8_a_settlement_under_way_counts`, `k8_a_settlement_whose_reply_is_lost_counts`); leases outlive a drain
//!   longer than they are (`k8_a_drain_longer_than_a_lease`); what ignores the grace is given back
//!   unspent where it can be dropped and left where it can not
//!   (`k8_what_ignores_the_grace`); SIGTERM drains and exits 0 (`k8_sigterm_drains_a_process`),
//!   a second signal ends at once (`k8_a_second_signal_ends_at_once`).
//! - **K9** A store outage: the worker stays up, keeps running what it may, retries settlements,
//!   resumes (`k9_an_outage_is_survived`); a lost reply to a reserve loses no job
//!   (`k9_lost_replies_lose_nothing`), and one that comes late starts none that would lose its
//!   lease at once, be it of a repeated call or of a slow one (`k9_a_late_answer_starts_nothing`,
//!   `k9_a_slow_answer_starts_nothing`); every store call has a deadline
//!   (`k9_a_store_that_hangs_is_survived`), and nothing waits for a wake-up handle
//!   (`k9_a_watch_that_hangs_slows_nobody`). A driver that answers fewer settlements than it got is
//!   asked again (`k9_a_settlement_without_an_answer_is_repeated`).
//! - **K10** Two workers with one label are two (`k10_two_workers_of_one_label`); queues have
//!   weights (`k10_queues_have_weights`), and are those of the job types where none is named
//!   (`k10_a_types_own_queue_is_worked`).
//! - **K11** The Recorder gets each finished run with its timeline (`k11_the_recorder_gets_each_run`);
//!   a run is one span, linked by `traceparent`, and one count (`k11_a_span_and_counters_per_run`).
//! - **P5** What a handler may push is the worker's to say (`p5_a_handlers_limit_is_its_workers`).
//! - **N1** A push wakes an idle worker, however long its poll interval is by then
//!   (`n1_a_push_wakes_an_idle_worker`).
//! - **N2** An idle worker touches job data less than once a second, all queues together
//!   (`n2_an_idle_worker_is_quiet`).
//! - **X2** A killed worker's jobs run again within lease + 10 s
//!   (`x2_a_killed_workers_jobs_run_again`).

mod announce;
mod call;
pub mod config;
mod control;
mod ended;
mod exchange;
mod execute;
mod heartbeat;
pub mod metrics;
mod panic;
mod record;
mod reserve;
mod settle;
mod shared;
mod shutdown;
mod signals;
mod speed;
mod sweep;
mod table;
mod timeout;
mod verdict;
mod watch;

use std::{
    fmt,
    future::Future,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::JoinHandle,
    time::Duration,
};

use tokio::{runtime::Handle, sync::oneshot};
use tokio_util::sync::CancellationToken;

pub use crate::{
    context::Context,
    handler::{Failure, Handler},
};
pub use config::StartError;
pub use ended::{Ended, How, exit_code};
pub use panic::install_panic_hook;
pub use record::{FinishedRun, Recorder, Timeline};

use crate::{
    JobType, Payload, Queue,
    authorized::MAX_TIMEOUT,
    handler::{Erased, erase},
    job::Timeout,
    queue::Lease,
    retry::DEFAULT_MAX_ATTEMPTS,
};
use config::{Config, Registered};
use control::Control;

/// A worker, being set up.
///
/// ```no_run
/// # use jobs_core::{Queue, JobType, worker::{Context, Failure, Worker}};
/// # #[derive(serde::Serialize, serde::Deserialize)]
/// # struct SendInvoice(u64);
/// # impl JobType for SendInvoice { const NAME: &'static str = "invoice.send"; }
/// # async fn run(store: std::sync::Arc<dyn Queue>) -> Result<(), Box<dyn std::error::Error>> {
/// let ended = Worker::new(store)
///     .concurrency(8)
///     .handle(async |ctx: Context, job: SendInvoice| {
///         println!("invoice {} of {}", job.0, ctx.tenant());
///         Ok::<(), Failure>(())
///     })
///     .run()
///     .await;
/// std::process::exit(jobs_core::worker::exit_code(&ended).into());
/// # }
/// ```
#[must_use = "a worker does nothing until it runs"]
pub struct Worker {
    store: Arc<dyn Queue>,
    config: Config,
}

impl Worker {
    /// On `store`. Its own connections are opened when it runs; this handle is what handlers push
    /// with.
    pub fn new(store: impl Queue) -> Self {
        Self { store: Arc::new(store), config: Config::default() }
    }

    /// A name for people, at most 163 bytes. Workers may share one: identity is random per start (K10).
    pub fn label(mut self, label: impl Into<String>) -> Self {
        self.config.label = label.into();
        self
    }

    /// How many jobs run at once; 4 unless set.
    pub fn concurrency(mut self, slots: usize) -> Self {
        self.config.concurrency = slots;
        self
    }

    /// How long a silent worker keeps its jobs; 20 s unless set. Renewed four times per lease. The
    /// store has to answer a reserve within two fifths of it, a quarter below 4 s: what comes later is
    /// given back and logged.
    pub fn lease(mut self, lease: Lease) -> Self {
        self.config.lease = lease;
        self
    }

    /// How long handlers may go on after a shutdown began; 25 s unless set, 366 days at most.
    pub fn grace(mut self, grace: Duration) -> Self {
        self.config.grace = grace.min(MAX_TIMEOUT);
        self
    }

    /// Works this queue too, with a share of `weight` (at least 1) against its other queues. If
    /// none is named, it works the queues of its job types, each with weight 1; `default` for
    /// handlers that have no type.
    pub fn queue(mut self, queue: impl Into<String>, weight: u32) -> Self {
        self.config.queues.push((queue.into(), weight.max(1)));
        self
    }

    /// Works these queues and no others, whatever was named before: what a command line says goes
    /// before what the code says.
    pub fn only_queues<Q: Into<String>>(
        mut self,
        queues: impl IntoIterator<Item = (Q, u32)>,
    ) -> Self {
        self.config.queues.clear();
        queues.into_iter().fold(self, |worker, (queue, weight)| worker.queue(queue, weight))
    }

    /// Runs jobs of the type `T`. A handler with state clones it for each run:
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use jobs_core::{JobType, Worker, worker::{Context, Failure}};
    /// # #[derive(serde::Serialize, serde::Deserialize)]
    /// # struct SendInvoice(u64);
    /// # impl JobType for SendInvoice { const NAME: &'static str = "invoice.send"; }
    /// # struct Mailer;
    /// # impl Mailer { async fn send(&self, _: u64) -> Result<(), std::io::Error> { Ok(()) } }
    /// fn register(worker: Worker, mailer: Arc<Mailer>) -> Worker {
    ///     worker.handle(move |_: Context, job: SendInvoice| {
    ///         let mailer = mailer.clone();
    ///         async move { mailer.send(job.0).await.map_err(Failure::from) }
    ///     })
    /// }
    /// ```
    ///
    /// # Panics
    /// When a handler for that name is registered already (K7).
    pub fn handle<T, F, Fut, E>(self, handler: F) -> Self
    where
        T: JobType,
        F: Fn(Context, T) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<(), E>> + Send + 'static,
        E: Into<Failure>,
    {
        self.handle_with::<T>(handler)
    }

    /// Runs jobs of the type `T` with a type that implements [`Handler`].
    ///
    /// # Panics
    /// When a handler for that name is registered already (K7).
    pub fn handle_with<T: JobType>(self, handler: impl Handler<T>) -> Self {
        let (timeout, max_attempts, queue) = (T::TIMEOUT, T::MAX_ATTEMPTS, Some(T::QUEUE));
        let handler = erase(handler);
        self.register(T::NAME, Registered { handler, timeout, max_attempts, queue, backoff: None })
    }

    /// Runs jobs called `name` that have no type, by their payload.
    ///
    /// # Panics
    /// When a handler for that name is registered already (K7).
    pub fn handle_named<F, Fut, E>(self, name: &str, handler: F) -> Self
    where
        F: Fn(Context, Payload) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<(), E>> + Send + 'static,
        E: Into<Failure>,
    {
        let inner = Arc::new(handler);
        let handler: Erased = Arc::new(move |context: Context| {
            let inner = inner.clone();
            Box::pin(async move {
                let payload = context.job().payload.clone();
                inner(context, payload).await.map_err(Into::into)
            })
        });
        let (timeout, max_attempts) = (Timeout::Default, DEFAULT_MAX_ATTEMPTS);
        self.register(
            name,
            Registered { handler, timeout, max_attempts, queue: None, backoff: None },
        )
    }

    fn register(mut self, name: &str, new: Registered) -> Self {
        let before = self.config.handlers.insert(name.to_owned(), new);
        assert!(before.is_none(), "two handlers for the job name {name}: give each type its own");
        self
    }

    /// The delay after a failed attempt, from its number; [`exponential_backoff`] unless set, and
    /// where the function panics. At most 366 days; jitter shortens it by up to a tenth.
    ///
    /// [`exponential_backoff`]: crate::retry::exponential_backoff
    pub fn backoff(mut self, delay: impl Fn(u32) -> Duration + Send + Sync + 'static) -> Self {
        self.config.backoff = Arc::new(delay);
        self
    }

    /// The same for jobs of the type `T`, whose handler is registered before.
    ///
    /// # Panics
    /// When no handler for that type is registered.
    pub fn backoff_of<T: JobType>(
        mut self,
        delay: impl Fn(u32) -> Duration + Send + Sync + 'static,
    ) -> Self {
        let known = self.config.handlers.get_mut(T::NAME);
        let known =
            known.unwrap_or_else(|| panic!("no handler for {}: register it first", T::NAME));
        known.backoff = Some(Arc::new(delay));
        self
    }

    /// Largest payload that its handlers push, in bytes; 64 KiB unless set (P5).
    pub fn payload_limit(mut self, bytes: usize) -> Self {
        self.config.payload_limit = bytes;
        self
    }

    /// Gets each finished run with its timeline. Without one, nothing is built.
    pub fn recorder(mut self, recorder: impl Recorder) -> Self {
        self.config.recorder = Some(Arc::new(recorder));
        self
    }

    /// Runs until SIGTERM or SIGINT, then shuts down in order (K8). At a second signal it returns
    /// at once, and if the application has not picked that up within a second, the process exits
    /// with status 130. Leave `main` with [`exit_code`] and `std::process::exit`: a runtime that is
    /// dropped waits for handlers that block.
    ///
    /// # Errors
    /// [`StartError`] when it did not start. A store that is away is waited for.
    ///
    /// # Cancel safety
    /// Dropping this is like killing the worker: handlers are aborted, nothing is given back, and
    /// its jobs run again when their leases end. No thread outlives it.
    pub async fn run(self) -> Result<Ended, StartError> {
        self.drive(std::future::pending(), false, true).await
    }

    /// Runs until `stop` completes, then shuts down in order (K8).
    ///
    /// # Errors
    /// [`StartError`] when it did not start. A store that is away is waited for.
    ///
    /// # Cancel safety
    /// As [`run`](Self::run).
    pub async fn run_until(self, stop: impl Future<Output = ()>) -> Result<Ended, StartError> {
        self.drive(stop, false, false).await
    }

    /// Runs until no job of its names is due, running or held, and returns. Jobs that are due
    /// later stay, and so do handlers that ignored their end, which [`Ended::stuck`] counts. For tests, for schedules that start a process, and for a first look.
    ///
    /// # Errors
    /// [`StartError`] when it did not start. A store that is away is waited for.
    ///
    /// # Cancel safety
    /// As [`run`](Self::run).
    pub async fn run_until_idle(self) -> Result<Ended, StartError> {
        self.drive(std::future::pending(), true, false).await
    }

    async fn drive(
        mut self,
        until: impl Future<Output = ()>,
        drains: bool,
        signals: bool,
    ) -> Result<Ended, StartError> {
        self.config.check()?;
        let runtime = Handle::try_current();
        let runtime = runtime.map_err(|error| StartError::Runtime(error.to_string()))?;
        let (stop, abandon) = (CancellationToken::new(), CancellationToken::new());
        let (answer, mut ended) = oneshot::channel();
        let heard = Arc::new(AtomicBool::new(false));
        let control = Control {
            config: Arc::new(self.config),
            app: self.store,
            runtime,
            stop: stop.clone(),
            abandon: abandon.clone(),
            drains,
            signals,
            heard: heard.clone(),
            answer,
        };
        let thread = control.spawn().map_err(|error| StartError::Runtime(error.to_string()))?;
        let mut thread = Thread { abandon, thread: Some(thread) };
        let result = tokio::select! {
            biased;
            result = &mut ended => result,
            () = until => {
                stop.cancel();
                ended.await
            }
        };
        heard.store(true, Ordering::Release);
        thread.join();
        result.unwrap_or_else(|_| Err(StartError::Runtime("the control thread died".to_owned())))
    }
}

impl fmt::Debug for Worker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.config.fmt(f)
    }
}

/// The control thread; ends with this.
struct Thread {
    abandon: CancellationToken,
    thread: Option<JoinHandle<()>>,
}

impl Thread {
    fn join(&mut self) {
        if let Some(thread) = self.thread.take() {
            // Its panics are caught inside.
            let _ = thread.join();
        }
    }
}

impl Drop for Thread {
    fn drop(&mut self) {
        self.abandon.cancel();
        self.join();
    }
}
