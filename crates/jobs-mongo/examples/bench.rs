//! One workload on MongoDB, once. `cargo xtask bench mongo` runs them all.

use std::process::ExitCode;

mod store;

fn main() -> ExitCode {
    jobs_testkit::bench::main(store::Database)
}
