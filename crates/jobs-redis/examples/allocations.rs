//! The benchmark that counts allocations, a program of its own because counting slows the others.

use std::{alloc::System, process::ExitCode};

use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

mod store;

#[global_allocator]
static COUNTED: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

fn counted() -> u64 {
    let stats = COUNTED.stats();
    (stats.allocations + stats.reallocations) as u64
}

fn main() -> ExitCode {
    jobs_testkit::bench::main_counting(store::Database, counted)
}
