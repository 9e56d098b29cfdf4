//! A database of a target's own, whose default isolation is not READ COMMITTED.

use std::process::ExitCode;

use jobs_testkit::harness;
use url::Url;

use super::{run_sql_at, schemas::Schemas, unique};

/// Tells a child process which database it is.
const DATABASE: &str = "JOBS_POSTGRES_TEST_DATABASE";

/// Runs the suite on one, which is made for it and removed after it.
pub fn run(schemas: Schemas, isolation: &str) -> ExitCode {
    let Ok(server) = schemas.url.clone() else { return harness::run(schemas) };
    if let Ok(database) = std::env::var(DATABASE) {
        return harness::run(Schemas { url: Ok(of(&server, &database)), ..schemas });
    }
    let database = unique("isolation");
    now(&server, &format!("CREATE DATABASE {database}"));
    let set =
        format!("ALTER DATABASE {database} SET default_transaction_isolation = '{isolation}'");
    now(&server, &set);
    let child = vec![(DATABASE.to_owned(), database.clone())];
    let done = harness::run(Schemas { url: Ok(of(&server, &database)), child, ..schemas });
    now(&server, &format!("DROP DATABASE {database} WITH (FORCE)"));
    done
}

/// The URL with another database.
pub fn of(url: &str, database: &str) -> String {
    let mut url: Url = url.parse().expect("a URL");
    url.set_path(database);
    url.into()
}

fn now(server: &str, sql: &str) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(run_sql_at(server, sql));
}
