//! One workload on Redis, once. `cargo xtask bench redis` runs them all.

use std::process::ExitCode;

mod store;

fn main() -> ExitCode {
    jobs_testkit::bench::main(store::Database)
}
