//! Why are jobs not running? [`Facts`] are what the store tells, [`find`] finds reasons in them, and
//! [`why`] those of one job. Each is told in words, with what to do.

mod facts;
mod job;
mod reasons;

pub use facts::{Facts, Sum};
pub use job::why;
pub use reasons::{NOTE, PROBLEM, find};
