//! The arguments of one run.

use std::{fmt, time::Duration};

use clap::{Parser, ValueEnum};

use super::{Bench, Result};

/// Runs one workload once, on a store without jobs, and prints one JSON line.
#[derive(Clone, Debug, Parser)]
pub struct Args {
    /// Where the store is; it must hold no jobs.
    #[arg(long)]
    pub url: String,
    /// The workload.
    #[arg(long)]
    pub mode: Mode,
    /// How many jobs.
    #[arg(long, default_value_t = 20_000)]
    pub jobs: usize,
    /// How many producers, or slots of the worker.
    #[arg(long, default_value_t = 10)]
    pub concurrency: usize,
    /// About how many bytes a payload has.
    #[arg(long, default_value_t = 100)]
    pub payload: usize,
    /// Over how many tenants the jobs are spread.
    #[arg(long, default_value_t = 1)]
    pub tenants: usize,
    /// Over how many job names.
    #[arg(long, default_value_t = 1)]
    pub names: usize,
    /// How long a handler sleeps.
    #[arg(long, default_value_t = 0)]
    pub handler_ms: u64,
    /// What a commit survives, by the store's own word; its default unless given.
    #[arg(long)]
    pub durability: Option<String>,
    /// How long an idle worker is watched.
    #[arg(long, default_value_t = 10)]
    pub seconds: u64,
    /// After so many seconds without progress a run has failed.
    #[arg(long, default_value_t = 30)]
    pub patience: u64,
}

/// A workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Mode {
    /// Producers that push one job after the other.
    PushOne,
    /// Batches of 1000, one after the other.
    PushBulk,
    /// A worker on a full queue, until it is empty.
    Drain,
    /// How soon an idle worker starts a job that its own process pushed.
    Latency,
    /// The same, pushed by another process.
    LatencyAcross,
    /// What a reserve costs with so many jobs waiting.
    Reserve,
    /// What a worker without work costs.
    Idle,
    /// How often a push and a run allocate.
    Allocations,
    /// The worker of `latency-across`.
    #[value(hide = true)]
    Work,
}

impl Args {
    /// The durability asked for, if the store has it.
    pub(super) fn durability(&self, store: &dyn Bench) -> Result<&'static str> {
        let known = store.durabilities();
        let wanted =
            |name: &&&str| self.durability.as_deref().is_none_or(|wanted| wanted == **name);
        let found = known.iter().find(wanted).copied();
        found.ok_or_else(|| format!("--durability is one of {}", known.join(", ")).into())
    }

    /// How long nothing may happen.
    pub(super) fn patience(&self) -> Duration {
        Duration::from_secs(self.patience)
    }
}

/// As it is written on the command line.
impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = self.to_possible_value();
        f.write_str(value.as_ref().map_or("", |value| value.get_name()))
    }
}
