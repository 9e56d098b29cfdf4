//! The suite through pgbouncer in transaction mode, on a database whose transactions are REPEATABLE READ
//! unless they say otherwise. It listens on a connection of its own past the pooler.

use std::process::ExitCode;

use jobs_postgres::{Mode, Options};
use sqlx::postgres::PgConnectOptions;
use url::Url;

mod common;

use common::{POOLED_URL, URL, isolation, schemas::Schemas, variable};

/// Through the pooler to the database that `past` names past it.
fn through(past: &str) -> String {
    let past: Url = past.parse().expect("a URL");
    let pooled = variable(POOLED_URL).expect("the suite runs only where there is one");
    isolation::of(&pooled, past.path())
}

fn options(past: &str) -> Options {
    let options = Options::new(&through(past)).expect("a URL").mode(Mode::Pooled);
    options.listen_on(past).expect("a URL")
}

/// As an application behind such a pooler connects.
fn caller(past: &str) -> PgConnectOptions {
    let options: PgConnectOptions = through(past).parse().expect("a URL");
    options.extra_float_digits(None)
}

fn main() -> ExitCode {
    let url = variable(POOLED_URL).and(variable(URL));
    let direct = Schemas::direct("postgres, pooled", url);
    isolation::run(Schemas { options, caller, ..direct }, "repeatable read")
}
