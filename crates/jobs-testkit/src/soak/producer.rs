//! The role of a producer process: one keeps a noisy tenant's backlog, one pushes what several small
//! tenants would. A push without an answer is repeated with the same id until there is one.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use fastrand::Rng;
use jobs_core::{Admin, Job, Payload, PushError, QueueExt, queue::Pushed, view::Lanes};
use tokio::{runtime::Builder, time::sleep};

use super::{
    Done, Soak, Trouble,
    ledger::{Answer, Event, Pen, now},
    left::{self, Open},
    opened,
    process::{Orders, leash},
    strict::Strict,
};
use crate::kit;

/// The tenant with the backlog.
pub const NOISY: &str = "noisy";
/// The small ones.
pub const SMALL: [&str; 4] = ["s0", "s1", "s2", "s3"];
/// How long its backlog is kept.
const BACKLOG: u64 = 500;
/// Keys of a tenant: few, so that they collide.
const KEYS: usize = 40;
/// Deliveries of a job before it is parked: faults spend some.
const ATTEMPTS: u32 = 12;

/// The names that the small tenants push, with how often.
const MIX: [(&str, u32); 7] = [
    ("quick", 38),
    ("steady", 24),
    ("fails", 12),
    ("flaky", 10),
    ("snoozes", 8),
    ("panics", 5),
    ("long", 3),
];

/// Pushes until it is told to finish; answers its exit status.
///
/// # Errors
/// What kept it from starting.
pub fn run(soak: &dyn Soak, orders: &Orders) -> Done<u8> {
    let finish = Arc::new(AtomicBool::new(false));
    let told = finish.clone();
    leash(move || told.store(true, Ordering::Relaxed))?;
    let pen = Arc::new(Pen::open(&orders.directory, &orders.label)?);
    left::listen()?;
    let before = Open::now();
    let runtime = Builder::new_current_thread().enable_all().build().map_err(|e| e.to_string())?;
    let ended = runtime.block_on(async {
        let mut random = Rng::with_seed(orders.seed);
        let mut recent: Vec<Job> = Vec::new();
        while !finish.load(Ordering::Relaxed) {
            // A new connection now and then, most of which break.
            let cut = soak.faults().cut.then(|| random.usize(2..60));
            let trouble = match random.bool() {
                true => Trouble { cut_after: cut, ..Trouble::default() },
                // Not so often that a push of many never comes through.
                false => Trouble { cut_every: cut.map(|cut| 60 + cut), ..Trouble::default() },
            };
            let store = Strict::new(opened(soak, &orders.url, trouble).await?, pen.clone());
            pen.write(Event::Up { cut, clock: 0 });
            for _ in 0..200 {
                if finish.load(Ordering::Relaxed) {
                    break;
                }
                if orders.label.starts_with(NOISY) {
                    keep_backlog(&store, &pen, &mut random).await?;
                } else {
                    push_small(&store, &pen, &mut random, &mut recent).await?;
                }
            }
        }
        Done::Ok(0)
    })?;
    drop(runtime);
    pen.write(Event::Closed { left: before.left() });
    Ok(ended)
}

/// One look at the backlog, and what it lacks.
async fn keep_backlog(store: &dyn Admin, pen: &Pen, random: &mut Rng) -> Done {
    sleep(Duration::from_millis(150)).await;
    if waiting(store, "main", NOISY).await.is_none_or(|waiting| waiting >= BACKLOG) {
        return Ok(());
    }
    let mut jobs = Vec::new();
    for _ in 0..random.usize(20..80) {
        let name = if random.u8(0..10) == 0 { "quick" } else { "steady" };
        let job = job(NOISY, name, "main")?;
        // Its own priorities are no one else's business.
        jobs.push(job.priority(random.i16(0..=100)));
    }
    push(store, pen, jobs).await
}

/// How many jobs of a lane wait, if the store says.
pub async fn waiting(store: &dyn Admin, queue: &str, tenant: &str) -> Option<u64> {
    let lanes = Lanes { queue: Some(queue.to_owned()), tenant: Some(tenant.to_owned()) };
    let counts = store.counts(&kit::permit(tenant), &lanes).await.ok()?;
    Some(counts.lanes.iter().map(|lane| lane.waiting.number).sum())
}

