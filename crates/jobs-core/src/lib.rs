//! Multi-tenant background jobs: the contract that every store keeps, and the worker that runs on it.
//!
//! An application pushes jobs under a [`Grant`] and runs handlers with a [`worker`].
//! Storage is behind two traits, [`Queue`] and [`Admin`]; a driver crate implements both.
//! Delivery is at least once; within a lease, a job has one holder.
//!
//! | to know | open |
//! |---|---|
//! | who may push what | [`grant`], [`authorized`](mod@authorized) |
//! | what a job is | [`job`], [`payload`], [`names`] |
//! | which states there are and who moves between them | [`state`] |
//! | what a driver promises to producers and workers | [`queue`] |
//! | what a driver promises to operators | [`admin`] |
//! | what a stale worker is refused by | [`claim`] |
//! | how a run ends | [`outcome`] |
//! | how jobs are run | [`handler`], [`context`], [`worker`] |
//! | how jobs get from an outbox into another store | [`relay`] |
//! | why jobs are not running | [`doctor`] |
//! | what operators are told | [`view`], as JSON [`json`], in words [`words`] |
//!
//! The laws are written as bullets that end with the name of the case that proves them; the case
//! of that name is in the testkit's suite and runs on every driver.

pub mod admin;
pub mod authorized;
pub mod claim;
pub mod context;
pub mod doctor;
pub mod driver;
pub mod error;
pub mod ext;
pub mod grant;
pub mod handler;
pub mod job;
pub mod json;
pub mod names;
pub mod outcome;
pub mod payload;
pub mod permit;
pub mod queue;
pub mod relay;
pub mod reserve;
pub mod retention;
pub mod retry;
pub mod share;
pub mod state;
pub mod time;
pub mod view;
pub mod wake;
pub mod words;
pub mod worker;

pub use admin::Admin;
pub use authorized::{AuthorizedJob, Refusal, authorized};
pub use claim::{Claim, Nonce};
pub use context::Context;
pub use error::{Error, ErrorKind, Result};
pub use ext::{AdminError, AdminExt, PushError, QueueExt};
pub use grant::{Denied, Forbidden, Grant, Policy, Scope, grant_without_user};
pub use handler::{Failure, Handler};
pub use job::{Job, JobId, JobRef, JobType, Key, KeyScope, RunAt, Timeout};
pub use outcome::{Cause, Outcome, OutcomeKind, Settled, Settlement};
pub use payload::Payload;
pub use permit::Permit;
pub use queue::{Pushed, Queue};
pub use state::State;
pub use worker::{Ended, StartError, Worker};

pub use async_trait::async_trait;
pub use jiff::Timestamp;
