//! Stage: run. Hands jobs to the application's runtime and hears how they ended. Knows no storage.

use std::time::Instant;

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
    /// When the handler's first step was.
    pub started: Option<Instant>,
    pub ended: Instant,
    pub how: End,
}

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
    ) -> AbortHandle {
        let span = span(&context);
        let mut report = Report { run, started: None, to: self.ended.clone(), said: false };
        let task = async move {
            report.started = Some(Instant::now());
            // The handler's first lines run inside too, before it has made a future.
            let body = async move { handler(context).await };
            let how = match Caught(Box::pin(body)).await {
                Ok(result) => End::Returned(result),
                Err(panic) => End::Panicked(panic),
            };
            report.say(how);
        };
        // An `Instrumented` that is off still costs an enter and an exit per poll.
        if span.is_disabled() {
            self.runtime.spawn(task).abort_handle()
        } else {
            self.runtime.spawn(task.instrument(span)).abort_handle()
        }
    }
}

/// Sends the message, also when its task is dropped.
struct Report {
    run: u64,
    started: Option<Instant>,
    to: UnboundedSender<Message>,
    said: bool,
}

impl Report {
    fn say(&mut self, how: End) {
        let (run, started, ended) = (self.run, self.started, Instant::now());
        self.said = true;
        // Nobody listens after the worker was dropped.
        let _ = self.to.send(Message { run, started, ended, how });
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
