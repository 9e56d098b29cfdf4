//! The suite's namespaces with handles that break in earnest: their bytes go through a proxy.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use jobs_core::{Admin, async_trait, retention::Retention};
use jobs_postgres::Options;
use jobs_testkit::{
    fixture::{Fixture, Transaction},
    proxy::Proxy,
};

use crate::{
    common::{URL, schemas::Schemas, variable},
    terminated::Terminated,
};

/// How a handle breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// The request is lost.
    Before,
    /// It is done, and the reply is lost.
    After,
    /// The server ends the session while it is at it.
    Terminated,
}

/// Schemas, and what stands before them.
pub struct Cuts {
    schemas: Schemas,
    way: Way,
    proxies: Mutex<HashMap<String, Vec<Proxy>>>,
}

impl Cuts {
    /// Handles break in this way.
    pub fn new(way: Way) -> Self {
        Self { schemas: Schemas::direct("postgres", variable(URL)), way, proxies: Mutex::default() }
    }
}

#[async_trait]
impl Fixture for Cuts {
    fn name(&self) -> &'static str {
        "postgres"
    }

    async fn make(&self, namespace: &str, retention: Retention) -> Arc<dyn Admin> {
        self.schemas.make(namespace, retention).await
    }

    async fn age(&self, namespace: &str, by: Duration) {
        self.schemas.age(namespace, by).await;
    }

    async fn make_cut(&self, namespace: &str, after: usize) -> Arc<dyn Admin> {
        let url = self.schemas.url();
        if self.way == Way::Terminated {
            let store = self.make(namespace, Retention::default()).await;
            return Arc::new(Terminated::new(store, url, namespace, after));
        }
        let proxy = Proxy::before(url).expect("a proxy");
        let options = Options::new(&proxy.url(url)).expect("a URL").schema(namespace);
        let store = self.schemas.open(namespace, options.expect("a name")).await;
        // What it was opened with says goodbye, and that is a request.
        while !proxy.ports().is_empty() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        match self.way {
            Way::Before => proxy.cut_before(after),
            _ => proxy.cut_after(after),
        }
        let mut proxies = self.proxies.lock().expect("not poisoned");
        proxies.entry(namespace.to_owned()).or_default().push(proxy);
        Arc::new(store)
    }

    async fn begin(&self, namespace: &str) -> Option<Box<dyn Transaction>> {
        self.schemas.begin(namespace).await
    }

    async fn remove(&self, namespace: &str) {
        self.proxies.lock().expect("not poisoned").remove(namespace);
        self.schemas.remove(namespace).await;
    }
}
