//! A glance at whether anybody committed, without asking SQLite.
//!
//! The header of the WAL index, the `-shm` file, counts transactions (sqlite.org/walformat.html,
//! §2.1). Fifty times a second it is read instead of `PRAGMA data_version`, which locks, runs a
//! program and unlocks: half of what an idle worker cost, because all of that is cold after 20 ms.
//! It only says when to ask SQLite; what it cannot tell is asked.

use std::{
    fs::File,
    io::{Read, Seek, SeekFrom},
    path::Path,
};

/// The first of the header's two copies.
const HEADER: usize = 48;

/// The WAL index, as it was last seen.
#[derive(Debug)]
pub(crate) struct Glance {
    index: File,
    seen: [u8; HEADER],
}

impl Glance {
    /// Of the file at `path`, whose connection must stay open: the last one to close takes the index
    /// along. `None` where it has none.
    pub fn of(path: &Path) -> Option<Self> {
        let mut index = path.as_os_str().to_owned();
        index.push("-shm");
        Some(Self { index: File::open(index).ok()?, seen: [0; HEADER] })
    }

    /// May anybody have committed since the last glance?
    pub fn changed(&mut self) -> bool {
        let mut header = [0; HEADER];
        let read =
            self.index.seek(SeekFrom::Start(0)).and_then(|_| self.index.read_exact(&mut header));
        let same = read.is_ok() && header == self.seen;
        self.seen = header;
        !same
    }
}

#[cfg(test)]
mod tests {
    use rusqlite::Connection;

    use super::*;

    #[test]
    fn every_commit_is_seen_once() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("q.db");
        let other = Connection::open(&path).expect("it opens");
        let wal = "PRAGMA journal_mode = WAL; CREATE TABLE t (n)";
        other.execute_batch(wal).expect("it is SQLite");
        let mut glance = Glance::of(&path).expect("a WAL file has an index");
        assert!(glance.changed(), "the first glance knows nothing");
        for _ in 0..3 {
            assert!(!glance.changed());
            other.execute_batch("INSERT INTO t VALUES (1)").expect("it is SQLite");
            assert!(glance.changed());
        }
        other
            .execute_batch("SELECT * FROM t; PRAGMA wal_checkpoint(TRUNCATE)")
            .expect("it is SQLite");
        glance.changed();
        other.execute_batch("BEGIN; INSERT INTO t VALUES (1); ROLLBACK").expect("it is SQLite");
        assert!(!glance.changed(), "nothing was committed");
    }

    #[test]
    fn what_has_no_index_has_none() {
        let folder = tempfile::tempdir().expect("a folder");
        assert!(Glance::of(&folder.path().join("q.db")).is_none());
    }
}
