//! Every route with its action, and the one way that each request goes.

use std::{sync::Arc, time::Duration};

use axum::{
    Router,
    body::to_bytes,
    extract::{Request, State},
    http::{Method, StatusCode, request::Parts},
    middleware::map_response,
    response::Response,
    routing::{MethodFilter, on},
};
use jobs_core::permit::{Cancel, Delete, Read, Retry, Tune, Verb};

use crate::{
    answer::Refused,
    api,
    app::{App, Asked, base},
    assets,
    fields::Fields,
    guard, health, html,
    verbs::JobVerb,
};

/// A route that asks for a Grant. [`ROUTES`] has them all.
#[derive(Clone, Copy, Debug)]
pub struct Route {
    /// `GET` or `POST`.
    pub method: &'static str,
    /// Below the path at which the router is nested, in the form of axum's.
    pub path: &'static str,
    /// What a Grant must be for.
    pub action: &'static str,
    to: To,
}

#[derive(Clone, Copy, Debug)]
enum To {
    Jobs,
    Job,
    Change(JobVerb),
    Queues,
    Pause,
    Resume,
    Tenants,
    Workers,
    ApiJobs,
    ApiJob,
    ApiChange(JobVerb),
    ApiQueues,
    ApiPause,
    ApiResume,
    ApiTenants,
    ApiWorkers,
    Health,
    #[cfg(feature = "metrics")]
    Metrics,
    #[cfg(feature = "openapi")]
    OpenApi,
}

const fn get(path: &'static str, to: To) -> Route {
    Route { method: "GET", path, action: Read::ACTION, to }
}

const fn post(path: &'static str, action: &'static str, to: To) -> Route {
    Route { method: "POST", path, action, to }
}

/// Every route but those of the style sheet, the script and the icon.
pub const ROUTES: &[Route] = &[
    get("/", To::Jobs),
    get("/jobs/{tenant}/{id}", To::Job),
    post("/retry", Retry::ACTION, To::Change(JobVerb::Retry)),
    post("/cancel", Cancel::ACTION, To::Change(JobVerb::Cancel)),
    post("/delete", Delete::ACTION, To::Change(JobVerb::Delete)),
    get("/queues", To::Queues),
    post("/pause", Tune::ACTION, To::Pause),
    post("/resume", Tune::ACTION, To::Resume),
    get("/tenants", To::Tenants),
    get("/workers", To::Workers),
    get("/api/jobs", To::ApiJobs),
    get("/api/jobs/{tenant}/{id}", To::ApiJob),
    post("/api/retry", Retry::ACTION, To::ApiChange(JobVerb::Retry)),
    post("/api/cancel", Cancel::ACTION, To::ApiChange(JobVerb::Cancel)),
    post("/api/delete", Delete::ACTION, To::ApiChange(JobVerb::Delete)),
    get("/api/queues", To::ApiQueues),
    post("/api/pause", Tune::ACTION, To::ApiPause),
    post("/api/resume", Tune::ACTION, To::ApiResume),
    get("/api/tenants", To::ApiTenants),
    get("/api/workers", To::ApiWorkers),
    get("/health", To::Health),
    #[cfg(feature = "metrics")]
    get("/metrics", To::Metrics),
    #[cfg(feature = "openapi")]
    get("/api/openapi.json", To::OpenApi),
];

/// A thousand jobs, their longest tenants and percent signs.
const BODY: usize = 256 * 1024;
/// No request takes longer, whatever its store does.
const DEADLINE: Duration = Duration::from_secs(10);

pub(crate) fn router(app: Arc<App>) -> Router {
    let mut router = Router::new();
    for route in ROUTES {
        let filter = if route.method == "GET" { MethodFilter::GET } else { MethodFilter::POST };
        let answer = async move |State(app): State<Arc<App>>, request: Request| {
            answer(&app, route, request).await
        };
        router = router.route(route.path, on(filter, answer));
    }
    let nothing =
        async || html::refused("", &Refused::new(StatusCode::NOT_FOUND, "There is no such page."));
    let protect = async |mut response: Response| {
        guard::protect(&mut response);
        response
    };
    router.merge(assets::router()).fallback(nothing).layer(map_response(protect)).with_state(app)
}

async fn answer(app: &App, route: &Route, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let base = base(&parts);
    let late = Refused::new(StatusCode::SERVICE_UNAVAILABLE, "The store did not answer in time.");
    let answer = tokio::time::timeout(DEADLINE, try_answer(app, route, &base, &parts, body));
    answer.await.unwrap_or(Err(late)).unwrap_or_else(|refused| {
        match route.path.starts_with("/api") || matches!(route.to, To::Health) {
            true => api::refused(&refused),
            false => html::refused(&base, &refused),
        }
    })
}

async fn try_answer(
    app: &App,
    route: &Route,
    base: &str,
    parts: &Parts,
    body: axum::body::Body,
) -> Result<Response, Refused> {
    let posted = parts.method == Method::POST;
    if posted {
        guard::same_site(parts)?;
    }
    let grant = app.grant(parts, route.action).await?;
    let is_json = posted && route.path.starts_with("/api");
    if is_json {
        api::is_json(parts)?;
    }
    let body = match posted {
        true => to_bytes(body, BODY).await.map_err(|_| {
            Refused::new(
                StatusCode::PAYLOAD_TOO_LARGE,
                "That is more than a thousand jobs, or it broke off.",
            )
        })?,
        false => Default::default(),
    };
    let typed = if posted { &body[..] } else { parts.uri.query().unwrap_or_default().as_bytes() };
    let fields = if is_json { Fields::default() } else { Fields::parse(typed) };
    let _turn = app.looks.acquire().await;
    let asked = Asked { app, parts, grant, fields, base };
    match route.to {
        To::Jobs => html::jobs::page(&asked).await,
        To::Job => html::job::page(&asked).await,
        To::Change(verb) => html::change::page(&asked, verb).await,
        To::Queues => html::queues::page(&asked).await,
        To::Pause => html::queues::pause(&asked).await,
        To::Resume => html::queues::resume(&asked).await,
        To::Tenants => html::tenants::page(&asked).await,
        To::Workers => html::workers::page(&asked).await,
        To::ApiJobs => api::jobs(&asked).await,
        To::ApiJob => api::job(&asked).await,
        To::ApiChange(verb) => api::change(&asked, verb, &body).await,
        To::ApiQueues => api::queues(&asked).await,
        To::ApiPause => api::pause(&asked, &body).await,
        To::ApiResume => api::resume(&asked, &body).await,
        To::ApiTenants => api::tenants(&asked).await,
        To::ApiWorkers => api::workers(&asked).await,
        To::Health => health::page(&asked).await,
        #[cfg(feature = "metrics")]
        To::Metrics => crate::metrics::page(&asked).await,
        #[cfg(feature = "openapi")]
        To::OpenApi => Ok(api::description()),
    }
}
