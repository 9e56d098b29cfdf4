//! The suite on PostgreSQL, straight, with the server's defaults.

use std::process::ExitCode;

use jobs_testkit::harness;

mod common;

use common::{URL, schemas::Schemas, variable};

fn main() -> ExitCode {
    harness::run(Schemas::direct("postgres", variable(URL)))
}
