//! The suite on a database whose transactions are SERIALIZABLE unless they say otherwise.

use std::process::ExitCode;

mod common;

use common::{URL, isolation, schemas::Schemas, variable};

fn main() -> ExitCode {
    isolation::run(Schemas::direct("postgres, serializable", variable(URL)), "serializable")
}