async fn push_small(store: &dyn Admin, pen: &Pen, random: &mut Rng, recent: &mut Vec<Job>) -> Done {
    sleep(Duration::from_millis(random.u64(15..60))).await;
    let tenant = SMALL[random.usize(0..SMALL.len())];
    let number = if random.u8(0..12) == 0 { random.usize(3..15) } else { 1 };
    let mut jobs = Vec::new();
    for _ in 0..number {
        jobs.push(small(tenant, random)?);
    }
    // Somebody who did not hear the answer pushes again, much later.
    if !recent.is_empty() && random.u8(0..20) == 0 {
        let again = recent.swap_remove(random.usize(0..recent.len()));
        push(store, pen, vec![again]).await?;
    }
    recent.extend(jobs.iter().take(1).cloned());
    if recent.len() > 200 {
        recent.remove(0);
    }
    push(store, pen, jobs).await
}

fn small(tenant: &str, random: &mut Rng) -> Done<Job> {
    let mut ticket = random.u32(0..MIX.iter().map(|(_, often)| often).sum());
    let drawn = MIX.iter().find(|(_, often)| {
        let here = ticket < *often;
        ticket = ticket.saturating_sub(*often);
        here
    });
    let name = drawn.map_or("quick", |(name, _)| *name);
    let queue = if random.u8(0..10) < 6 { "main" } else { "side" };
    let mut job = job(tenant, name, queue)?.priority(random.i16(-5..=5));
    if random.u8(0..100) < 15 {
        job = job.after(Duration::from_millis(random.u64(100..3000)));
    }
    let key = format!("k{}", random.usize(0..KEYS));
    Ok(match random.u8(0..10) {
        0..3 => job.key(key),
        3..5 => job.key_until_started(key),
        _ => job,
    })
}

/// A job of the run.
///
/// # Errors
/// It is out of bounds.
pub fn job(tenant: &str, name: &str, queue: &str) -> Done<Job> {
    let mut job = Job::new(&kit::grant(tenant), name, &()).map_err(|e| e.to_string())?;
    // What its handler is given says whose it is.
    job.payload = Payload::encode(&job.id).map_err(|e| e.to_string())?;
    Ok(job.on(queue).max_attempts(if name == "fails" { 2 } else { ATTEMPTS }))
}

/// Pushes jobs of one tenant until each is answered.
///
/// # Errors
/// The driver answers fewer than it was asked.
pub async fn push(store: &dyn Admin, pen: &Pen, mut jobs: Vec<Job>) -> Done {
    let sent = now();
    while let Some(tenant) = jobs.first().map(|job| job.tenant.clone()) {
        let answers = store.push_many(&kit::grant(&tenant), jobs.clone()).await;
        if answers.len() != jobs.len() {
            return Err(format!("{} answers to {} pushes", answers.len(), jobs.len()));
        }
        let (mut lines, mut again) = (Vec::new(), Vec::new());
        for (job, answer) in jobs.into_iter().zip(answers) {
            let answer = match answer {
                Ok(Pushed::Stored) => Answer::Stored,
                Ok(Pushed::Duplicate(state)) => Answer::Duplicate(state),
                Ok(Pushed::KeyHeld(id, state)) => Answer::KeyHeld(id, state),
                Err(PushError::Store(error)) if error.is_transient() => {
                    lines.push(Event::Unknown { job: job.job_ref(), error: error.to_string() });
                    again.push(job);
                    continue;
                }
                Err(error) => Answer::Refused(error.to_string()),
            };
            let (queue, name, key) = (job.queue.clone(), job.name.clone(), job.key.clone());
            lines.push(Event::Pushed { job: job.job_ref(), queue, name, key, sent, answer });
        }
        pen.write_all(lines);
        jobs = again;
        if !jobs.is_empty() {
            sleep(Duration::from_millis(100)).await;
        }
    }
    Ok(())
}
