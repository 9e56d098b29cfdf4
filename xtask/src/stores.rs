//! The stores that have a driver in this workspace. One [`Store`] per driver; this list is the
//! only place that names them all.

use std::path::Path;

use crate::servers::{Ready, mongo, postgres, redis};

/// A store that has a driver in this workspace.
pub struct Store {
    /// Its name on the command line.
    pub name: &'static str,
    /// The package of its driver.
    pub package: &'static str,
    /// Makes its server ready; the argument is whether it may install one. An embedded store has
    /// none and answers at once.
    pub ready: fn(install: bool) -> Result<Ready, String>,
    /// A URL at which nothing is stored, for the benchmark's run of this number; files go into
    /// `folder` and begin with the number and a dot.
    pub url: fn(ready: &Ready, folder: &Path, run: usize) -> Result<String, String>,
    /// Removes what is stored there, files excepted: a million jobs are large.
    pub forget: fn(ready: &Ready, run: usize) -> Result<(), String>,
}

/// Every store.
pub const STORES: &[Store] = &[
    Store {
        name: "sqlite",
        package: "jobs-sqlite",
        // The library is compiled into the driver: there is nothing to find.
        ready: |_install| Ok(Ready::default()),
        url: |_ready, folder, run| Ok(folder.join(format!("{run}.db")).display().to_string()),
        forget: |_ready, _run| Ok(()),
    },
    Store {
        name: "postgres",
        package: "jobs-postgres",
        ready: postgres::ready,
        url: |ready, _folder, run| postgres::database(ready, run),
        forget: postgres::forget,
    },
    Store {
        name: "mongo",
        package: "jobs-mongo",
        ready: mongo::ready,
        url: |ready, _folder, run| mongo::database(ready, run),
        forget: mongo::forget,
    },
    Store {
        name: "redis",
        package: "jobs-redis",
        ready: redis::ready,
        url: |ready, _folder, run| redis::prefix(ready, run),
        forget: redis::forget,
    },
];

/// Their names.
pub fn names() -> impl Iterator<Item = &'static str> {
    STORES.iter().map(|store| store.name)
}
