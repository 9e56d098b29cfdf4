//! The handle's clients, and one script on one of them.
//!
//! A client of the fred crate is bound to the runtime that made it: its connection is a task there. So
//! a handle makes one for each runtime that calls, and outlives runtimes.

use std::{
    future::Future,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use fred::{
    clients::{Client, WithOptions},
    interfaces::{KeysInterface, LuaInterface},
    types::{Builder, Value},
};
use jobs_core::{ErrorKind, Result};
use tokio::{
    runtime::{Handle, Id},
    sync::OnceCell,
};

use crate::{
    client::{Own, builder, sending},
    error::{Fault, LATE},
    keys::{key, shard_of},
    options::Options,
    schema,
    script::Script,
};

/// Clients kept, the newest: those of runtimes that ended are no use.
const CLIENTS: usize = 4;
/// Between two attempts while a slot or a master moves: the first, and the longest.
const AGAIN: (Duration, Duration) = (Duration::from_millis(10), Duration::from_millis(250));

/// The client of one runtime, once it is connected.
type Cell = Arc<OnceCell<Own<Client>>>;

/// The connections of one handle.
#[derive(Debug)]
pub(crate) struct Db {
    pub options: Arc<Options>,
    clients: Mutex<Vec<(Id, Cell)>>,
    shards: OnceCell<u32>,
}

impl Db {
    pub fn new(options: Arc<Options>) -> Self {
        Self { options, clients: Mutex::default(), shards: OnceCell::new() }
    }

    /// How to connect.
    pub fn builder(&self) -> Builder {
        builder(&self.options.config)
    }

    /// The client of the calling runtime: one that was lent to it, or the handle's own.
    pub async fn client(&self) -> std::result::Result<WithOptions<Client>, Fault> {
        let runtime = Handle::current().id();
        if let Some(client) = self.options.lent.as_ref().and_then(|lent| lent.next(runtime)) {
            return Ok(sending(client));
        }
        let cell = {
            let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
            match clients.iter().find(|(id, _)| *id == runtime) {
                Some((_, cell)) => cell.clone(),
                None => {
                    if clients.len() >= CLIENTS {
                        clients.remove(0);
                    }
                    let cell = Arc::new(OnceCell::new());
                    clients.push((runtime, cell.clone()));
                    cell
                }
            }
        };
        let connect = || async { Own::connect(self.builder().build()?).await };
        Ok(sending(&cell.get_or_try_init(connect).await?.client))
    }

    /// The calling runtime's client has ended: the next call makes another.
    fn forget_client(&self) {
        let runtime = Handle::current().id();
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        clients.retain(|(id, _)| *id != runtime);
    }

    /// A method, within the deadline of one call.
    pub async fn within<T>(
        &self,
        operation: &'static str,
        method: impl Future<Output = std::result::Result<T, Fault>>,
    ) -> Result<T> {
        let done = tokio::time::timeout(self.options.deadline, method).await;
        done.unwrap_or(Err(LATE)).map_err(|fault| fault.into_error(operation))
    }

    /// How many shards the store was made with.
    pub async fn shards(&self) -> std::result::Result<u32, Fault> {
        self.shards.get_or_try_init(|| schema::shards(self)).await.copied()
    }

    /// Which shard a tenant is in.
    pub async fn shard_of(&self, tenant: &str) -> std::result::Result<u32, Fault> {
        Ok(shard_of(tenant, self.shards().await?))
    }

    /// One script on one shard; sent again while the slot or its master moves.
    pub async fn run(
        &self,
        shard: u32,
        script: &Script,
        arguments: Vec<Value>,
    ) -> std::result::Result<Value, Fault> {
        self.again(|| self.once(shard, script, &arguments)).await
    }

    async fn once(
        &self,
        shard: u32,
        script: &Script,
        arguments: &[Value],
    ) -> std::result::Result<Value, Fault> {
        let client = self.client().await?;
        let prefix = &self.options.prefix;
        let keys = || vec![key(prefix, shard, "meta"), key(prefix, shard, "nil")];
        let (hash, text) = script.get();
        let answer = client.evalsha(hash, keys(), arguments.to_vec()).await.map_err(Fault::from);
        let answer = match answer {
            Err(fault) if fault.is_no_script() => {
                client.eval(text, keys(), arguments.to_vec()).await.map_err(Fault::from)
            }
            answer => answer,
        }?;
        self.seen()?;
        Ok(answer)
    }

    /// Whatever `attempt` does, again while the server or a slot is on its way.
    pub async fn again<T, F>(&self, attempt: impl Fn() -> F) -> std::result::Result<T, Fault>
    where
        F: Future<Output = std::result::Result<T, Fault>>,
    {
        let mut wait = AGAIN.0;
        loop {
            let fault = match attempt().await {
                Err(fault) if fault.is_passing() => fault,
                answer => return answer,
            };
            tracing::debug!(?fault, "a command is sent again");
            if fault.is_of_a_dead_client() {
                self.forget_client();
            }
            tokio::time::sleep(wait.mul_f64(0.5 + fastrand::f64() / 2.0)).await;
            wait = (2 * wait).min(AGAIN.1);
        }
    }

    /// A key's text.
    pub async fn read(&self, shard: u32, name: &str) -> std::result::Result<Option<String>, Fault> {
        let key = key(&self.options.prefix, shard, name);
        let read = || async { Ok(self.client().await?.get(key.as_str()).await?) };
        self.again(read).await
    }

    /// Counts a round trip, whose answer a cut connection loses.
    fn seen(&self) -> std::result::Result<(), Fault> {
        match &self.options.cut {
            Some(cut) if cut.now() => {
                Err(Fault::Broken(ErrorKind::Unavailable, "the connection was cut: try again"))
            }
            _ => Ok(()),
        }
    }
}
