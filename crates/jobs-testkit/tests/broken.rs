//! The suite is itself tested: the model with one promise removed fails the case that its law
//! names, and the sound model passes it.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    process::ExitCode,
    sync::Arc,
};

use jobs_testkit::{
    broken::Fault,
    cases::{self, Case},
    harness::run_case,
    history::{generate, play},
    model::Model,
};
use libtest_mimic::{Arguments, Failed, Trial};

fn main() -> ExitCode {
    // Hundreds of failures are expected here; those that are not arrive as their trial's message.
    std::panic::set_hook(Box::new(|_| {}));
    let named = Fault::ALL.iter().map(|&fault| {
        Trial::test(format!("{fault:?} fails {}", fault.case()), move || is_caught(fault))
    });
    let histories = Trial::test("histories catch faults", histories_catch_faults);
    let trials = named.chain([histories]).collect();
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

fn is_caught(fault: Fault) -> Result<(), Failed> {
    let case =
        cases::all().find(|case| case.name == fault.case()).ok_or("there is no such case")?;
    if let Err(why) = outcome(Model::default(), case) {
        return Err(format!("the sound model fails: {why}").into());
    }
    if outcome(Model::broken(fault), case).is_ok() {
        return Err("the case passes without this promise".into());
    }
    Ok(())
}

fn outcome(model: Model, case: &'static Case) -> Result<(), String> {
    let run = AssertUnwindSafe(|| run_case(Arc::new(model), case));
    match catch_unwind(run) {
        Ok(outcome) => outcome.map_err(|failed| failed.message().unwrap_or("failed").to_owned()),
        Err(panic) => Err(panic
            .downcast::<String>()
            .map(|text| *text)
            .or_else(|panic| panic.downcast::<&str>().map(|text| (*text).to_owned()))
            .unwrap_or_else(|_| "a panic without words".to_owned())),
    }
}

/// Random histories know no fault, and find most of them.
fn histories_catch_faults() -> Result<(), Failed> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let finds = |fault: Fault| {
        let fixture: Arc<dyn jobs_testkit::fixture::Fixture> = Arc::new(Model::broken(fault));
        (0..30).any(|seed| runtime.block_on(play(&fixture, &generate(seed, 60))).is_err())
    };
    // A history has one actor at a time, so races are not for it.
    let faults = Fault::ALL.iter().filter(|fault| fault.race().is_none());
    let (caught, missed): (Vec<Fault>, Vec<Fault>) = faults.partition(|&&fault| finds(fault));
    eprintln!("histories catch {}, not {}: {missed:?}", caught.len(), missed.len());
    if caught.len() < 10 {
        return Err(format!("histories catch only {caught:?}").into());
    }
    Ok(())
}
