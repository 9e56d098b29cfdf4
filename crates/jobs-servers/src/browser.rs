//! Headless Chromium, driven through its ChromeDriver, for tests of pages.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use rustix::process::Signal;

use crate::{
    Result,
    machine::{User, folder_of, free_port},
    process::{Kind, Process},
};

const KIND: Kind = Kind { name: "chromedriver", ready: "started successfully", end: Signal::TERM };

/// Where Debian has the programs.
const DEBIAN: &str = "/usr/bin";

/// What a Debian system installs for it.
pub const BROWSER_PACKAGES: &[&str] = &["chromium", "chromium-driver"];

/// A ChromeDriver on a free loopback port, which starts a browser for each session of a test. Dropped,
/// it is ended, and its browsers with it.
pub struct PrivateBrowser {
    port: u16,
    _process: Process,
}

impl PrivateBrowser {
    /// The folder of its programs: the first of PATH, else Debian's.
    pub fn find() -> Option<PathBuf> {
        folder_of(&["chromium", "chromedriver"], [PathBuf::from(DEBIAN)])
    }

    /// Starts one and waits until it takes connections.
    ///
    /// # Errors
    /// It is not installed, or does not start.
    pub fn start() -> Result<Self> {
        let programs = Self::find().ok_or("chromium and chromedriver are not installed")?;
        let mut process = Process::new(&KIND, User::oneself().folder("jobs-browser-")?)?;
        let mut why = String::new();
        // Somebody may take the port in between.
        for _ in 0..3 {
            let port = free_port()?;
            let mut command = Command::new(programs.join("chromedriver"));
            command.arg(format!("--port={port}"));
            match process.start(command) {
                Ok(()) => return Ok(Self { port, _process: process }),
                Err(said) => why = said,
            }
        }
        Err(why)
    }

    /// Of its WebDriver.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }
}

/// Gets a package of the npm registry's into `folder`, below which its files are then; nothing of it is
/// run. What is there already is left.
///
/// # Errors
/// npm is not installed, or does not get it.
pub fn npm_package(name: &str, version: &str, folder: &Path) -> Result<PathBuf> {
    let place = folder.join(format!("{name}-{version}"));
    let package = place.join("package");
    if package.join("package.json").exists() {
        return Ok(package);
    }
    let failed = |error: std::io::Error| format!("{name}: {error}");
    std::fs::create_dir_all(&place).map_err(failed)?;
    let mut npm = Command::new("npm");
    npm.args(["pack", "--silent", &format!("{name}@{version}")]).current_dir(&place);
    run(npm, "npm pack")?;
    let mut tar = Command::new("tar");
    tar.args(["-xzf", &format!("{name}-{version}.tgz")]).current_dir(&place);
    run(tar, "tar")?;
    Ok(package)
}

fn run(mut command: Command, what: &str) -> Result {
    let output = command.output().map_err(|error| format!("{what} cannot be run: {error}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    if output.status.success() { Ok(()) } else { Err(format!("{what}: {}", said.trim_end())) }
}
