//! The page as an application mounts it, on each store.

use std::{future::Future, pin::Pin, process::ExitCode};

use jobs_testkit::harness::REQUIRE;
use libtest_mimic::{Arguments, Failed, Trial};

mod app;
mod browser;
mod hostile;
mod list;
mod pages;
mod place;
mod seen;
mod walk;

use place::{Kind, Place};

/// A test's name, and what it does on a store.
type Test = (&'static str, Run);
type Run = for<'a> fn(&'a Place) -> Running<'a>;
type Running<'a> = Pin<Box<dyn Future<Output = ()> + 'a>>;

/// Names tests after their functions.
#[macro_export]
macro_rules! tests {
    ($($test:ident),* $(,)?) => {
        pub const TESTS: &[$crate::Test] =
            &[$((stringify!($test), |place| Box::pin($test(place)))),*];
    };
}

fn main() -> ExitCode {
    let required = std::env::var_os(REQUIRE).is_some();
    let mut trials = Vec::new();
    for kind in Kind::ALL {
        let missing = kind.missing();
        if let (Some(why), false) = (&missing, required) {
            eprintln!("{kind:?} is not here, its tests are skipped: {why}");
        }
        for (name, test) in [walk::TESTS, list::TESTS, pages::TESTS, hostile::TESTS].concat() {
            let name = format!("{kind:?}::{name}").to_lowercase();
            trials.push(trial(name, kind, test, missing.clone(), required));
        }
    }
    // Stores answer alike; a browser is slow.
    let missing = browser::missing();
    if let (Some(why), false) = (&missing, required) {
        eprintln!("no browser is here, its tests are skipped: {why}");
    }
    for (name, test) in seen::TESTS {
        trials.push(trial(
            format!("browser::{name}"),
            Kind::Sqlite,
            *test,
            missing.clone(),
            required,
        ));
    }
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

fn trial(name: String, kind: Kind, test: Run, missing: Option<String>, required: bool) -> Trial {
    let skips = missing.is_some() && !required;
    let trial = Trial::test(name, move || {
        if let Some(why) = missing {
            return Err(Failed::from(why));
        }
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
        let runtime = runtime.map_err(|error| Failed::from(error.to_string()))?;
        let place = Place::new(kind);
        runtime.block_on(test(&place));
        place.remove();
        Ok(())
    });
    trial.with_ignored_flag(skips)
}
