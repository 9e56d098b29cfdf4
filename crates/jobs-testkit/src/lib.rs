//! The conformance suite of job stores, their in-memory model, and help for applications' tests.
//!
//! A driver opts in with a [`Fixture`](fixture::Fixture) and a `main` that calls
//! [`harness::run`]; it cannot leave a case out.

pub mod app;
pub mod bench;
pub mod broken;
pub mod cases;
pub mod fixture;
pub mod harness;
pub mod history;
pub mod invariants;
pub mod kit;
pub mod model;
pub mod ops;
pub mod proxy;
pub mod soak;
