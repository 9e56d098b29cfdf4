//! Redis as a store to soak: a server of the run's own, which is killed.

#[path = "layout.rs"]
mod layout;

use std::{
    path::Path,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use jobs_core::{Admin, Result, async_trait, retention::Retention};
use jobs_redis::{Durability, Options, Redis};
use jobs_servers::PrivateRedis;
use jobs_testkit::soak::{Begun, Faults, Soak, Trouble};
use tokio::task::spawn_blocking;

/// A store on a server of its own, which syncs before it answers: what it answered outlives a kill.
#[derive(Default)]
pub struct Server(Arc<Mutex<Option<PrivateRedis>>>);

#[async_trait]
impl Soak for Server {
    fn name(&self) -> &'static str {
        "redis"
    }

    fn unavailable(&self) -> Option<String> {
        let missing = PrivateRedis::find().is_none();
        missing.then(|| "install redis-server, or run `cargo xtask test --install`".to_owned())
    }

    fn url(&self, _: &Path) -> Result<String, String> {
        let server = PrivateRedis::start_with(&["--appendfsync", "always"])?;
        let url = server.url();
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(server);
        Ok(url)
    }

    async fn open(&self, url: &str, trouble: Trouble) -> Result<Arc<dyn Admin>> {
        let long = Duration::from_secs(366 * 24 * 3600);
        let retention = Retention { done: long, done_per_queue: u64::MAX >> 1, cancelled: long };
        let mut options = Options::new(url)?.retention(retention).durability(Durability::Durable);
        if let Some(round_trip) = trouble.cut_after {
            options = options.cut_after(round_trip);
        }
        if let Some(round_trips) = trouble.cut_every {
            options = options.cut_every(round_trips);
        }
        let store = Redis::open(options).await?;
        store.migrate().await?;
        Ok(Arc::new(store))
    }

    fn opener(&self) -> Arc<dyn Soak> {
        Arc::new(Self(self.0.clone()))
    }

    fn faults(&self) -> Faults {
        // A process's clock decides nothing: there is none to be off.
        Faults { cut: true, clock: false, hold: true, restart: true }
    }

    /// Every write waits.
    async fn hold(&self, _: &str, length: Duration, begun: Begun<'_>) -> Result<(), String> {
        begun();
        let server = self.0.clone();
        let pause = move || {
            let server = server.lock().unwrap_or_else(PoisonError::into_inner);
            let server = server.as_ref().ok_or("there is no server of this run's own")?;
            let millis = length.as_millis().to_string();
            // While it is being started again nothing is slow.
            server.cli(&["client", "pause", &millis, "write"]).ok();
            Ok::<_, String>(())
        };
        spawn_blocking(pause).await.map_err(|error| error.to_string())??;
        tokio::time::sleep(length).await;
        Ok(())
    }

    /// It is killed by SIGKILL and comes back with what it had synced; its scripts are forgotten.
    async fn restart(&self, _: &str, begun: Begun<'_>) -> Result<(), String> {
        begun();
        let server = self.0.clone();
        let restart = move || {
            let mut server = server.lock().unwrap_or_else(PoisonError::into_inner);
            let server = server.as_mut().ok_or("there is no server of this run's own")?;
            server.kill()?;
            server.start_again()
        };
        spawn_blocking(restart).await.map_err(|error| error.to_string())?
    }

    async fn unsound(&self, url: &str) -> Result<Vec<String>, String> {
        layout::wrong(url, "jobs").await
    }

    fn leaves(&self, _: &str) -> bool {
        false
    }
}
