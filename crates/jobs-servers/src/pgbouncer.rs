//! A pgbouncer of our own, in transaction mode.

use std::{path::PathBuf, process::Command};

use percent_encoding::percent_decode_str;
use rustix::process::Signal;
use url::Url;

use crate::{
    Result,
    machine::{User, folder_of, free_port},
    process::{Kind, Process},
};

const KIND: Kind = Kind { name: "pgbouncer", ready: "process up:", end: Signal::TERM };

/// A pgbouncer in transaction mode on a free loopback port, in front of a PostgreSQL. What is set
/// is the mode, who may come in, and how many; everything else is as an installation has it:
/// nothing is in `ignore_startup_parameters`. Dropped, it is stopped.
pub struct PrivatePgbouncer {
    program: PathBuf,
    user: User,
    port: u16,
    /// Of the server behind it.
    server: Url,
    process: Process,
}

impl PrivatePgbouncer {
    /// What a Debian system installs for it.
    pub const PACKAGE: &str = "pgbouncer";

    /// Its program: the first of PATH, else where Debian has it, which only root's PATH names.
    pub fn find() -> Option<PathBuf> {
        let folder = folder_of(&["pgbouncer"], [PathBuf::from("/usr/sbin")]);
        folder.map(|folder| folder.join("pgbouncer"))
    }

    /// Starts one in front of the server of this URL, with its user and for all its databases.
    ///
    /// # Errors
    /// It is not installed, the URL names no host or user, or it does not start.
    pub fn start(server: &str) -> Result<Self> {
        let program = Self::find().ok_or("pgbouncer is not installed")?;
        let server = Url::parse(server).map_err(|error| format!("{server}: {error}"))?;
        let user = User::unprivileged("postgres").map_err(|why| format!("pgbouncer: {why}"))?;
        let process = Process::new(&KIND, user.folder("jobs-pgbouncer-")?)?;
        let mut pooler = Self { program, user, port: free_port()?, server, process };
        // Somebody else may take the port between the look and the start.
        for _ in 0..3 {
            match pooler.start_again() {
                Err(why) if why.contains("Address already in use") => pooler.port = free_port()?,
                done => return done.map(|()| pooler),
            }
        }
        pooler.start_again().map(|()| pooler)
    }

    /// Of the user and on the database of the URL that it was started with.
    pub fn url(&self) -> String {
        let mut url = self.server.clone();
        let port = url.set_host(Some("127.0.0.1")).map(|()| url.set_port(Some(self.port)));
        assert_eq!(port, Ok(Ok(())), "{} had a host", self.server);
        url.into()
    }

    /// The same on another database.
    pub fn url_of(&self, database: &str) -> String {
        let mut url = Url::parse(&self.url()).expect("it was one");
        url.set_path(database);
        url.into()
    }

    /// Its port on 127.0.0.1, the same over all its starts.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The file with all that it said.
    pub fn log(&self) -> PathBuf {
        self.process.log()
    }

    /// Kills it with SIGKILL.
    ///
    /// # Errors
    /// It does not run.
    pub fn kill(&mut self) -> Result {
        self.process.signal_and_wait(Signal::KILL)
    }

    /// Starts it on the same port, and waits until it takes connections.
    ///
    /// # Errors
    /// It runs, or does not start.
    pub fn start_again(&mut self) -> Result {
        let file = |name| self.process.folder().join(name);
        let (users, settings) = (file("users"), file("pgbouncer.ini"));
        let password = self.server.password().unwrap_or_default();
        let [user, password] = [self.server.username(), password].map(quoted);
        self.user.file(&users, &format!("{user} {password}\n"))?;
        let (host, port) = (self.server.host_str(), self.server.port().unwrap_or(5432));
        let host = host.ok_or_else(|| format!("{} names no host", self.server))?;
        let text = format!(
            "[databases]\n* = host={host} port={port}\n\
             [pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {}\nunix_socket_dir =\n\
             auth_type = scram-sha-256\nauth_file = {}\n\
             pool_mode = transaction\nmax_client_conn = 1000\ndefault_pool_size = 50\n",
            self.port,
            users.display(),
        );
        self.user.file(&settings, &text)?;
        let mut command = Command::new(&self.program);
        self.user.runs(&mut command);
        command.arg(settings);
        self.process.start(command)
    }
}

/// A word of a URL as the file of users has it.
fn quoted(word: &str) -> String {
    let word = percent_decode_str(word).decode_utf8_lossy();
    format!("\"{}\"", word.replace('"', "\"\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_quoted() {
        assert_eq!(quoted("a%20b%22c"), "\"a b\"\"c\"");
    }
}
