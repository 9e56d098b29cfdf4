//! The role of a worker process: the real worker, with handlers of every temper, on a watched
//! handle.

use std::{sync::Arc, thread, time::Duration};

use jobs_core::{
    Context, Failure, JobRef, Payload, Queue, Worker, queue::Lease, worker::exit_code,
};
use tokio::{runtime::Builder, time::sleep};

use super::{
    BROKEN, Done, LEASE, Soak, Trouble,
    claims::Claims,
    late::Late,
    ledger::{Event, How, Pen, now},
    left::{self, Open},
    opened,
    process::{Orders, leash},
    store::own_id,
    strict::Strict,
    watched::Watched,
};

/// The queues, with their weights.
pub const QUEUES: [(&str, u32); 2] = [("main", 3), ("side", 1)];
/// Jobs that one worker runs at once.
const SLOTS: usize = 4;
/// Deliveries of a flaky job that fail.
const FLAKES: u32 = 2;
/// Fences of a snoozing job that snooze.
const SNOOZES: i64 = 2;
/// How long handlers may go on when it is told to end.
pub const GRACE: Duration = Duration::from_secs(8);
/// How long its runtime, and its other handle, may take to end.
const ENDS: Duration = Duration::from_secs(10);
/// A process that does not run for this long disturbs the others' measurements.
pub const STALL: Duration = Duration::from_millis(300);
/// Did it not run for this long, it says so: a lease that is lost is accounted for by less.
const NOTED: Duration = Duration::from_millis(60);

/// What handlers there are.
pub const NAMES: [&str; 9] =
    ["quick", "steady", "long", "flaky", "fails", "panics", "snoozes", "blocks", "probe"];

/// Runs until it is told to end; answers its exit status.
///
/// # Errors
/// What kept it from starting.
pub fn run(soak: &dyn Soak, orders: &Orders) -> Done<u8> {
    leash(|| {})?;
    let pen = Arc::new(Pen::open(&orders.directory, &orders.label)?);
    watch_the_clock(pen.clone())?;
    left::listen()?;
    let before = Open::now();
    // One thread for all handlers, so that one of them can block them all (K4).
    let mut runtime = Builder::new_multi_thread();
    let runtime = runtime.worker_threads(1).enable_all().build().map_err(|e| e.to_string())?;
    let claims = Claims::default();
    let late = Late::start(soak, orders, pen.clone(), claims.clone())?;
    let ended = runtime.block_on(async {
        let store = Strict::new(opened(soak, &orders.url, orders.trouble).await?, pen.clone());
        let Trouble { cut_after, cut_every, clock_off: clock } = orders.trouble;
        let cut = cut_after.or(cut_every);
        pen.write(Event::Up { cut, clock });
        let store: Arc<dyn Queue> = Arc::new(store);
        let watched = Watched { store, pen: pen.clone(), claims, failed: Arc::default() };
        let worker = register(Worker::new(watched).label(&orders.label), &pen)?;
        let ended = worker.run().await;
        if exit_code(&ended) != 0 {
            eprintln!("{ended:?}");
        }
        Done::Ok(exit_code(&ended))
    })?;
    runtime.shutdown_timeout(ENDS);
    // A handler that was left keeps what it has.
    if ended == 0 && late.ended(ENDS) {
        pen.write(Event::Closed { left: before.left() });
    }
    Ok(ended)
}

fn register(worker: Worker, pen: &Arc<Pen>) -> Done<Worker> {
    let lease = Lease::new(LEASE).map_err(|error| error.to_string())?;
    let worker = worker.lease(lease).concurrency(SLOTS).grace(GRACE);
    let worker = worker.backoff(|attempt| Duration::from_millis(150) * attempt.min(10));
    let worker =
        QUEUES.iter().fold(worker, |worker, (queue, weight)| worker.queue(*queue, *weight));
    Ok(NAMES.iter().fold(worker, |worker, name| {
        let pen = pen.clone();
        worker.handle_named(name, move |context: Context, _: Payload| {
            let pen = pen.clone();
            async move { witnessed(&pen, &context).await }
        })
    }))
}

/// Says that the handler ended, also when it is dropped or panics.
struct Run<'a> {
    pen: &'a Pen,
    job: JobRef,
    fence: i64,
    how: Option<How>,
}

impl Drop for Run<'_> {
    fn drop(&mut self) {
        let unsaid = if thread::panicking() { How::Panicked } else { How::Dropped };
        let (job, fence, how) = (self.job.clone(), self.fence, self.how.unwrap_or(unsaid));
        self.pen.write(Event::End { job, fence, how });
    }
}

async fn witnessed(pen: &Pen, context: &Context) -> Result<(), Failure> {
    let (job, fence, attempt) = (context.job().job_ref(), context.fence(), context.attempt());
    let name = context.job().name.clone();
    let (queue, payload) = (context.job().queue.clone(), own_id(&context.job().payload));
    let start =
        Event::Start { job: job.clone(), queue, name: name.clone(), payload, attempt, fence };
    pen.write(start);
    let mut run = Run { pen, job, fence, how: None };
    let (how, result) = handler(&name, context).await;
    run.how = Some(how);
    result
}

async fn handler(name: &str, context: &Context) -> (How, Result<(), Failure>) {
    // Long enough to be met by a late write of the attempt before.
    if matches!(name, "flaky" | "fails" | "panics" | "snoozes") {
        sleep(Duration::from_millis(fastrand::u64(20..250))).await;
    }
    let failed = |what: &str| (How::Failed, Err(Failure::retry(what)));
    match name {
        "steady" => sleep(Duration::from_millis(fastrand::u64(60..180))).await,
        // Longer than the lease: it lives by its renewals.
        "long" => sleep(LEASE + Duration::from_millis(fastrand::u64(500..2500))).await,
        "flaky" if context.attempt() <= FLAKES => return failed("flaky by design"),
        "fails" => return failed("fails by design"),
        "panics" if context.attempt() <= 1 => panic!("panics by design"),
        "snoozes" if context.fence() <= SNOOZES => {
            return (How::Snoozed, Err(Failure::snooze(Duration::from_millis(400))));
        }
        "blocks" => thread::sleep(LEASE + LEASE / 2),
        _ => {}
    }
    (How::Done, Ok(()))
}

/// Writes down when the whole process did not run: stopped, or starved by the machine.
fn watch_the_clock(pen: Arc<Pen>) -> Done {
    let watch = move || {
        let step = Duration::from_millis(20);
        let most = i64::try_from((step + NOTED).as_micros()).unwrap_or(i64::MAX);
        loop {
            let since = now();
            thread::sleep(step);
            if now() - since > most {
                pen.write(Event::Stall { since });
            }
        }
    };
    let thread = thread::Builder::new().name("soak-clock".to_owned()).spawn(watch);
    thread.map(drop).map_err(|error| error.to_string())
}

/// The exit status of a role that could not start.
pub fn status(answer: Done<u8>) -> u8 {
    answer.unwrap_or_else(|why| {
        eprintln!("{why}");
        BROKEN
    })
}
