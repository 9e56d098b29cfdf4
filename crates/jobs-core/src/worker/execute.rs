//! Stage: run. Hands jobs to the application's runtime and hears how they ended. Knows no storage.

use std::{
    sync::{Arc, OnceLock},
    time::Instant,
};

use tokio::{runtime::Handle, sync::mpsc::UnboundedSender, task::AbortHandle};
use tracing::Instrument;

use crate::{Context, Failure, handler::Running, worker::panic::Caught};

/// Starts runs on the application's runtime.
pub(crate) struct Executor {
    pub runtime: Handle,
    pub ended: UnboundedSender<Message>,
}

/// A run ended, one way or another: exactly one message per started run.
#[derive(Debug)]
pub(crate) struct Message {
    pub run: u64,
    pub ended: Instant,
    pub how: End,
}

/// When a handler's first step was: empty while its runtime has not come to it.
pub(crate) type Started = Arc<OnceLock<Instant>>;

/// How a handler ended.
#[derive(Debug)]
pub(crate) enum End {
    Returned(Result<(), Failure>),
    Panicked(String),
    /// Its future was dropped before it returned.
    Dropped,
}

impl Executor {
    /// Starts one run.
    pub fn start(
        &self,
        run: u64,
        context: Context,
        handler: impl FnOnce(Context) -> Running + Send + 'static,
    ) -> (AbortHandle, Started) {
        let span = span(&context);
        let mut report = Report { run, to: self.ended.clone(), said: false };
        let started = Started::default();
        let first = started.clone();
        let task = async move {
            first.get_or_init(Instant::now);
            // The handler's first lines run inside too, before it has made a future.
            let body = async move { handler(context).await };
            let how = match Caught(Box::pin(body)).await {
                Ok(result) => End::Returned(result),
                Err(panic) => End::Panicked(panic),
            };
            report.say(how);
        };
        // An `Instrumented` that is off still costs an enter and an exit per poll.
        let task = if span.is_disabled() {
            self.runtime.spawn(task)
        } else {
            self.runtime.spawn(task.instrument(span))
        };
        (task.abort_handle(), started)
    }
}

/// Sends the message, also when its task is dropped.
struct Report {
    run: u64,
    to: UnboundedSender<Message>,
    said: bool,
}

impl Report {
    fn say(&mut self, how: End) {
        let (run, ended) = (self.run, Instant::now());
        self.said = true;
        // Nobody listens after the worker was dropped.
        let _ = self.to.send(Message { run, ended, how });
    }
}

impl Drop for Report {
    fn drop(&mut self) {
        if !self.said {
            self.say(End::Dropped);
        }
    }
}

/// One span per run, linked by `traceparent` to the one that pushed. Disabled, nothing is built.
fn span(context: &Context) -> tracing::Span {
    let job = context.job();
    tracing::info_span!(
        "job",
        name = job.name,
        id = %job.id,
        tenant = job.tenant,
        queue = job.queue,
        attempt = context.attempt(),
        traceparent = job.metadata.get("traceparent"),
    )
}
