//! Connections: the handle's own, or those of a client that an application lends it.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use fred::{
    clients::{Client, Pool, WithOptions},
    interfaces::ClientLike,
    types::{
        Builder, ConnectHandle,
        config::{
            Config, Options as CommandOptions, ReconnectError, ReconnectPolicy, UnresponsiveConfig,
        },
    },
};
use jobs_core::{Error, ErrorKind, Result};
use tokio::runtime::{Handle, Id};

use crate::error::Fault;

/// How long one command may take; the client has no limit of its own.
const COMMAND: Duration = Duration::from_secs(5);
/// How long a connection may be silent with a command on it.
const SILENT: Duration = Duration::from_secs(8);
/// Sendings of one command over broken connections: every script is safe to repeat.
const ATTEMPTS: u32 = 3;

/// How to connect: with timeouts and reconnections, of which the crate's defaults are none.
pub(crate) fn builder(config: &Config) -> Builder {
    let mut builder = Builder::from_config(config.clone());
    builder
        .set_policy(ReconnectPolicy::new_exponential(0, 20, 1000, 2))
        .with_performance_config(|config| {
            config.default_command_timeout = COMMAND;
            config.broadcast_channel_capacity = 1024;
        })
        .with_connection_config(|config| {
            config.connection_timeout = COMMAND;
            config.internal_command_timeout = COMMAND;
            config.max_command_attempts = ATTEMPTS;
            config.max_redirections = 0;
            config.unresponsive =
                UnresponsiveConfig { max_timeout: Some(SILENT), interval: SILENT / 4 };
            config.reconnect_errors = vec![
                ReconnectError::ClusterDown,
                ReconnectError::Loading,
                ReconnectError::MasterDown,
                ReconnectError::ReadOnly,
            ];
        });
    builder
}

/// A client as scripts are sent by, whoever made it. Redirections are followed by the caller, by
/// sending again: after ASK the crate's client would send to the node that said so once more, and lose
/// its place among the answers.
pub(crate) fn sending(client: &Client) -> WithOptions<Client> {
    client.with_options(&CommandOptions {
        max_attempts: Some(ATTEMPTS),
        max_redirections: Some(0),
        timeout: Some(COMMAND),
        ..CommandOptions::default()
    })
}

/// A client of the handle's own, which ends with it: dropped by itself it would live on, since its task
/// holds the other end of the channel that it waits at.
#[derive(Debug)]
pub(crate) struct Own<C> {
    pub client: C,
    task: ConnectHandle,
}

impl<C: ClientLike + Send + 'static> Own<C> {
    /// Connects. Dropped before it has, it ends all the same.
    pub async fn connect(client: C) -> std::result::Result<Self, Fault> {
        let connecting = tokio::spawn(async move {
            let task = client.init().await?;
            Ok(Self { client, task })
        });
        let ended = Fault::Broken(ErrorKind::Unavailable, "the runtime is ending: try again");
        connecting.await.unwrap_or(Err(ended))
    }
}

impl<C> Drop for Own<C> {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Clients of the application's. They are of the runtime that made them, and of use only there.
#[derive(Clone)]
pub(crate) struct Lent {
    runtime: Id,
    clients: Arc<[Client]>,
    turn: Arc<AtomicUsize>,
}

impl Lent {
    /// Of a pool, on the runtime that it is used by.
    pub fn of_pool(pool: &Pool) -> Result<Self> {
        Self::new(pool.clients().into())
    }

    /// Of one client, on the runtime that it is used by.
    pub fn of_client(client: &Client) -> Result<Self> {
        Self::new([client.clone()].into())
    }

    fn new(clients: Arc<[Client]>) -> Result<Self> {
        let refused = |_| {
            let what = "a client is lent inside of the runtime that made it: there is none here";
            Error::new(ErrorKind::Refused, "connect", what)
        };
        let runtime = Handle::try_current().map_err(refused)?.id();
        Ok(Self { runtime, clients, turn: Arc::default() })
    }

    /// The next in turn, on its own runtime.
    pub fn next(&self, runtime: Id) -> Option<&Client> {
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        let count = self.clients.len().max(1);
        self.clients.get(turn % count).filter(|_| runtime == self.runtime)
    }
}

impl fmt::Debug for Lent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Lent({} clients)", self.clients.len())
    }
}
