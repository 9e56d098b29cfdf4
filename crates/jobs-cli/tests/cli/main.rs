//! Every command, typed as a user types it, as a process of its own, on each store.

use std::{future::Future, pin::Pin, process::ExitCode};

use jobs_testkit::harness::REQUIRE;
use libtest_mimic::{Arguments, Failed, Trial};

mod app;
mod doctor;
mod errors;
mod hostile;
mod lanes;
mod look;
mod many;
mod place;
mod readme;
mod worker;

use place::{Kind, Place, URL};

/// A test's name, the stores it is for, and what it does.
type Test = (&'static str, &'static [Kind], for<'a> fn(&'a Place) -> Running<'a>);
type Running<'a> = Pin<Box<dyn Future<Output = ()> + 'a>>;

const ALL: &[Kind] = &[Kind::Sqlite, Kind::Postgres];

/// Names tests after their functions.
#[macro_export]
macro_rules! tests {
    ($kinds:expr; $($test:ident),* $(,)?) => {
        pub const TESTS: &[$crate::Test] =
            &[$((stringify!($test), $kinds, |place| Box::pin($test(place)))),*];
    };
}

fn main() -> ExitCode {
    if std::env::var_os(app::STORE).is_some() {
        app::main();
    }
    let missing = std::env::var_os(URL).is_none();
    let skips = missing && std::env::var_os(REQUIRE).is_none();
    if skips {
        eprintln!(
            "no PostgreSQL, its tests are skipped: set {URL}, or `cargo xtask test --install`"
        );
    }
    let all = [
        look::TESTS,
        many::TESTS,
        lanes::TESTS,
        doctor::TESTS,
        hostile::TESTS,
        errors::TESTS,
        worker::TESTS,
        readme::TESTS,
    ];
    let mut trials = Vec::new();
    for (name, kinds, test) in all.concat() {
        for kind in kinds {
            let trial = Trial::test(format!("{kind:?}::{name}").to_lowercase(), move || {
                if *kind == Kind::Postgres && missing {
                    return Err(Failed::from(format!("{URL} is not set")));
                }
                let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
                let runtime = runtime.map_err(|error| Failed::from(error.to_string()))?;
                let place = Place::new(*kind);
                runtime.block_on(test(&place));
                runtime.block_on(place.remove());
                Ok(())
            });
            trials.push(trial.with_ignored_flag(*kind == Kind::Postgres && skips));
        }
    }
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}
