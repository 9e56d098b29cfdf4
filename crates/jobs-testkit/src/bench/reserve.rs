//! Workload: what a reserve costs with so many jobs waiting. What was taken stays taken, so few are.
//! Where a commit waits for the disk, that is in every figure and hides how the rest grows: read the
//! growth at a durability that does not (`--durability normal`).

use std::time::{Duration, Instant};

use jobs_core::{Admin, job::DEFAULT_QUEUE, queue::Reserve};
use serde_json::json;

use super::{
    Args, Found, Result,
    figures::{median, rounded},
    push::fill,
    work::{Jobs, names},
};

/// How many jobs a reserve takes, and how many such reserves are measured.
const SIZES: [(usize, usize); 2] = [(8, 40), (100, 12)];

/// Fills, then reserves.
pub(super) async fn run(store: &dyn Admin, args: &Args) -> Result<Found> {
    fill(store, &Jobs::new(args)?, args.jobs).await?;
    let (mut took, mut more) = (Duration::ZERO, json!({}));
    for (size, times) in SIZES {
        // The first is not counted: it may find statements and pages cold.
        let mut micros = Vec::new();
        for time in 0..=times {
            let request = Reserve::new(DEFAULT_QUEUE, names(args), "bench")?.slots(size);
            let start = Instant::now();
            let taken = store.reserve(&request).await?.deliveries.len();
            let one = start.elapsed();
            if taken != size {
                return Err(format!("a reserve of {size} took {taken} of many").into());
            }
            if time > 0 {
                micros.push(one.as_secs_f64() * 1e6);
                took += one;
            }
        }
        more[format!("reserve_{size}_us")] = rounded(median(micros), 1).into();
    }
    Ok(Found { jobs: args.jobs, took, more })
}
