//! One file per verb, its statements beside it.

pub(crate) mod announce;
pub(crate) mod cancel;
pub(crate) mod check;
pub(crate) mod counts;
pub(crate) mod delete;
pub(crate) mod enqueue;
mod enqueue_body;
pub(crate) mod get;
pub(crate) mod list;
pub(crate) mod renew;
pub(crate) mod reserve;
pub(crate) mod retry;
mod round;
pub(crate) mod set_lane;
pub(crate) mod settle;
pub(crate) mod sweep;
pub(crate) mod workers;
