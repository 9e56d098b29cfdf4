//! The same as JSON, in the shapes of [`jobs_core::json`].

use axum::{
    http::{StatusCode, header, request::Parts},
    response::{IntoResponse, Response},
};
use jobs_core::{
    admin::Pause,
    doctor::{Facts, why},
    json::{self, Finding, Number, Stats},
    permit::Read,
    view::{Lanes, Page},
};
use serde::{Deserialize, Serialize};

use crate::{
    answer::Refused,
    app::Asked,
    fields::{self, LaneWish, Selection},
    filter::{Filter, MOST},
    html::{job::job_of, tenants::operators_only},
    sums::{Sum, by_tenant},
    verbs::{self, JobVerb},
};

#[derive(Serialize)]
struct Failed<'a> {
    error: &'a str,
}

pub(crate) fn refused(refused: &Refused) -> Response {
    answer(refused.status, &Failed { error: &refused.words })
}

pub(crate) fn answer<T: Serialize>(status: StatusCode, value: &T) -> Response {
    match serde_json::to_string(value) {
        Ok(json) => (status, [(header::CONTENT_TYPE, "application/json")], json).into_response(),
        Err(error) => {
            tracing::error!(%error, "an answer of the queue page has no JSON form");
            StatusCode::INTERNAL_SERVER_ERROR.into_response()
        }
    }
}

fn ok<T: Serialize>(value: &T) -> Result<Response, Refused> {
    Ok(answer(StatusCode::OK, value))
}

/// No form of another site's can say that it is JSON.
pub(crate) fn is_json(parts: &Parts) -> Result<(), Refused> {
    let kind = parts.headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    let kind = kind.and_then(|kind| kind.split(';').next()).unwrap_or_default();
    match kind.trim().eq_ignore_ascii_case("application/json") {
        true => Ok(()),
        false => Err(Refused::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "Send JSON, with Content-Type: application/json.",
        )),
    }
}

fn parse<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Result<T, Refused> {
    serde_json::from_slice(body)
        .map_err(|error| Refused::bad(format!("The body is not what it should be: {error}")))
}

pub(crate) async fn jobs(asked: &Asked<'_>) -> Result<Response, Refused> {
    let filter = Filter::of(&asked.fields, asked.is_operator(), MOST[1]);
    let Some(list) = filter.list() else {
        let wrong = filter.wrong.join(" and ");
        return Err(Refused::bad(format!("What is given as {wrong} can match nothing.")));
    };
    let page: Page = asked.store().list(&asked.permit::<Read>()?, &list).await?;
    ok(&json::List::of(&page.jobs, &page))
}

/// What a JavaScript reader would round is there as text as well.
#[derive(Serialize)]
struct Job {
    #[serde(flatten)]
    shown: json::Show,
    payload_text: String,
    fence_text: String,
    why_not_running: Vec<Finding>,
}

pub(crate) async fn job(asked: &Asked<'_>) -> Result<Response, Refused> {
    let record = job_of(asked).await?;
    let facts = Facts::of_job(asked.store(), &asked.permit()?, &record).await?;
    ok(&Job {
        shown: json::Show::from(&record),
        payload_text: record.view.job.payload.as_str().to_owned(),
        fence_text: record.fence.to_string(),
        why_not_running: why(&record, &facts),
    })
}

pub(crate) async fn change(
    asked: &Asked<'_>,
    verb: JobVerb,
    body: &[u8],
) -> Result<Response, Refused> {
    let jobs = parse::<Selection>(body)?.jobs()?;
    ok(&verb.apply(asked, &jobs).await?)
}

pub(crate) async fn queues(asked: &Asked<'_>) -> Result<Response, Refused> {
    let lanes = Lanes { queue: None, tenant: asked.tenant()? };
    let counts = asked.store().counts(&asked.permit()?, &lanes).await?;
    ok(&Stats::from(&counts))
}

pub(crate) async fn pause(asked: &Asked<'_>, body: &[u8]) -> Result<Response, Refused> {
    let wish: LaneWish = parse(body)?;
    let pause = wish.for_seconds.map_or(Pause::On, |seconds| Pause::For(fields::pause_of(seconds)));
    ok(&verbs::tune(asked, Some(&wish.queue), wish.tenant, pause).await?)
}

pub(crate) async fn resume(asked: &Asked<'_>, body: &[u8]) -> Result<Response, Refused> {
    let wish: LaneWish = parse(body)?;
    ok(&verbs::tune(asked, Some(&wish.queue), wish.tenant, Pause::Off).await?)
}

#[derive(Serialize)]
struct Tenants {
    tenants: Vec<Tenant>,
    complete: bool,
}

#[derive(Serialize)]
struct Tenant {
    tenant: String,
    waiting: Number,
    running: Number,
    scheduled: Number,
    parked: Number,
    oldest_seconds: f64,
    finished_last_hour: u64,
    failed_last_hour: u64,
}

impl Tenant {
    fn of((tenant, sum): (String, Sum)) -> Self {
        let [finished_last_hour, failed_last_hour] = sum.hour();
        Self {
            tenant,
            waiting: sum.waiting.into(),
            running: sum.running.into(),
            scheduled: sum.scheduled.into(),
            parked: sum.parked.into(),
            oldest_seconds: sum.oldest.as_secs_f64(),
            finished_last_hour,
            failed_last_hour,
        }
    }
}

pub(crate) async fn tenants(asked: &Asked<'_>) -> Result<Response, Refused> {
    operators_only(asked)?;
    let permit = asked.permit()?;
    let now = asked.store().check(&permit).await?.now;
    let counts = asked.store().counts(&permit, &Lanes::default()).await?;
    let tenants = by_tenant(&counts, now).into_iter().map(Tenant::of).collect();
    ok(&Tenants { tenants, complete: counts.complete })
}

pub(crate) async fn workers(asked: &Asked<'_>) -> Result<Response, Refused> {
    let permit = asked.permit()?;
    let now = asked.store().check(&permit).await?.now;
    ok(&json::Workers::of(&asked.store().workers(&permit).await?, now))
}

#[cfg(feature = "openapi")]
pub(crate) fn description() -> Response {
    let text = include_str!("../assets/openapi.json");
    ([(header::CONTENT_TYPE, "application/json")], text).into_response()
}
