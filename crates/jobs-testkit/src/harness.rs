//! Runs every case on a store, as tests of `cargo test`.

use std::{process::ExitCode, sync::Arc, time::Duration};

use libtest_mimic::{Arguments, Failed, Trial};

use crate::{
    cases::{self, Case, worker_process},
    fixture::Fixture,
    kit::Kit,
};

/// Set by `cargo xtask test`: a store that is not there fails instead of being skipped.
pub const REQUIRE: &str = "JOBS_TEST_REQUIRE";
/// Set for a process that a case starts: `scenario,namespace`.
pub(crate) const CHILD: &str = "JOBS_TESTKIT_CHILD";
/// No case takes longer, or it hangs.
const DEADLINE: Duration = Duration::from_secs(300);

/// The `main` of a driver's conformance test.
pub fn run(fixture: impl Fixture) -> ExitCode {
    if let Ok(child) = std::env::var(CHILD) {
        return run_child(&fixture, &child);
    }
    let arguments = Arguments::from_args();
    let fixture: Arc<dyn Fixture> = Arc::new(fixture);
    let missing = fixture.unavailable();
    let required = std::env::var_os(REQUIRE).is_some();
    let exists = |case: &&Case| !case.crosses_processes || fixture.crosses_processes();
    let trials = cases::all().filter(exists).map(|case| {
        let (fixture, missing) = (fixture.clone(), missing.clone());
        let skip = missing.is_some() && !required;
        let trial = Trial::test(case.name, move || match missing {
            Some(why) => Err(Failed::from(why)),
            None => run_case(fixture, case),
        });
        trial.with_ignored_flag(skip)
    });
    let trials: Vec<_> = trials.collect();
    if let (Some(why), false) = (&missing, required) {
        eprintln!("{} is not here, its {} cases are skipped: {why}", fixture.name(), trials.len());
    }
    assert!(!trials.is_empty(), "a suite without cases proves nothing");
    libtest_mimic::run(&arguments, trials).exit_code()
}

/// This program as a worker that a case started.
fn run_child(fixture: &dyn Fixture, child: &str) -> ExitCode {
    let (scenario, namespace) = child.split_once(',').expect("scenario,namespace");
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(2).enable_all().build().expect("a runtime");
    ExitCode::from(runtime.block_on(worker_process::child(fixture, scenario, namespace)))
}

/// Runs one case on a runtime of its own, so that whatever it leaves behind ends with it.
pub fn run_case(fixture: Arc<dyn Fixture>, case: &'static Case) -> Result<(), Failed> {
    let kit = Kit::new(fixture, case.name);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(|error| Failed::from(error.to_string()))?;
    let outcome = runtime.block_on(async {
        let done = tokio::time::timeout(DEADLINE, (case.run)(&kit));
        done.await.map_err(|_| Failed::from(format!("not done after {DEADLINE:?}")))
    });
    outcome?;
    runtime.block_on(kit.fixture.remove(&kit.namespace));
    Ok(())
}
