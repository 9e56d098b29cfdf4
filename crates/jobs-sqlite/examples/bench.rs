//! One workload on SQLite, once. `cargo xtask bench sqlite` runs them all.

use std::process::ExitCode;

mod store;

fn main() -> ExitCode {
    jobs_testkit::bench::main(store::Files)
}
