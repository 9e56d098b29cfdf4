//! `migrate`: the application's own way to bring the schema to this release's version.

use std::{future::Future, pin::Pin};

use crate::{
    json,
    out::Out,
    stop::{AnyError, Stop, advised},
};

/// The application's function.
pub(crate) type Migrate<A> =
    Box<dyn FnOnce(A) -> Pin<Box<dyn Future<Output = Result<(), AnyError>>>>>;

pub(crate) const NO_MIGRATE: &str = "\
this program does not say how its store is migrated, which differs from store to store.
Give jobs-cli the function that does it, or say that opening the store does, as SQLite's does:

    Jobs::on(open).migrate(async |store: Postgres| store.migrate().await)
    Jobs::on(open).migrated_by_opening()";

pub(crate) async fn run<A>(store: A, migrate: Migrate<A>, out: Out) -> Result<u8, Stop> {
    let done = migrate(store).await;
    done.map_err(|error| Stop::failed(format!("the store is not migrated: {}", advised(&error))))?;
    match out.json {
        true => out.object(&json::Migrated { migrated: true })?,
        false => out.say("The store is migrated.")?,
    }
    Ok(0)
}
