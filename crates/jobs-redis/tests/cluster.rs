//! The suite on a cluster of three masters, its tenants spread over eight shards.

use std::process::ExitCode;

use jobs_testkit::harness;

mod common;

use common::{CLUSTER_URL, prefixes::Prefixes, variable};

fn main() -> ExitCode {
    harness::run(Prefixes::new("redis cluster", variable(CLUSTER_URL)))
}
