//! What a driver gives the suite: its store, in a namespace of the case's own.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use jobs_core::{Admin, AuthorizedJob, Result, queue::Pushed, retention::Retention};

/// A store under test.
///
/// A namespace is a store of its own: a file, a schema, a key prefix. Its name is unique, of
/// `[a-z0-9_]`, at most 40 bytes.
#[async_trait]
pub trait Fixture: Send + Sync + 'static {
    /// For reports.
    fn name(&self) -> &'static str;

    /// Why the store cannot be reached, with what to do about it. Its cases are then skipped under
    /// plain `cargo test` and fail under `cargo xtask test`.
    fn unavailable(&self) -> Option<String> {
        None
    }

    /// Can another process open the same namespace? Where not, cases that start worker processes
    /// do not exist.
    fn crosses_processes(&self) -> bool {
        true
    }

    /// What a child process needs in its environment to reach the same namespaces, such as the
    /// directory of this run.
    fn child_environment(&self) -> Vec<(String, String)> {
        Vec::new()
    }

    /// A handle on `namespace`, migrated, made on the calling runtime. Called twice with one
    /// namespace it gives two handles on one store, as two processes have.
    async fn make(&self, namespace: &str, retention: Retention) -> Arc<dyn Admin>;

    /// Moves every stored instant of `namespace` into the past, as if `by` had gone by since:
    /// due times, lease ends, starts, ends, pauses, announcements, and a persisted clock.
    async fn age(&self, namespace: &str, by: Duration);

    /// A handle whose connection breaks once, after the store answered its `after`-th round trip
    /// (counting from 1) and before the driver saw the answer. A store whose operations are one
    /// indivisible step breaks after the step.
    async fn make_cut(&self, namespace: &str, after: usize) -> Arc<dyn Admin>;

    /// A transaction of the caller's own on `namespace`, to push in with the driver's `push_in`, on
    /// a pool of one connection. `None` where the store has no transactions for callers (P6).
    async fn begin(&self, namespace: &str) -> Option<Box<dyn Transaction>>;

    /// Removes `namespace`. Called when its case passed; a failed case's stays for inspection.
    async fn remove(&self, namespace: &str);
}

/// An open transaction of a caller who pushes inside it.
#[async_trait]
pub trait Transaction: Send {
    /// The driver's `push_in`. An error means that the transaction is lost.
    async fn push(&mut self, jobs: &[AuthorizedJob]) -> Result<Vec<Pushed>>;

    /// Commits, and fires the wake-up handles.
    async fn commit(self: Box<Self>) -> Result<()>;

    /// Rolls back.
    async fn rollback(self: Box<Self>);
}
