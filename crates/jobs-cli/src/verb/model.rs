//! A session on the in-memory store, for tests of what a process cannot be made to meet.

use jobs_core::{
    Admin, Policy,
    permit::{Read, Verb},
};
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
pub(crate) async fn operator() -> Session<Handle> {
    on(Model::alone()).await
}

/// An operator's.
pub(crate) async fn on<A: Admin>(store: A) -> Session<A> {
    let grants: Box<Grants> = Box::new(|action, _| {
        Box::pin(async move { Ok(Open.authorize_operator("ops", action).await?) })
    });
    let scope = ScopeArgs { tenant: None, operator: true };
    let access =
        Access::new(scope, Some(grants), Read::ACTION).await.expect("a scope and a function");
    Session { store, access, out: Out { json: true } }
}
