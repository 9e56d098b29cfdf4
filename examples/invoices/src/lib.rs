//! An application that issues invoices for several tenants, and does the slow part after the
//! response: it mails them, adds up a month, and imports customers' files.
//!
//! | to know | open |
//! |---|---|
//! | who may do what, in which tenant | `src/policy.rs` |
//! | which jobs there are | `src/jobs.rs` |
//! | how a request pushes one, next to its row | `src/routes.rs`, `src/data.rs` |
//! | how a job is run, and what its authority reaches | `src/worker.rs` |
//! | what differs from store to store | `src/store`, one file each |
//! | spans, metrics, timelines | `src/telemetry.rs` |
//!
//! `src/main.rs` is the program: `serve`, `worker`, `jobs …` and `demo`.

pub mod data;
pub mod demo;
pub mod jobs;
pub mod mailer;
pub mod policy;
pub mod routes;
pub mod serve;
pub mod store;
pub mod telemetry;
pub mod worker;

/// Any error, for whoever reads it.
pub type AnyError = Box<dyn std::error::Error + Send + Sync>;
