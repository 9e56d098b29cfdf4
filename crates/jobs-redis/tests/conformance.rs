//! The suite on a lone Redis.

use std::process::ExitCode;

use jobs_testkit::harness;

mod common;

use common::{URL, prefixes::Prefixes, variable};

fn main() -> ExitCode {
    harness::run(Prefixes::new("redis", variable(URL)))
}
