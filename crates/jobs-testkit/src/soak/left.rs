//! What a run leaves behind in the process that led it, and on the disk.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use super::{Soak, ledger::EXTENSION, process::files};

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
        let until = Instant::now() + Duration::from_secs(10);
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
