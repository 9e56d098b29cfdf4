//! The suite on MongoDB, with the server's defaults.

use std::process::ExitCode;

use jobs_testkit::harness;

mod common;

use common::{URL, databases::Databases, variable};

fn main() -> ExitCode {
    harness::run(Databases::new(variable(URL)))
}
