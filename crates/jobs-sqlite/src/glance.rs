//! A glance at whether anybody committed, without asking SQLite.
//!
//! Fifty times a second the time and length of the WAL file are looked at instead of
//! `PRAGMA data_version`, which locks, runs a program and unlocks, all of it cold after 20 ms. It only
//! says when to ask SQLite. Rejected: to read the header of the WAL index, which counts commits
//! exactly; closing any descriptor of a file drops the process's POSIX locks on it, SQLite's among
//! them (sqlite.org/howtocorrupt.html, §2.2). So nothing is opened here.

use std::{
    fs::metadata,
    path::{Path, PathBuf},
    time::{Duration, Instant, SystemTime},
};

/// A commit is written before it is synced and shown, and two may have one time, by the system's
/// clock that ticks. So SQLite is asked for that long after the last write was seen. A sync that takes
/// longer costs that commit its wake-up, and the worker's own poll finds the jobs.
const CALM: Duration = Duration::from_secs(1);

/// The WAL file, as it was last seen.
#[derive(Debug)]
pub(crate) struct Glance {
    wal: PathBuf,
    seen: Option<(u64, SystemTime)>,
    /// When something new was last seen.
    since: Instant,
}

impl Glance {
    /// Of the database at `path`.
    pub fn of(path: &Path) -> Self {
        let mut wal = path.as_os_str().to_owned();
        wal.push("-wal");
        Self { wal: wal.into(), seen: None, since: Instant::now() }
    }

    /// May anybody have committed since the last glance?
    pub fn changed(&mut self) -> bool {
        let found = metadata(&self.wal).and_then(|wal| Ok((wal.len(), wal.modified()?)));
        let Ok(found) = found else {
            // No WAL file, or nothing to be known of it: SQLite has to say.
            self.seen = None;
            return true;
        };
        if self.seen.replace(found) != Some(found) {
            self.since = Instant::now();
        }
        self.since.elapsed() < CALM
    }
}

#[cfg(test)]
mod tests {
    use rusqlite::Connection;

    use super::*;

    #[test]
    fn every_commit_is_seen() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("q.db");
        let mut glance = Glance::of(&path);
        assert!(glance.changed(), "there is no file to be known");
        let other = Connection::open(&path).expect("it opens");
        let wal = "PRAGMA journal_mode = WAL; CREATE TABLE t (n)";
        other.execute_batch(wal).expect("it is SQLite");
        // As after a calm second.
        let calm = |glance: &mut Glance| {
            glance.changed();
            glance.since = Instant::now() - CALM;
        };
        calm(&mut glance);
        assert!(!glance.changed());
        other.execute_batch("INSERT INTO t VALUES (1)").expect("it is SQLite");
        assert!(glance.changed());
        assert!(glance.changed(), "it may be written and not yet shown");
        calm(&mut glance);
        assert!(!glance.changed());
        // A log that begins again, as long as before or not.
        other.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)").expect("it is SQLite");
        assert!(glance.changed());
    }
}
