//! The servers that tests stand on, and `cargo xtask servers`, which starts them for a developer.
//!
//! One file for each kind. Its `ready` uses the server that an environment variable names; else it
//! starts a private one from programs found on this machine; else, with `install`, from programs of
//! the system's package manager. It answers what the tests are told by environment variables, or a
//! sentence that says what is missing and how to get it. How a private server is started, and that
//! it ends with this process, is `crates/jobs-servers`.

pub mod browser;
pub mod mongo;
pub mod postgres;
pub mod redis;

use std::{any::Any, io::Write, process::ExitCode};

/// A kind of server.
pub struct Server {
    /// Its name on the command line.
    pub name: &'static str,
    /// Makes one ready; the argument is whether it may be installed.
    pub ready: fn(install: bool) -> Result<Ready, String>,
}

/// Servers that can be used now.
#[derive(Default)]
pub struct Ready {
    /// What the tests are told, as environment variables.
    pub environment: Vec<(&'static str, String)>,
    /// Servers that live as long as this; the first ends first.
    pub _servers: Vec<Box<dyn Any>>,
}

/// Every kind.
pub const SERVERS: &[Server] = &[
    Server { name: "postgres", ready: postgres::ready },
    Server { name: "mongo", ready: mongo::ready },
    Server { name: "redis", ready: redis::ready },
    Server { name: "browser", ready: browser::ready },
];

/// Their names.
pub fn names() -> impl Iterator<Item = &'static str> {
    SERVERS.iter().map(|server| server.name)
}

/// Makes all of them ready.
pub fn all(install: bool) -> Result<Vec<Ready>, String> {
    let ready =
        |server: &Server| (server.ready)(install).map_err(|why| format!("{}: {why}", server.name));
    SERVERS.iter().map(ready).collect()
}

/// Starts them, prints the variables that tests read, and waits to be ended.
pub fn run(wanted: Option<&str>, install: bool) -> ExitCode {
    let mut ready = Vec::new();
    for server in SERVERS.iter().filter(|server| wanted.is_none_or(|name| name == server.name)) {
        match (server.ready)(install) {
            Ok(is) => ready.push(is),
            Err(why) => {
                eprintln!("{}: {why}", server.name);
                return ExitCode::FAILURE;
            }
        }
    }
    for (name, value) in ready.iter().flat_map(|ready| &ready.environment) {
        println!("export {name}='{value}'");
    }
    eprintln!("these run until Ctrl-C");
    // A reader of a pipe that has gone is no reason to go too.
    let _ = std::io::stdout().flush();
    // They end with this process, whatever ends it.
    loop {
        std::thread::park();
    }
}
