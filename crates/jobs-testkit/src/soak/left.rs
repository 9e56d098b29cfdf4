//! What a run leaves behind: in its processes, in the store's server, and on the disk.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use tokio::{
    runtime::Builder,
    signal::unix::{Signal, SignalKind, signal},
};

use super::{Done, Soak, ledger::EXTENSION, process::files};

/// What ends a process in order, heard.
///
/// # Errors
/// The system's.
pub fn signals() -> Done<[Signal; 2]> {
    let listen = |kind| signal(kind).map_err(|error| error.to_string());
    Ok([listen(SignalKind::terminate())?, listen(SignalKind::interrupt())?])
}

/// Opens what listening for signals opens for good, once.
///
/// # Errors
/// The system's.
pub fn listen() -> Done {
    let runtime = Builder::new_current_thread().enable_all().build().map_err(|e| e.to_string())?;
    runtime.block_on(async { signals().map(drop) })
}

/// How long what ends by itself may take to.
const PATIENCE: Duration = Duration::from_secs(10);

/// Connections that the store's server still has, after a moment's patience.
///
/// # Errors
/// The store does not say.
pub async fn connections(soak: &dyn Soak, url: &str) -> Done<Vec<String>> {
    let until = Instant::now() + PATIENCE;
    loop {
        match soak.connections(url).await? {
            0 => return Ok(Vec::new()),
            number if Instant::now() > until => {
                return Ok(vec![format!("left open: {number} connections, as its server says")]);
            }
            _ => tokio::time::sleep(Duration::from_millis(100)).await,
        }
    }
}

/// Threads and open files of this process. Where the system does not say, both are zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Open {
    threads: usize,
    files: usize,
}

impl Open {
    /// Now.
    pub fn now() -> Self {
        let count = |path| std::fs::read_dir(path).map_or(0, Iterator::count);
        Self { threads: count("/proc/self/task"), files: count("/proc/self/fd") }
    }

    /// What is still open beyond this after a moment's patience: threads end on their own time.
    pub fn left(self) -> Vec<String> {
        let until = Instant::now() + PATIENCE;
        loop {
            let now = Self::now();
            let more = now.threads > self.threads || now.files > self.files;
            if !more {
                return Vec::new();
            }
            if Instant::now() > until {
                return vec![format!("left open: {now:?}, before {self:?}")];
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

/// Files of the run's directory that neither the run nor the store should leave.
pub fn strangers(soak: &dyn Soak, directory: &Path) -> Vec<String> {
    let own = |name: &str| name.ends_with(&format!(".{EXTENSION}")) || name.ends_with(".log");
    let all = files(directory).into_iter();
    all.filter(|name| !own(name) && !soak.leaves(name))
        .map(|name| format!("left: {name}"))
        .collect()
}
