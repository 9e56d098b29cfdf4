//! `cargo xtask soak`: a store under faults for minutes, checked against a ledger outside of it.
//! What it does is the testkit's (`crates/jobs-testkit/src/soak`), how a store is opened and
//! disturbed its driver's (`examples/soak`).

use std::process::{Command, ExitCode, Stdio};

use crate::stores::STORES;

/// Runs it until it stops by itself; it fails when something is out of place.
pub fn run(name: &str, minutes: f64, seed: Option<u64>) -> ExitCode {
    match soak(name, minutes, seed) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}

fn soak(name: &str, minutes: f64, seed: Option<u64>) -> Result<bool, String> {
    let store = STORES.iter().find(|store| store.name == name);
    let store = store.ok_or_else(|| format!("there is no store {name}"))?;
    // Its server lives until the run has ended.
    let ready = (store.ready)(false)?;
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["run", "--quiet", "--locked", "--release", "--package", store.package]);
    cargo.args(["--example", "soak", "--", "--leashed", "--minutes", &minutes.to_string()]);
    if let Some(seed) = seed {
        cargo.args(["--seed", &seed.to_string()]);
    }
    cargo.envs(ready.environment);
    // It ends with this process: its input is then closed.
    let mut child = cargo.stdin(Stdio::piped()).spawn().map_err(|error| error.to_string())?;
    // Waiting would close it.
    let leash = child.stdin.take();
    let status = child.wait().map_err(|error| error.to_string())?;
    drop(leash);
    Ok(status.success())
}
