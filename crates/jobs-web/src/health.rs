//! `/health`: does the store answer, and does nobody wait for too long?

use std::{collections::BTreeMap, time::Duration};

use axum::{http::StatusCode, response::Response};
use jobs_core::view::Lanes;
use serde::Serialize;

use crate::{
    answer::Refused,
    api,
    app::{Asked, WAITS},
};

#[derive(Serialize)]
struct Health {
    healthy: bool,
    queues: Vec<Watched>,
}

#[derive(Serialize)]
struct Watched {
    queue: String,
    oldest_seconds: f64,
    limit_seconds: f64,
    healthy: bool,
}

pub(crate) async fn page(asked: &Asked<'_>) -> Result<Response, Refused> {
    let counts = asked.store().counts(&asked.permit()?, &Lanes::default()).await?;
    let mut oldest: BTreeMap<&str, Duration> =
        asked.app.watched.keys().map(|queue| (queue.as_str(), Duration::ZERO)).collect();
    for lane in &counts.lanes {
        if asked.app.watched.is_empty() || asked.app.watched.contains_key(&lane.queue) {
            let oldest = oldest.entry(&lane.queue).or_default();
            *oldest = lane.oldest.max(*oldest);
        }
    }
    let queues = oldest.into_iter().map(|(queue, oldest)| {
        let limit = asked.app.watched.get(queue).copied().unwrap_or(WAITS);
        Watched {
            queue: queue.to_owned(),
            oldest_seconds: oldest.as_secs_f64(),
            limit_seconds: limit.as_secs_f64(),
            healthy: oldest <= limit,
        }
    });
    let queues: Vec<_> = queues.collect();
    let healthy = queues.iter().all(|queue| queue.healthy);
    let status = if healthy { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    Ok(api::answer(status, &Health { healthy, queues }))
}
