//! What the tests of this driver share: where the server is, a database of a test's own, and a runner
//! that skips visibly where there is no server.

#![allow(dead_code, reason = "each test takes what it needs of it")]

pub mod databases;
pub mod run;

/// Of the server, a replica set.
pub const URL: &str = "JOBS_TEST_MONGO_URL";

/// What this variable says, or what to do about it.
pub fn variable(name: &str) -> Result<String, String> {
    let why =
        format!("set {name} to the URL of a replica set, or run `cargo xtask test --install`");
    std::env::var(name).map_err(|_| why)
}
