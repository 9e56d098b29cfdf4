//! Requests. Each asks the policy for a Grant for its one action in the tenant of its path, and
//! reaches rows and jobs by that.

use axum::{
    Json, Router,
    extract::{FromRef, Path, State},
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use jobs_core::{
    Forbidden, Grant, Job, JobId, JobType, Policy, PushError, Pushed, QueueExt, Refusal,
    payload::{NotJson, Payload},
};
use serde::{Deserialize, Serialize};

use crate::{
    data::{Data, DataError, Invoice, Report},
    jobs::{BuildReport, ImportFile, SendInvoice},
    policy::{IMPORT, READ, REPORT, Roles, SEND, user_of},
    telemetry::{self, Origin},
};

/// All requests.
pub fn routes(data: Data) -> Router {
    Router::new()
        .route("/tenants/{tenant}/invoices", post(issue).get(overview))
        .route("/tenants/{tenant}/invoices/{id}", get(invoice))
        .route("/tenants/{tenant}/reports", post(build))
        .route("/tenants/{tenant}/reports/{month}", get(report))
        .route("/tenants/{tenant}/imports", post(import))
        .layer(axum::middleware::from_fn(telemetry::request))
        .with_state(App { data })
}

#[derive(Clone)]
struct App {
    data: Data,
}

impl FromRef<App> for Data {
    fn from_ref(app: &App) -> Self {
        app.data.clone()
    }
}

/// The Grant of a request: whoever its token is of, for one action in the tenant of its path.
async fn authorize(headers: &HeaderMap, action: &str, tenant: &str) -> Result<Grant, Answer> {
    let token = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let token = token.and_then(|value| value.strip_prefix("Bearer "));
    let user = token.and_then(user_of).ok_or(Answer::Unknown)?;
    Ok(Roles.authorize(user, action, tenant).await?)
}

/// An invoice to issue.
#[derive(Deserialize)]
struct Draft {
    customer: String,
    cents: u64,
    month: Month,
    /// How it is to be mailed: `id`, to repeat a request by, `run_at` and `priority` count.
    /// Whatever this says of its tenant, action and authorized-by is held against the Grant.
    #[serde(default)]
    job: Job,
}

async fn issue(
    State(data): State<Data>,
    Path(tenant): Path<String>,
    headers: HeaderMap,
    origin: Origin,
    Json(draft): Json<Draft>,
) -> Result<Response, Answer> {
    let grant = authorize(&headers, SEND, &tenant).await?;
    let Draft { customer, cents, month, job: asked } = draft;
    let invoice = Invoice { id: asked.id, customer, cents, month: month.0, sent_for: None };
    let value = SendInvoice { invoice: invoice.id };
    let job = Job {
        name: SendInvoice::NAME.to_owned(),
        queue: SendInvoice::QUEUE.to_owned(),
        payload: Payload::encode(&value)?,
        timeout: SendInvoice::TIMEOUT,
        max_attempts: Some(SendInvoice::MAX_ATTEMPTS),
        key: None,
        metadata: Default::default(),
        ..asked
    };
    let job = origin.mark(job);
    answer(invoice.id, data.issue(&grant, &invoice, job).await?)
}

/// A month to add up.
#[derive(Deserialize)]
struct Asked {
    month: Month,
}

async fn build(
    State(data): State<Data>,
    Path(tenant): Path<String>,
    headers: HeaderMap,
    origin: Origin,
    Json(Asked { month: Month(month) }): Json<Asked>,
) -> Result<Response, Answer> {
    let grant = authorize(&headers, REPORT, &tenant).await?;
    // Who asks twice before it is built gets one. A report that is being built may not have seen
    // the newest invoice, so its key is free from its start on.
    let key = format!("report/{month}");
    let job = Job::of(&grant, &BuildReport { month })?.key_until_started(key);
    let job = origin.mark(job);
    answer(job.id, data.jobs().push(&grant, job).await?)
}

async fn import(
    State(data): State<Data>,
    Path(tenant): Path<String>,
    headers: HeaderMap,
    origin: Origin,
    file: String,
) -> Result<Response, Answer> {
    let grant = authorize(&headers, IMPORT, &tenant).await?;
    let id = JobId::new();
    let job = Job { id, ..Job::of(&grant, &ImportFile { upload: id })? };
    answer(id, data.upload(&grant, &file, origin.mark(job)).await?)
}

async fn invoice(
    State(data): State<Data>,
    Path((tenant, id)): Path<(String, JobId)>,
    headers: HeaderMap,
) -> Result<Json<Invoice>, Answer> {
    let grant = authorize(&headers, READ, &tenant).await?;
    data.invoice(&grant, id).await?.map(Json).ok_or(Answer::NotThere)
}

async fn report(
    State(data): State<Data>,
    Path((tenant, month)): Path<(String, String)>,
    headers: HeaderMap,
) -> Result<Json<Report>, Answer> {
    let grant = authorize(&headers, READ, &tenant).await?;
    data.report(&grant, &month).await?.map(Json).ok_or(Answer::NotThere)
}

/// A tenant's invoices, counted.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Overview {
    /// How many there are.
    pub invoices: usize,
    /// How many of them were mailed.
    pub sent: usize,
}

