//! Builds the benchmark programs of a driver, and runs one once.

use std::{
    cell::Cell,
    env,
    path::PathBuf,
    process::{Command, ExitStatus, Stdio},
    thread,
    time::{Duration, Instant},
};

use serde_json::Value;
use tempfile::TempDir;

use super::{Options, workloads::Workload};
use crate::{
    servers::Ready,
    stores::{STORES, Store},
};

/// How long one run may take: the longest of ours needs a part of it.
const LIMIT: Duration = Duration::from_secs(900);
/// The example that measures, and the one that counts allocations.
const EXAMPLES: [&str; 2] = ["bench", "allocations"];

/// The line of a run.
pub trait Run {
    /// A figure of it.
    fn figure(&self, field: &str) -> Option<f64>;
}

impl Run for Value {
    fn figure(&self, field: &str) -> Option<f64> {
        self.get(field)?.as_f64()
    }
}

/// The programs of a store's driver, ready to run.
pub struct Programs {
    store: &'static Store,
    /// Its servers live as long as this.
    ready: Ready,
    paths: [PathBuf; 2],
    folder: TempDir,
    runs: Cell<usize>,
}

impl Programs {
    /// Builds them, and has the store's server ready.
    pub fn build(options: &Options) -> Result<Self, String> {
        let store = STORES.iter().find(|store| store.name == options.store);
        let store = store.ok_or_else(|| format!("no store {}", options.store))?;
        let ready = (store.ready)(false).map_err(|why| format!("{}: {why}", store.name))?;
        let mut paths = Vec::new();
        let built = build(store.package)?;
        for name in EXAMPLES {
            let path = built.iter().find(|(built, _)| built == name);
            let path = path.ok_or_else(|| format!("{} has no example {name}", store.package))?;
            paths.push(path.1.clone());
        }
        let paths = <[PathBuf; 2]>::try_from(paths).map_err(|_| "two programs".to_owned())?;
        // Beside the build and not in the system's temporary folder, which may be in memory: there
        // durability costs nothing.
        let beside = paths[0].parent().unwrap_or(&paths[0]);
        let folder = tempfile::Builder::new().prefix("bench-").tempdir_in(beside);
        let folder = folder.map_err(|error| format!("no folder for stores: {error}"))?;
        Ok(Self { store, ready, paths, folder, runs: Cell::new(0) })
    }

    /// Our program, once.
    pub fn ours(&self, options: &Options, workload: &Workload) -> Result<Value, String> {
        let counts = usize::from(workload.mode == EXAMPLES[1]);
        let mut command = Command::new(&self.paths[counts]);
        for (name, value) in &workload.own {
            command.args([name, value.to_string().as_str()]);
        }
        if let Some(durability) = &options.durability {
            command.args(["--durability", durability]);
        }
        self.once(command, options, workload)
    }

    /// Another program, once.
    pub fn other(&self, words: &str, of: &Options, workload: &Workload) -> Result<Value, String> {
        let mut words = words.split_whitespace();
        let mut command = Command::new(words.next().unwrap_or_default());
        command.args(words);
        self.once(command, of, workload)
    }

    fn once(&self, mut command: Command, of: &Options, is: &Workload) -> Result<Value, String> {
        let run = self.runs.replace(self.runs.get() + 1);
        let url = (self.store.url)(&self.ready, self.folder.path(), run)?;
        command.args(["--url", &url]);
        command.args(["--mode", is.mode, "--jobs", &is.jobs.to_string()]);
        command.args(["--concurrency", &is.slots.to_string()]);
        command.args(["--payload", &of.payload.to_string()]);
        command.envs(self.ready.environment.iter().cloned()).stdin(Stdio::null());
        let ended = within(command.stderr(Stdio::inherit()), LIMIT);
        self.forget(run)?;
        let (status, text) = ended?;
        if !status.success() {
            return Err(format!("the program ended with {status}"));
        }
        let line = text.lines().rev().find(|line| line.starts_with('{'));
        let line = line.ok_or_else(|| format!("it printed no JSON line: {text}"))?;
        serde_json::from_str(line).map_err(|error| format!("{error}: {line}"))
    }

    /// Removes what a run left.
    fn forget(&self, run: usize) -> Result<(), String> {
        let name = format!("{run}.");
        for entry in self.folder.path().read_dir().into_iter().flatten().flatten() {
            if entry.file_name().to_string_lossy().starts_with(&name) {
                // The folder goes in the end, so nothing stays for good.
                let _ = std::fs::remove_file(entry.path());
            }
        }
        (self.store.forget)(&self.ready, run)
    }
}

/// Runs a program that prints little, and ends it when it takes longer.
fn within(command: &mut Command, limit: Duration) -> Result<(ExitStatus, String), String> {
    let said = |error: std::io::Error| format!("a program cannot be run: {error}");
    let mut child = command.stdout(Stdio::piped()).spawn().map_err(said)?;
    let output = child.stdout.take();
    // It is read beside, or a full pipe would hold the program up.
    let read = thread::spawn(move || output.map(std::io::read_to_string).transpose());
    let since = Instant::now();
    let status = loop {
        match child.try_wait().map_err(said)? {
            Some(status) => break status,
            None if since.elapsed() > limit => {
                // It may have ended meanwhile.
                let _ = child.kill();
                let _ = child.wait();
                return Err(format!("{command:?} did not end within {limit:?}"));
            }
            None => thread::sleep(Duration::from_millis(20)),
        }
    };
    let text = read.join().map_err(|_| "its output cannot be read".to_owned())?;
    Ok((status, text.map_err(said)?.unwrap_or_default()))
}

/// The examples of a package, built, by name.
fn build(package: &str) -> Result<Vec<(String, PathBuf)>, String> {
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["build", "--locked", "--release", "--package", package]);
    cargo.args(EXAMPLES.iter().flat_map(|name| ["--example", name]));
    cargo.args(["--message-format", "json-render-diagnostics"]).stderr(Stdio::inherit());
    let output = cargo.output().map_err(|error| format!("cargo build cannot be run: {error}"))?;
    if !output.status.success() {
        return Err(format!("{package} does not build"));
    }
    let text = String::from_utf8_lossy(&output.stdout);
    Ok(text.lines().filter_map(executable).collect())
}

/// The name and path in cargo's word about a program that it built.
fn executable(line: &str) -> Option<(String, PathBuf)> {
    let message: Value = serde_json::from_str(line).ok()?;
    let path = message.get("executable")?.as_str()?;
    Some((message.get("target")?.get("name")?.as_str()?.to_owned(), path.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_hangs_is_ended() {
        let mut quick = Command::new("echo");
        let (status, text) = within(quick.arg("{}"), Duration::from_secs(10)).unwrap();
        assert!(status.success() && text == "{}\n");
        let hangs = within(Command::new("sleep").arg("60"), Duration::from_millis(100));
        assert!(hangs.unwrap_err().contains("did not end within 100ms"));
    }

    #[test]
    fn programs_are_found_in_what_cargo_says() {
        let said = r#"{"reason":"compiler-artifact","target":{"name":"bench"},"executable":"a/b"}"#;
        assert_eq!(executable(said), Some(("bench".to_owned(), PathBuf::from("a/b"))));
        let library = r#"{"reason":"compiler-artifact","target":{"name":"x"},"executable":null}"#;
        assert_eq!((executable(library), executable("warning: none")), (None, None));
    }
}
