//! The in-memory model passes the suite.

use std::process::ExitCode;

fn main() -> ExitCode {
    jobs_testkit::harness::run(jobs_testkit::model::Model::default())
}