async fn overview(
    State(data): State<Data>,
    Path(tenant): Path<String>,
    headers: HeaderMap,
) -> Result<Json<Overview>, Answer> {
    let grant = authorize(&headers, READ, &tenant).await?;
    let invoices = data.invoices(&grant).await?;
    let sent = invoices.iter().filter(|invoice| invoice.sent_for.is_some()).count();
    Ok(Json(Overview { invoices: invoices.len(), sent }))
}

/// What a push is answered with.
#[derive(Serialize)]
struct Accepted {
    id: JobId,
}

fn answer(id: JobId, pushed: Pushed) -> Result<Response, Answer> {
    let (status, id) = match pushed {
        Pushed::Stored => (StatusCode::ACCEPTED, id),
        // It is there already: as asked for.
        Pushed::Duplicate(_) => (StatusCode::OK, id),
        Pushed::KeyHeld(holder, _) => (StatusCode::OK, holder),
    };
    Ok((status, Json(Accepted { id })).into_response())
}

/// A month, as in `2026-11`.
#[derive(Deserialize)]
#[serde(try_from = "String")]
struct Month(String);

impl TryFrom<String> for Month {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let bytes = text.as_bytes();
        let digits = |range: std::ops::Range<usize>| bytes[range].iter().all(u8::is_ascii_digit);
        let fits = bytes.len() == 7 && digits(0..4) && bytes[4] == b'-' && digits(5..7);
        if fits { Ok(Self(text)) } else { Err(format!("{text:?} is no month: write 2026-11")) }
    }
}

/// Why a request was not done.
#[derive(Debug, thiserror::Error)]
enum Answer {
    #[error("who are you? send a bearer token")]
    Unknown,
    #[error("it is not there")]
    NotThere,
    #[error(transparent)]
    Forbidden(#[from] Forbidden),
    #[error(transparent)]
    Data(#[from] DataError),
    #[error(transparent)]
    Push(#[from] PushError),
    #[error(transparent)]
    NotJson(#[from] NotJson),
}

impl Answer {
    fn status(&self) -> StatusCode {
        match self {
            Self::Unknown => StatusCode::UNAUTHORIZED,
            Self::NotThere => StatusCode::NOT_FOUND,
            Self::Forbidden(_) => StatusCode::FORBIDDEN,
            Self::Data(DataError::Forbidden(_) | DataError::NoTenant) => StatusCode::FORBIDDEN,
            Self::Data(DataError::Refused(refusal)) => refused(refusal),
            Self::Push(PushError::Refused(refusal)) => refused(refusal),
            Self::NotJson(_) => StatusCode::UNPROCESSABLE_ENTITY,
            Self::Data(_) | Self::Push(_) => StatusCode::SERVICE_UNAVAILABLE,
        }
    }
}

/// A job that says more than its Grant is forbidden; one out of bounds is a mistake.
fn refused(refusal: &Refusal) -> StatusCode {
    match refusal {
        Refusal::Forged { .. } | Refusal::NoTenant => StatusCode::FORBIDDEN,
        Refusal::PayloadTooLarge { .. } => StatusCode::PAYLOAD_TOO_LARGE,
        _ => StatusCode::UNPROCESSABLE_ENTITY,
    }
}

impl IntoResponse for Answer {
    fn into_response(self) -> Response {
        let (status, words) = (self.status(), self.to_string());
        if status.is_server_error() {
            // What a store says of itself is not the client's to read.
            tracing::error!(%words, "a request failed");
            return (status, "the store failed: try again\n").into_response();
        }
        (status, format!("{words}\n")).into_response()
    }
}
