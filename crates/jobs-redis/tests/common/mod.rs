//! What the tests of this driver share: where the servers are, and a prefix of a test's own.

#![allow(dead_code, reason = "each test takes what it needs of it")]

pub mod prefixes;
pub mod runner;

/// Of a lone server.
pub const URL: &str = "JOBS_TEST_REDIS_URL";
/// Of a cluster.
pub const CLUSTER_URL: &str = "JOBS_TEST_REDIS_CLUSTER_URL";

/// What this variable says, or what to do about it.
pub fn variable(name: &str) -> Result<String, String> {
    let why = format!("set {name} to the URL of a Redis 7.0, or run `cargo xtask test --install`");
    std::env::var(name).map_err(|_| why)
}

/// As many as it is normally, or `JOBS_TEST_TIMES` as many.
pub fn times(normal: usize) -> usize {
    let times = std::env::var("JOBS_TEST_TIMES").ok();
    normal * times.map_or(1, |times| times.parse::<usize>().expect("JOBS_TEST_TIMES is a number"))
}
