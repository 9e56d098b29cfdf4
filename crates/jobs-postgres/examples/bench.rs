//! One workload on PostgreSQL, once. `cargo xtask bench postgres` runs them all.

use std::process::ExitCode;

mod store;

fn main() -> ExitCode {
    jobs_testkit::bench::main(store::Schema)
}
