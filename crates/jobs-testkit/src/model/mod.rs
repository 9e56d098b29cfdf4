//! The contract as a store in memory: the reference that every driver is read against.
//!
//! One file per verb; each verb is one step under one lock. To learn what a law means, open the
//! verb:
//!
//! | verb | file |
//! |---|---|
//! | enqueue | `push.rs` |
//! | reserve | `reserve.rs`, its order in `lanes.rs` |
//! | renew, settle | `settle.rs` |
//! | sweep, retention | `sweep.rs` |
//! | retry, cancel, delete, tune | `verbs.rs`, `settings.rs` |
//! | get, list, counts, workers | `look.rs`, `workers.rs` |
//!
//! `store.rs` keeps the rows where the verbs look for them. Where a promise is kept, the code asks
//! whether this store is [broken](crate::broken) there.

mod clock;
mod handle;
mod lanes;
mod look;
mod push;
mod reserve;
mod row;
mod settings;
mod settle;
mod store;
mod sweep;
mod verbs;
mod workers;

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use jobs_core::{Admin, retention::Retention};

pub use handle::Handle;

use crate::{
    broken::{Fault, lies::Liar},
    fixture::{Fixture, Transaction},
};
use handle::Shared;

/// The model as a store under test: its namespaces, and the promise it does not keep, if any.
#[derive(Debug, Default)]
pub struct Model {
    namespaces: Mutex<HashMap<String, Arc<Shared>>>,
    fault: Option<Fault>,
}

impl Model {
    /// A model that does not keep one promise.
    pub fn broken(fault: Fault) -> Self {
        Self { fault: Some(fault), ..Self::default() }
    }

    /// A handle on a store of its own, in no namespace.
    pub fn alone() -> Handle {
        Handle::new(Arc::new(Shared::new(None)), Retention::default())
    }

    fn namespace(&self, name: &str) -> Arc<Shared> {
        // Nothing under this lock can panic half way, so a poisoned map is whole.
        let mut namespaces = self.namespaces.lock().unwrap_or_else(PoisonError::into_inner);
        let new = || Arc::new(Shared::new(self.fault));
        namespaces.entry(name.to_owned()).or_insert_with(new).clone()
    }
}

#[async_trait]
impl Fixture for Model {
    fn name(&self) -> &'static str {
        "the model"
    }

    fn crosses_processes(&self) -> bool {
        false
    }

    async fn make(&self, namespace: &str, retention: Retention) -> Arc<dyn Admin> {
        let handle = Handle::new(self.namespace(namespace), retention);
        match self.fault {
            Some(fault) => Arc::new(Liar { handle, fault }),
            None => Arc::new(handle),
        }
    }

    async fn age(&self, namespace: &str, by: Duration) {
        self.namespace(namespace).store().clock.age(by);
    }

    async fn make_cut(&self, namespace: &str, after: usize) -> Arc<dyn Admin> {
        let handle = Handle::new(self.namespace(namespace), Retention::default());
        Arc::new(handle.cut_after(after))
    }

    async fn begin(&self, _: &str) -> Option<Box<dyn Transaction>> {
        None
    }

    async fn remove(&self, namespace: &str) {
        let mut namespaces = self.namespaces.lock().unwrap_or_else(PoisonError::into_inner);
        namespaces.remove(namespace);
    }
}
