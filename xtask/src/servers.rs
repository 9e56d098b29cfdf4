//! How each store's server is had. One [`Store`] per driver; this list is the only place that
//! names them all.
//!
//! `ready` is called before the tests. It uses a server named by the store's environment
//! variable, else one found on this machine, else with `install` one from the system's package
//! manager; it starts a private instance on a free port with its data in a temporary folder. It
//! answers what the tests are told by environment variables, or a sentence that says what is
//! missing and how to get it. An embedded store needs none of this and answers at once.

use std::path::Path;

/// A store that has a driver in this workspace.
pub struct Store {
    /// Its name on the command line.
    pub name: &'static str,
    /// The package of its driver.
    pub package: &'static str,
    /// Makes its server ready; the argument is whether it may install one.
    pub ready: fn(install: bool) -> Result<Ready, String>,
    /// A URL at which nothing is stored, for the benchmark's run of this number; files go into
    /// `folder` and begin with the number and a dot.
    pub url: fn(ready: &Ready, folder: &Path, run: usize) -> String,
}

/// A store that can be tested now.
pub struct Ready {
    /// What the tests are told, as environment variables.
    pub environment: Vec<(&'static str, String)>,
}

/// Every store.
pub const STORES: &[Store] = &[Store {
    name: "sqlite",
    package: "jobs-sqlite",
    // The library is compiled into the driver: there is nothing to find.
    ready: |_install| Ok(Ready { environment: Vec::new() }),
    url: |_ready, folder, run| folder.join(format!("{run}.db")).display().to_string(),
}];

/// Their names.
pub fn names() -> impl Iterator<Item = &'static str> {
    STORES.iter().map(|store| store.name)
}
