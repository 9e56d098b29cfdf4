//! Workload: how often this process allocates for a job that is pushed in bulk, and that is run.
//! Only Rust's allocator is seen, and not that of a library in C.

use std::{sync::Arc, time::Instant};

use jobs_core::Admin;
use serde_json::json;

use super::{Args, Counter, Found, Result, drain::drain, figures::rounded, push::fill, work::Jobs};

/// Counts.
pub(super) async fn run(
    store: Arc<dyn Admin>,
    args: &Args,
    counter: Option<Counter>,
) -> Result<Found> {
    let Some(counter) = counter else {
        return Err("this program does not count: run the example `allocations`".into());
    };
    let per_job = |before: u64| rounded((counter() - before) as f64 / args.jobs as f64, 1);
    let (start, jobs, before) = (Instant::now(), Jobs::new(args)?, counter());
    fill(&store, &jobs, args.jobs).await?;
    let (pushed, before) = (per_job(before), counter());
    drain(store, args).await?;
    let more = json!({ "push_allocations": pushed, "run_allocations": per_job(before) });
    Ok(Found { jobs: args.jobs, took: start.elapsed(), more })
}
