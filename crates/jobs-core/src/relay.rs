//! From an outbox into the store that runs the jobs: for a store whose pushes cannot join the
//! application's transaction, push into one beside the rows, whose pushes can, and relay from there.
//!
//! - **G4** A relayed job keeps its id and its authority, and arrives as it was pushed; one that is
//!   there already is not doubled, and one whose key is held there ends as cancelled
//!   (`g4_a_relay_keeps_id_and_authority`).
//! - **K9** While the other store is away or full, jobs wait in the outbox and spend no attempt
//!   (`k9_a_relay_waits_out_an_outage`).

use std::{sync::Arc, time::Duration};

use tokio::time::timeout;

use crate::{
    Context, Failure, Payload, PushError, Queue, QueueExt, Worker, job::Timeout, queue::Pushed,
};

/// Until a push that the other store could not take is tried again.
const LATER: Duration = Duration::from_secs(1);
/// Jobs that are under way at once: concurrent pushes share a statement.
const CONCURRENCY: usize = 32;

/// A worker that moves the jobs called so from `from` to `to`: reserved there, pushed here with the
/// same id and authority, done there. Name their queues with [`Worker::queue`], and run it beside
/// whatever pushes; any number of processes may run one.
///
/// A push is safe to repeat, so a relay that is killed half-way doubles nothing. It is a delivery in
/// the outbox, though: a job whose attempts were all spent by relays that were killed is parked there,
/// and so is one that the other store refuses for good. A job to be run later waits in the outbox. A
/// key is held in the store where the job is.
///
/// ```no_run
/// # use jobs_core::{Queue, relay::relay};
/// # async fn run(outbox: std::sync::Arc<dyn Queue>, store: std::sync::Arc<dyn Queue>) {
/// let ended = relay(outbox, store, ["invoice.send"]).queue("mail", 1).run().await;
/// # }
/// ```
///
/// # Panics
/// When a name is given twice.
pub fn relay<'a>(
    from: impl Queue,
    to: impl Queue,
    names: impl IntoIterator<Item = &'a str>,
) -> Worker {
    let to: Arc<dyn Queue> = Arc::new(to);
    let worker = Worker::new(from).label("relay").concurrency(CONCURRENCY);
    names.into_iter().fold(worker, |worker, name| {
        let to = to.clone();
        worker.handle_named(name, move |context: Context, _: Payload| {
            let to = to.clone();
            async move { pass_on(&*to, &context).await }
        })
    })
}

async fn pass_on(to: &dyn Queue, context: &Context) -> Result<(), Failure> {
    let job = context.job().clone();
    // Its limit was kept where it was pushed.
    let grant = context.grant().clone().with_payload_limit(job.payload.as_str().len());
    // The job's timeout is for its own run; it must not end this one as a failed attempt.
    let patience = match job.timeout {
        Timeout::After(limit) => limit / 2,
        Timeout::Default | Timeout::Never => LATER * 60,
    };
    match timeout(patience, to.push(&grant, job)).await {
        Ok(Ok(Pushed::Stored | Pushed::Duplicate(_))) => Ok(()),
        Ok(Ok(Pushed::KeyHeld(id, state))) => {
            Err(Failure::cancel(format!("its key is held by {id}, which is {}", state.as_str())))
        }
        Ok(Err(PushError::Store(error))) if error.is_transient() => {
            tracing::warn!(%error, "a job waits in the outbox");
            Err(Failure::snooze(LATER))
        }
        Ok(Err(error)) => Err(Failure::park(format!("it cannot be relayed: {error}"))),
        Err(_) => Err(Failure::snooze(LATER)),
    }
}
