//! A prefix for each namespace.

use std::{sync::Arc, time::Duration};

use jobs_core::{Admin, async_trait, retention::Retention};
use jobs_redis::{
    Options, Redis,
    fred::{
        clients::Client,
        interfaces::{ClientLike, ClusterInterface, LuaInterface},
        types::{Builder, ClusterHash, CustomCommand, Value, config::Server},
    },
};
use jobs_testkit::fixture::{Fixture, Transaction};

const AGE: &str =
    concat!("#!lua\n", include_str!("../../src/op/prelude.lua"), include_str!("age.lua"));

/// The store under test.
pub struct Prefixes {
    name: &'static str,
    url: Result<String, String>,
}

impl Prefixes {
    pub fn new(name: &'static str, url: Result<String, String>) -> Self {
        Self { name, url }
    }

    fn options(&self, namespace: &str) -> Options {
        let url = self.url.as_deref().expect("a server");
        Options::new(url).expect("a URL").prefix(namespace).expect("a prefix")
    }

    async fn open(&self, options: Options) -> Redis {
        let store = Redis::open(options).await.expect("the server answers");
        store.migrate().await.expect("migrates");
        store
    }

    async fn client(&self) -> Client {
        client(self.url.as_deref().expect("a server")).await
    }
}

/// A plain client of the server's.
pub async fn client(url: &str) -> Client {
    let config = jobs_redis::fred::types::config::Config::from_url(url).expect("a URL");
    let client = Builder::from_config(config).build().expect("a client");
    client.init().await.expect("the server answers");
    client
}

/// Any command, on one node of a cluster.
pub async fn command(
    client: &Client,
    server: Option<&Server>,
    name: &'static str,
    arguments: Vec<Value>,
) -> Value {
    let command = CustomCommand::new_static(name, ClusterHash::FirstValue, false);
    let answer = match server {
        Some(server) => client.with_cluster_node(server).custom(command, arguments).await,
        None => client.custom(command, arguments).await,
    };
    answer.expect("the server answers")
}

#[async_trait]
impl Fixture for Prefixes {
    fn name(&self) -> &'static str {
        self.name
    }

    fn unavailable(&self) -> Option<String> {
        self.url.as_ref().err().cloned()
    }

    async fn make(&self, namespace: &str, retention: Retention) -> Arc<dyn Admin> {
        Arc::new(self.open(self.options(namespace).retention(retention)).await)
    }

    async fn age(&self, namespace: &str, by: Duration) {
        let by = i64::try_from(by.as_millis()).expect("a sane time");
        let client = self.client().await;
        for shard in 0.. {
            let key = |name| format!("{{{namespace}:{shard}}}:{name}");
            let there = command(&client, None, "EXISTS", vec![key("meta").into()]).await;
            if there == Value::Integer(0) {
                assert!(shard > 0, "there is a store");
                return;
            }
            let mut from = 0_i64;
            while from >= 0 {
                let keys = vec![key("meta"), key("nil")];
                from = client.eval(AGE, keys, vec![by, from]).await.expect("it ages");
            }
        }
    }

    async fn make_cut(&self, namespace: &str, after: usize) -> Arc<dyn Admin> {
        // Opening it is no part of what is cut.
        self.open(self.options(namespace)).await;
        Arc::new(Redis::open_lazily(self.options(namespace).cut_after(after)))
    }

    async fn begin(&self, _: &str) -> Option<Box<dyn Transaction>> {
        None
    }

    async fn remove(&self, namespace: &str) {
        remove(&self.client().await, namespace).await;
    }
}

/// Removes all keys of a prefix.
pub async fn remove(client: &Client, prefix: &str) {
    let masters = match client.cached_cluster_state() {
        Some(state) => state.unique_primary_nodes().into_iter().map(Some).collect(),
        None => vec![None],
    };
    for master in masters {
        let mut cursor = "0".to_owned();
        loop {
            let pattern = format!("{{{prefix}:*");
            let arguments: Vec<Value> =
                vec![cursor.into(), "MATCH".into(), pattern.into(), "COUNT".into(), 5000.into()];
            let Value::Array(page) = command(client, master.as_ref(), "SCAN", arguments).await
            else {
                panic!("SCAN answers a page")
            };
            let keys = page[1].clone().into_array();
            // Of one slot each, where it is a cluster.
            for key in keys.chunks(if master.is_some() { 1 } else { 1000 }) {
                command(client, master.as_ref(), "UNLINK", key.to_vec()).await;
            }
            cursor = page[0].as_string().expect("a cursor");
            if cursor == "0" {
                break;
            }
        }
    }
}
