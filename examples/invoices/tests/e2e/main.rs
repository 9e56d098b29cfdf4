//! The real program, started from outside and driven by HTTP and signals, on each store.
//!
//! One binary has them all, because the package is its own dev-dependency with every store's feature:
//! so one `cargo test --workspace` is enough, and what tells the stores apart is the URL.

use std::process::ExitCode;

use jobs_testkit::harness::REQUIRE;
use libtest_mimic::{Arguments, Failed, Trial};

mod errors;
mod http;
mod mail;
mod place;
mod process;
mod requests;
mod signals;

use place::{Kind, Place};

/// A test's name, the stores it is for, and what it does.
type Test = (&'static str, &'static [Kind], fn(&Place));

/// Those with a server.
const SERVERS: &[Kind] = &[Kind::Postgres, Kind::Mongo, Kind::Redis];

const TESTS: &[Test] = &[
    // The longest first.
    ("a_server_that_does_not_run", SERVERS, errors::no_server),
    ("requests_push_and_two_workers_share", &Kind::ALL, requests::are_done_by_two_workers),
    ("a_forged_push_is_403_and_stores_nothing", &Kind::ALL, requests::forged),
    ("sigterm_drains_and_sigkill_recovers", &Kind::ALL, signals::drain_and_recover),
    ("the_demo_ends_by_itself", &[Kind::Sqlite], requests::demo),
    ("a_schema_that_is_not_migrated", SERVERS, errors::no_schema),
    ("a_url_of_no_store", &[Kind::Sqlite], errors::no_store),
    ("no_handler_for_what_waits", &[Kind::Sqlite], errors::no_handler),
];

fn main() -> ExitCode {
    let required = std::env::var_os(REQUIRE).is_some();
    for kind in Kind::ALL {
        if let Some(why) = kind.missing().filter(|_| !required) {
            eprintln!("the tests on {kind:?} are skipped: {why}");
        }
    }
    let mut trials = Vec::new();
    for &(name, kinds, test) in TESTS {
        for &kind in kinds {
            let missing = kind.missing();
            let skip = missing.is_some() && !required;
            let trial = Trial::test(format!("{kind:?}::{name}").to_lowercase(), move || {
                if let Some(why) = missing {
                    return Err(Failed::from(why));
                }
                let place = Place::new(kind);
                test(&place);
                place.remove();
                Ok(())
            });
            trials.push(trial.with_ignored_flag(skip));
        }
    }
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}
