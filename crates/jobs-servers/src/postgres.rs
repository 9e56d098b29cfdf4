//! A PostgreSQL of our own.

use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use rustix::process::Signal;

use crate::{
    Result,
    machine::{User, folder_of, free_port, secret, versions},
    process::{Kind, Process},
};

const KIND: Kind = Kind {
    name: "postgres",
    ready: "database system is ready to accept connections",
    // Immediate shutdown.
    end: Signal::QUIT,
};

/// Where Debian has a folder for each version.
const DEBIAN: &str = "/usr/lib/postgresql";

/// Enough for a suite that runs on all cores, each case with pools of its own.
const MAX_CONNECTIONS: u16 = 300;

/// A PostgreSQL on a free loopback port, with its data in a fresh folder: one superuser,
/// `postgres`, with a random password; fsync on, and everything else but the number of connections
/// (300) as an installation has it. Dropped, it is stopped and its data removed.
///
/// Two tests share one only if what they do to it stays between them: start one for each.
pub struct PrivatePostgres {
    programs: PathBuf,
    user: User,
    port: u16,
    password: String,
    process: Process,
}

impl PrivatePostgres {
    /// What a Debian system installs for it.
    pub const PACKAGE: &str = "postgresql";

    /// The folder of its programs: the first of PATH, else Debian's newest.
    pub fn find() -> Option<PathBuf> {
        folder_of(&["initdb", "postgres"], versions(DEBIAN, "bin"))
    }

    /// Makes a new one and waits until it takes connections, about 2 s in all.
    ///
    /// # Errors
    /// It is not installed, or does not start.
    pub fn start() -> Result<Self> {
        let programs = Self::find().ok_or("PostgreSQL is not installed")?;
        let user = User::unprivileged("postgres").map_err(|why| format!("PostgreSQL: {why}"))?;
        let process = Process::new(&KIND, user.folder("jobs-postgres-")?)?;
        let password = secret()?;
        initialise(&programs, user, process.folder(), &password)?;
        let mut server = Self { programs, user, port: free_port()?, password, process };
        // Somebody else may take the port between the look and the start.
        for _ in 0..3 {
            match server.start_again() {
                Err(why) if why.contains("Address already in use") => server.port = free_port()?,
                done => return done.map(|()| server),
            }
        }
        server.start_again().map(|()| server)
    }

    /// Of the superuser, on the database `postgres`.
    pub fn url(&self) -> String {
        self.url_of("postgres")
    }

    /// Of the superuser, on a database of this name, which need not exist yet.
    pub fn url_of(&self, database: &str) -> String {
        format!("postgres://postgres:{}@127.0.0.1:{}/{database}", self.password, self.port)
    }

    /// Its port on 127.0.0.1, the same over all its starts.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The process number of its postmaster, while it runs.
    pub fn id(&self) -> Option<u32> {
        self.process.id()
    }

    /// The file with all that it said.
    pub fn log(&self) -> PathBuf {
        self.process.log()
    }

    /// Kills its postmaster with SIGKILL, and waits until the last of its processes has gone. A
    /// backend goes when it notices, at the end of its statement at the latest.
    ///
    /// # Errors
    /// It does not run, or a process of it was still there a minute later.
    pub fn kill(&mut self) -> Result {
        self.process.signal_and_wait(Signal::KILL)
    }

    /// Stops it in order: connections are ended, what is committed is written (fast shutdown).
    ///
    /// # Errors
    /// As [`kill`](Self::kill).
    pub fn stop(&mut self) -> Result {
        self.process.signal_and_wait(Signal::INT)
    }

    /// Starts it on the same port and data, and waits until it takes connections.
    ///
    /// # Errors
    /// It runs, or does not start.
    pub fn start_again(&mut self) -> Result {
        let mut command = Command::new(self.programs.join("postgres"));
        self.user.runs(&mut command);
        // What it says is read here, in English.
        command.env("LC_ALL", "C").arg("-D").arg(data(self.process.folder()));
        for (name, value) in [
            ("listen_addresses", "127.0.0.1"),
            ("port", &self.port.to_string()),
            ("unix_socket_directories", ""),
            ("max_connections", &MAX_CONNECTIONS.to_string()),
            ("lc_messages", "C"),
        ] {
            command.arg("-c").arg(format!("{name}={value}"));
        }
        self.process.start(command)
    }
}

/// What psql answers on the server of this URL: one line for a row, `|` between columns. For what
/// has to be done once, without a driver.
///
/// # Errors
/// It is not installed, or the server refuses.
pub fn psql(url: &str, sql: &str) -> Result<String> {
    let folder = folder_of(&["psql"], versions(DEBIAN, "bin")).ok_or("psql is not installed")?;
    let mut command = Command::new(folder.join("psql"));
    command.args(["--no-psqlrc", "--quiet", "--tuples-only", "--no-align", "-c", sql, url]);
    let output = command.stdin(Stdio::null()).output();
    let output = output.map_err(|error| format!("psql does not start: {error}"))?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim_end().to_owned();
    if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) }
}

fn data(folder: &Path) -> PathBuf {
    folder.join("data")
}

/// Makes a new, empty cluster.
fn initialise(programs: &Path, user: User, folder: &Path, password: &str) -> Result {
    let file = folder.join("password");
    user.file(&file, password)?;
    let mut command = Command::new(programs.join("initdb"));
    user.runs(&mut command);
    command.args(["--username", "postgres", "--auth", "scram-sha-256", "--encoding", "UTF8"]);
    // The one locale that every system has.
    command.args(["--locale", "C"]);
    // An empty cluster that a power cut takes is no loss; the server itself syncs what it writes.
    command.arg("--no-sync");
    command.arg("--pwfile").arg(file).arg("--pgdata").arg(data(folder));
    let output = command.current_dir(folder).stdin(Stdio::null()).output();
    let output = output.map_err(|error| format!("initdb does not start: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("initdb: {}{}", output.status, String::from_utf8_lossy(&output.stderr)))
}
