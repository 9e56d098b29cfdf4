//! A session on the in-memory store, for tests of what a process cannot be made to meet.

use jobs_core::{Admin, Policy};
use jobs_testkit::{
    kit::Open,
    model::{Handle, Model},
};

use super::Session;
use crate::{
    access::{Access, Grants},
    command::ScopeArgs,
    out::Out,
};

/// An operator's, on a store of its own.
pub(crate) fn operator() -> Session<Handle> {
    on(Model::alone())
}

/// An operator's.
pub(crate) fn on<A: Admin>(store: A) -> Session<A> {
    let grants: Box<Grants> = Box::new(|action, _| {
        Box::pin(async move { Ok(Open.authorize_operator("ops", action).await?) })
    });
    let scope = ScopeArgs { tenant: None, operator: true };
    let access = Access::new(scope, Some(grants)).expect("a scope and a function");
    Session { store, access, out: Out { json: true } }
}
