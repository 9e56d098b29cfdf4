//! Runs tests that need a server, each on a runtime of its own; where there is none they are skipped,
//! and said to be.

use std::{future::Future, pin::Pin, process::ExitCode};

use jobs_testkit::harness::REQUIRE;
use libtest_mimic::{Arguments, Failed, Trial};

/// A name and what it does.
pub type Test = (&'static str, fn() -> Pin<Box<dyn Future<Output = ()>>>);

/// The `main` of such tests; `missing` is why there is no server.
pub fn run(tests: &[Test], missing: Option<String>) -> ExitCode {
    let required = std::env::var_os(REQUIRE).is_some();
    if let Some(why) = missing.as_ref().filter(|_| !required) {
        eprintln!("{} tests are skipped: {why}", tests.len());
    }
    let trials = tests.iter().map(|(name, test)| {
        let (missing, skip) = (missing.clone(), missing.is_some() && !required);
        let test = *test;
        let trial = Trial::test(*name, move || {
            if let Some(why) = missing {
                return Err(Failed::from(why));
            }
            let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
            runtime.map_err(|error| Failed::from(error.to_string()))?.block_on(test());
            Ok(())
        });
        trial.with_ignored_flag(skip)
    });
    libtest_mimic::run(&Arguments::from_args(), trials.collect()).exit_code()
}
