//! The suite on a database whose transactions are REPEATABLE READ unless they say otherwise.

use std::process::ExitCode;

mod common;

use common::{URL, isolation, schemas::Schemas, variable};

fn main() -> ExitCode {
    isolation::run(Schemas::direct("postgres, repeatable read", variable(URL)), "repeatable read")
}
