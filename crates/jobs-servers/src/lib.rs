//! Private database servers, and a browser's driver, for tests: found on this machine or installed, started on a free
//! loopback port with their data in a fresh folder, killed and started again, stopped.
//!
//! A server ends with the process that started it, however that ends, and its data with it: see
//! [`leash`]. Nothing that runs already is touched.
//!
//! ```no_run
//! use jobs_servers::PrivatePostgres;
//!
//! # fn main() -> Result<(), String> {
//! let mut server = PrivatePostgres::start()?;
//! println!("{}", server.url());
//! server.kill()?; // SIGKILL, until the last of its processes has gone
//! server.start_again()?; // same port, same data
//! # Ok(())
//! # }
//! ```
//!
//! Errors are sentences for whoever runs the tests. Calls block for as long as a server takes to
//! start or stop, seconds; a test on an async runtime makes them where blocking is allowed.
//!
//! | to know | open |
//! |---|---|
//! | how a server is started, and known to be ready | `process.rs` |
//! | how it ends with whoever started it | `leash.rs` |
//! | how one is found, as whom it runs, how one is installed | `machine.rs`, `install.rs` |
//! | one kind of server | `postgres.rs`, `pgbouncer.rs`, `mongo.rs`, `redis.rs`, `browser.rs` |

mod browser;
mod install;
pub mod leash;
mod machine;
mod mongo;
mod pgbouncer;
mod postgres;
mod process;
mod redis;

pub use browser::{BROWSER_PACKAGES, PrivateBrowser, npm_package};
pub use install::install;
pub use mongo::{PrivateMongo, drop_database};
pub use pgbouncer::PrivatePgbouncer;
pub use postgres::{PrivatePostgres, psql};
pub use redis::{PrivateRedis, PrivateRedisCluster, REDIS_PACKAGES, remove_keys};

/// The error is a sentence.
pub type Result<T = (), E = String> = std::result::Result<T, E>;
