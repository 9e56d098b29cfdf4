//! Workloads that measure a store, the same for every driver.
//!
//! A driver opts in with an example whose `main` hands a [`Bench`] to [`main`]. One run of that
//! program is one workload, once, on a store without jobs, and prints one JSON line:
//!
//! ```text
//! bench --url URL --mode drain [--jobs N] [--concurrency C] [--payload BYTES] [--tenants T] …
//! ```
//!
//! The first arguments and the fields of the line are those of other programs that measure queues
//! on the same work, so that `cargo xtask bench <store> --beside <program>` can alternate the two.
//! What a run promises, it checks: a job that runs twice or is left in the store is an error, not
//! a figure.
//!
//! | workload | file |
//! |---|---|
//! | pushes one by one, and in bulk | `push.rs` |
//! | a full queue, worked until it is empty | `drain.rs` |
//! | how soon an idle worker starts a job, in this process and in another | `latency.rs`, `across.rs` |
//! | a reserve by the depth of the queue | `reserve.rs` |
//! | what a worker without work costs | `idle.rs` |
//! | allocations per job | `allocations.rs` |
//!
//! `work.rs` has the jobs and the worker, `args.rs` the arguments, `figures.rs` medians.

mod across;
mod allocations;
mod args;
mod drain;
mod figures;
mod idle;
mod latency;
mod push;
mod reserve;
mod work;

use std::{error, process::ExitCode, result, sync::Arc, time::Duration};

use async_trait::async_trait;
use clap::Parser;
use jobs_core::Admin;
use serde_json::{Value, json};

pub use args::{Args, Mode};

/// A run can fail with anything.
pub type Result<T, E = Box<dyn error::Error + Send + Sync>> = result::Result<T, E>;

/// Allocations of this process so far.
pub type Counter = fn() -> u64;

/// A store that can be measured.
#[async_trait]
pub trait Bench: Send + Sync + 'static {
    /// The store's name.
    fn name(&self) -> &'static str;

    /// What a commit can survive, by name; the default comes first.
    fn durabilities(&self) -> &'static [&'static str];

    /// A handle on the store at `url`, which it creates, with one of those durabilities. Called
    /// twice with one URL, also from two processes, it gives two handles on one store.
    async fn open(&self, url: &str, durability: &str) -> jobs_core::Result<Arc<dyn Admin>>;
}

/// What a workload found.
pub(crate) struct Found {
    /// How many jobs it was about.
    jobs: usize,
    /// How long they took.
    took: Duration,
    /// Fields of its own.
    more: Value,
}

/// The `main` of a driver's benchmark.
pub fn main(store: impl Bench) -> ExitCode {
    start(&store, None)
}

/// The `main` of a program that counts its allocations, and is the slower for it.
pub fn main_counting(store: impl Bench, counter: Counter) -> ExitCode {
    start(&store, Some(counter))
}

fn start(store: &dyn Bench, counter: Option<Counter>) -> ExitCode {
    let args = Args::parse();
    let done = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(Into::into)
        .and_then(|runtime| match args.mode {
            Mode::Work => runtime.block_on(across::child(store, &args)).map(|()| None),
            _ => runtime.block_on(run(store, &args, counter)).map(Some),
        });
    match done {
        Ok(line) => {
            line.iter().for_each(|line| println!("{line}"));
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{}: {error}", args.mode);
            ExitCode::FAILURE
        }
    }
}

/// Runs one workload once and answers its line.
///
/// # Errors
/// When the store fails, holds jobs before the run, or after it not what it must.
pub async fn run(store: &dyn Bench, args: &Args, counter: Option<Counter>) -> Result<Value> {
    let durability = args.durability(store)?;
    let opened = store.open(&args.url, durability).await?;
    if work::left(&*opened).await? + work::history(&*opened).await? > 0 {
        return Err(format!("the store at {} has jobs: name one without", args.url).into());
    }
    let found = match args.mode {
        Mode::PushOne => push::one_by_one(opened, args).await,
        Mode::PushBulk => push::in_bulk(&*opened, args).await,
        Mode::Drain => drain::run(opened, args).await,
        Mode::Latency => latency::run(opened, args).await,
        Mode::LatencyAcross => across::run(&*opened, args).await,
        Mode::Reserve => reserve::run(&*opened, args).await,
        Mode::Idle => idle::run(opened, args).await,
        Mode::Allocations => allocations::run(opened, args, counter).await,
        Mode::Work => Err("this mode is for a process that a run starts".into()),
    }?;
    Ok(line(store.name(), durability, args, found))
}

fn line(store: &str, durability: &str, args: &Args, found: Found) -> Value {
    let seconds = found.took.as_secs_f64();
    let mut line = json!({
        "peer": format!("jobs-{store}"),
        "durability": durability,
        "mode": args.mode.to_string(),
        "jobs": found.jobs,
        "concurrency": args.concurrency,
        "payload": args.payload,
        "tenants": args.tenants,
        "names": args.names,
        "handler_ms": args.handler_ms,
        "seconds": figures::rounded(seconds, 4),
    });
    // The others are not about how many jobs come through.
    if !matches!(args.mode, Mode::Reserve | Mode::Idle | Mode::Allocations) {
        line["jobs_per_s"] = figures::rounded(found.jobs as f64 / seconds, 0).into();
    }
    if let (Value::Object(line), Value::Object(more)) = (&mut line, found.more) {
        line.extend(more);
    }
    line
}
