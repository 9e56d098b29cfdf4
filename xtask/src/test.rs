//! `cargo xtask test`: the one test command, the same at home and in CI.

use std::{
    io::{self, BufRead, BufReader, PipeReader, Write},
    os::unix::process::CommandExt,
    process::{Child, Command, ExitCode, Stdio},
};

use jobs_servers::leash::{Leash, Signal};

use crate::{
    servers,
    stores::{STORES, Store},
    tally::Tally,
};

/// Under it, a store that is not there fails instead of being skipped.
const REQUIRE: &str = "JOBS_TEST_REQUIRE";

/// Runs the tests of one store's driver, or all of the workspace, and prints the counts last.
pub fn run(store: Option<&str>, install: bool) -> ExitCode {
    let mut tally = Tally::default();
    if let Err(error) = test(store, install, &mut tally) {
        tally.fail(error);
    }
    for (took, binary) in tally.slowest(12) {
        println!("{took:>7.1} s {binary}");
    }
    for finding in tally.findings() {
        println!("not good: {finding}");
    }
    println!("{tally}");
    if tally.is_good() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn test(wanted: Option<&str>, install: bool, tally: &mut Tally) -> Result<(), String> {
    let stores = STORES.iter().filter(|store| wanted.is_none_or(|name| name == store.name));
    let stores: Vec<&Store> = stores.collect();
    // The servers live until the tests have ended.
    let mut ready = Vec::new();
    match wanted {
        Some(_) => {
            for store in &stores {
                ready.push((store.ready)(install).map_err(|why| format!("{}: {why}", store.name))?);
            }
        }
        None => ready = servers::all(install)?,
    }
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    // One broken test binary must not hide what the others have to say.
    cargo.args(["test", "--locked", "--no-fail-fast"]).env(REQUIRE, "1");
    // Colour would have to be taken off again to read the lines.
    cargo.env("CARGO_TERM_COLOR", "never");
    // Cases that panic on purpose would print traces, of seconds each in a build for tests.
    cargo.env("RUST_BACKTRACE", "0");
    match wanted {
        Some(_) => cargo.args(stores.iter().flat_map(|store| ["--package", store.package])),
        None => cargo.arg("--workspace"),
    };
    cargo.envs(ready.iter().flat_map(|ready| ready.environment.clone()));
    let broken = |error: io::Error| format!("cargo test cannot be run: {error}");
    let mut leash = Leash::new(Signal::TERM, None)?;
    let (output, mut child) = start(cargo).map_err(broken)?;
    leash.hold_group(&child);
    stream(output, tally).map_err(broken)?;
    leash.let_go();
    tally.end(child.wait().map_err(broken)?.success());
    Ok(())
}

/// Starts it with both its outputs in one pipe, so that cargo's headings stay in order with the
/// results below them; as the leader of a group, so that all of it can be ended.
fn start(mut cargo: Command) -> io::Result<(PipeReader, Child)> {
    let (output, input) = io::pipe()?;
    cargo.process_group(0).stdin(Stdio::null()).stdout(input.try_clone()?).stderr(input);
    // The command holds ends of the pipe; it is dropped here, or the output never ends.
    Ok((output, cargo.spawn()?))
}

fn stream(output: PipeReader, tally: &mut Tally) -> io::Result<()> {
    let mut output = BufReader::new(output);
    let mut screen = io::stdout().lock();
    let mut line = Vec::new();
    while output.read_until(b'\n', &mut line)? > 0 {
        screen.write_all(&line)?;
        screen.flush()?;
        tally.line(String::from_utf8_lossy(&line).trim_end());
        line.clear();
    }
    Ok(())
}
