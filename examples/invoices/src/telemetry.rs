//! What the application tells of itself: a span for each request and each run, linked; metrics; and
//! where the time of each run went.

use std::{convert::Infallible, net::SocketAddr};

use axum::{
    Extension, Router,
    extract::{FromRequestParts, Request},
    http::{HeaderMap, request::Parts},
    middleware::Next,
    response::Response,
    routing::get,
};
use jobs_core::{
    Context, Job,
    worker::{FinishedRun, Recorder},
};
use metrics_exporter_prometheus::PrometheusBuilder;
use tokio::net::TcpListener;
use tracing::Instrument;
use uuid::Uuid;

use crate::AnyError;

/// The name of the entry in a job's metadata, and of the header, that says by which span something
/// was brought about: the W3C's.
pub const TRACEPARENT: &str = "traceparent";

/// Sends spans and events to stderr: stdout is what commands answer.
pub fn log() {
    tracing_subscriber::fmt().with_writer(std::io::stderr).with_ansi(false).init();
}

/// Serves `GET /metrics` at `address`, for Prometheus. Called before the worker starts, or its
/// numbers go nowhere.
///
/// # Errors
/// The address is taken, or there is a recorder already.
pub async fn serve_metrics(address: SocketAddr) -> Result<SocketAddr, AnyError> {
    let recorder = PrometheusBuilder::new().install_recorder()?;
    let listener = TcpListener::bind(address).await?;
    let address = listener.local_addr()?;
    let routes = Router::new().route("/metrics", get(async move || recorder.render()));
    tokio::spawn(async move { axum::serve(listener, routes).await });
    tracing::info!(%address, "metrics");
    Ok(address)
}

/// By which request something is brought about.
#[derive(Clone, Debug)]
pub struct Origin(String);

impl Origin {
    /// The caller's, where it sent one, so that its trace goes on here and in the worker.
    fn of(headers: &HeaderMap) -> Self {
        let sent = headers.get(TRACEPARENT).and_then(|value| value.to_str().ok());
        Self(sent.filter(|sent| is_traceparent(sent)).map_or_else(new, str::to_owned))
    }

    /// The one that a run goes back to, for what it pushes itself.
    pub fn of_run(run: &Context) -> Self {
        run.job().metadata.get(TRACEPARENT).map_or_else(|| Self(new()), |of| Self(of.clone()))
    }

    /// Puts it on a job: the run's span will name it.
    pub fn mark(self, job: Job) -> Job {
        job.meta(TRACEPARENT, self.0)
    }
}

fn new() -> String {
    let (trace, span) = (Uuid::new_v4().simple(), Uuid::new_v4().as_u128() as u64 | 1);
    format!("00-{trace}-{span:016x}-01")
}

/// `00-<32 hex digits>-<16>-<2>`.
fn is_traceparent(text: &str) -> bool {
    let hex = |part: &str| part.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
    let parts: Vec<_> = text.split('-').collect();
    let lengths: Vec<_> = parts.iter().map(|part| part.len()).collect();
    lengths == [2, 32, 16, 2] && parts.iter().all(|part| hex(part))
}

/// One span per request.
pub async fn request(mut request: Request, next: Next) -> Response {
    let origin = Origin::of(request.headers());
    let (method, path) = (request.method().as_str(), request.uri().path());
    let span = tracing::info_span!("request", method, path, traceparent = origin.0);
    request.extensions_mut().insert(origin);
    next.run(request).instrument(span).await
}

impl<S: Send + Sync> FromRequestParts<S> for Origin {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Infallible> {
        let origin = Extension::<Self>::from_request_parts(parts, state).await;
        Ok(origin.map_or_else(|_| Self(new()), |Extension(origin)| origin))
    }
}

/// Logs where the time of each run went.
#[derive(Clone, Copy, Debug)]
pub struct Timelines;

impl Recorder for Timelines {
    fn finished(&self, run: &FinishedRun<'_>) {
        let FinishedRun { job, attempt, outcome, timeline, .. } = run;
        tracing::info!(
            name = job.name,
            id = %job.id,
            tenant = job.tenant,
            attempt,
            outcome = outcome.kind().as_str(),
            traceparent = job.metadata.get(TRACEPARENT),
            held = ?timeline.held,
            queued = ?timeline.queued,
            ran = ?timeline.ran,
            settled = ?timeline.settled,
            "a run ended"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_callers_traceparent_is_kept_and_another_text_is_not() {
        let parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        let sent = |text: &str| {
            let value = text.parse().expect("a header's value");
            Origin::of(&HeaderMap::from_iter([(TRACEPARENT.parse().expect("a name"), value)])).0
        };
        assert_eq!(sent(parent), parent);
        let made = sent("of mine");
        assert!(is_traceparent(&made), "{made}");
        assert_ne!(made, sent("of mine"), "each request has its own");
    }
}
