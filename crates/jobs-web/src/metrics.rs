//! `/metrics`: counts of each queue in Prometheus's text format. No label says whose a job is, so that
//! the number of series does not grow with the tenants.

use std::fmt::Write;

use axum::{
    http::header,
    response::{IntoResponse, Response},
};
use jobs_core::view::Lanes;

use crate::{
    answer::Refused,
    app::Asked,
    sums::{Sum, by_queue},
};

/// A gauge's name, what it is, and how it is read off a queue.
type Gauge = (&'static str, &'static str, fn(&Sum) -> f64);

#[expect(clippy::cast_precision_loss, reason = "counts stop at 10,000 a lane")]
const GAUGES: [Gauge; 5] = [
    ("jobs_waiting", "Jobs due and not running.", |sum| sum.waiting.number as f64),
    ("jobs_running", "Jobs running under a lease.", |sum| sum.running.number as f64),
    ("jobs_scheduled", "Jobs not due yet.", |sum| sum.scheduled.number as f64),
    ("jobs_parked", "Jobs that gave up.", |sum| sum.parked.number as f64),
    ("jobs_oldest_seconds", "How long the longest-waiting job has been due.", |sum| {
        sum.oldest.as_secs_f64()
    }),
];

pub(crate) async fn page(asked: &Asked<'_>) -> Result<Response, Refused> {
    let permit = asked.permit()?;
    let now = asked.store().check(&permit).await?.now;
    let counts = asked.store().counts(&permit, &Lanes::default()).await?;
    let workers = asked.store().workers(&permit).await?;
    let queues = by_queue(&counts, now);
    let mut text = String::new();
    // Writing to a string does not fail.
    for (name, help, read) in GAUGES {
        let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} gauge");
        for (queue, sum) in &queues {
            // A queue's alphabet has nothing to be escaped.
            let _ = writeln!(text, "{name}{{queue=\"{queue}\"}} {}", read(sum));
        }
    }
    let slots = |of: fn(&jobs_core::queue::Worker) -> u32| -> u64 {
        workers.iter().map(|view| u64::from(of(&view.worker))).sum()
    };
    for (name, help, value) in [
        ("jobs_workers", "Workers alive.", workers.len() as u64),
        ("jobs_worker_slots", "Jobs that they run at once.", slots(|worker| worker.slots)),
        ("jobs_worker_slots_busy", "Slots in use.", slots(|worker| worker.busy)),
        (
            "jobs_worker_slots_stuck",
            "Slots of handlers that ignored their timeout.",
            slots(|worker| worker.stuck),
        ),
    ] {
        let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} gauge\n{name} {value}");
    }
    Ok(([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], text).into_response())
}
