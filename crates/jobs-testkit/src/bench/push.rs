//! Workloads: pushes. The making of the jobs is part of the time, as it is of a request. The jobs of a
//! batch are alike and have no metadata: what is measured is the best case of a statement that
//! stores what they share once.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::Instant,
};

use jobs_core::{Admin, Queue, QueueExt, queue::Pushed};
use serde_json::json;
use tokio::task::JoinSet;

use super::{
    Args, Found, Result,
    work::{Jobs, listed},
};

/// Jobs of one batch.
const BATCH: usize = 1000;

/// Concurrent producers, each with one push in flight.
pub(super) async fn one_by_one(store: Arc<dyn Admin>, args: &Args) -> Result<Found> {
    let (jobs, next) = (Arc::new(Jobs::new(args)?), Arc::new(AtomicUsize::new(0)));
    let (start, mut producers) = (Instant::now(), JoinSet::new());
    for _ in 0..args.concurrency {
        let (store, jobs, next, most) = (store.clone(), jobs.clone(), next.clone(), args.jobs);
        producers.spawn(async move {
            loop {
                let i = next.fetch_add(1, Relaxed);
                if i >= most {
                    return Ok(());
                }
                let (grant, job) = jobs.job(i, None)?;
                stored(store.push(grant, job).await?)?;
            }
        });
    }
    while let Some(producer) = producers.join_next().await {
        let done: Result<()> = producer?;
        done?;
    }
    let took = start.elapsed();
    all_stored(&*store, args).await?;
    Ok(Found { jobs: args.jobs, took, more: json!({}) })
}

/// One producer, a batch after the other.
pub(super) async fn in_bulk(store: &dyn Admin, args: &Args) -> Result<Found> {
    let jobs = Jobs::new(args)?;
    let start = Instant::now();
    fill(store, &jobs, args.jobs).await?;
    let took = start.elapsed();
    all_stored(store, args).await?;
    Ok(Found { jobs: args.jobs, took, more: json!({}) })
}

/// What was acknowledged is there: one that answers without storing would be the fastest.
async fn all_stored(store: &dyn Admin, args: &Args) -> Result<()> {
    let (found, wanted) = (listed(store, None).await?, args.jobs);
    let all = usize::try_from(found) == Ok(wanted);
    if all { Ok(()) } else { Err(format!("{found} jobs of {wanted} are in the store").into()) }
}

/// Pushes the jobs numbered up to `most`. A batch is of all tenants, so it goes past `push_many`,
/// which takes one Grant, and is checked here as it is there.
pub(super) async fn fill<Q: Queue + ?Sized>(store: &Q, jobs: &Jobs, most: usize) -> Result<()> {
    for first in (0..most).step_by(BATCH) {
        let batch = (first..most.min(first + BATCH)).map(|i| jobs.checked(i));
        let batch = batch.collect::<Result<Vec<_>>>()?;
        for answer in store.enqueue(&batch).await {
            stored(answer?)?;
        }
    }
    Ok(())
}

fn stored(pushed: Pushed) -> Result<()> {
    if pushed == Pushed::Stored { Ok(()) } else { Err(format!("a new job is {pushed:?}").into()) }
}
