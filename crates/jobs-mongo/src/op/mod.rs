//! One file for each verb, with its statements.

pub(crate) mod announce;
pub(crate) mod cancel;
pub(crate) mod check;
mod claim;
pub(crate) mod counts;
pub(crate) mod delete;
pub(crate) mod enqueue;
pub(crate) mod get;
pub(crate) mod list;
mod pick;
mod promote;
pub(crate) mod prune;
pub(crate) mod renew;
pub(crate) mod reserve;
pub(crate) mod retry;
pub(crate) mod set_lane;
pub(crate) mod settle;
mod survey;
pub(crate) mod sweep;
pub(crate) mod workers;
