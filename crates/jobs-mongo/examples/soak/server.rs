//! MongoDB as a store to soak: a set of three of the run's own, whose primary is killed.

#[path = "layout.rs"]
mod layout;

use std::{
    path::Path,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use jobs_core::{Admin, Result, async_trait, retention::Retention};
use jobs_mongo::{Mongo, Options};
use jobs_servers::PrivateMongo;
use jobs_testkit::soak::{Begun, Faults, Soak, Trouble};
use mongodb::{Client, Database, bson::doc};
use tokio::task::spawn_blocking;

/// A store on a set of its own.
#[derive(Default)]
pub struct Server(Arc<Mutex<Option<PrivateMongo>>>);

async fn database(url: &str, name: &str) -> mongodb::error::Result<Database> {
    Ok(Client::with_uri_str(url).await?.database(name))
}

#[async_trait]
impl Soak for Server {
    fn name(&self) -> &'static str {
        "mongo"
    }

    fn unavailable(&self) -> Option<String> {
        let missing = PrivateMongo::find().is_none();
        missing.then(|| "install MongoDB, or run `cargo xtask test --install`".to_owned())
    }

    fn url(&self, _: &Path) -> Result<String, String> {
        let server = PrivateMongo::start_three()?;
        let url = server.url();
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(server);
        Ok(url)
    }

    async fn open(&self, url: &str, trouble: Trouble) -> Result<Arc<dyn Admin>> {
        let long = Duration::from_secs(366 * 24 * 3600);
        let retention = Retention { done: long, done_per_queue: u64::MAX >> 1, cancelled: long };
        let mut options = Options::new(url).await?.retention(retention);
        if let Some(round_trip) = trouble.cut_after {
            options = options.cut_after(round_trip);
        }
        if let Some(round_trips) = trouble.cut_every {
            options = options.cut_every(round_trips);
        }
        let store = Mongo::open(options).await?;
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

    /// Every write waits for the lock.
    async fn hold(&self, url: &str, length: Duration, begun: Begun<'_>) -> Result<(), String> {
        // Without a primary nothing is slow.
        let Ok(admin) = database(url, "admin").await else { return Ok(()) };
        if admin.run_command(doc! { "ping": 1 }).await.is_err() {
            return Ok(());
        }
        // It holds writes up before it is answered.
        begun();
        if admin.run_command(doc! { "fsync": 1, "lock": true }).await.is_ok() {
            tokio::time::sleep(length).await;
            admin.run_command(doc! { "fsyncUnlock": 1 }).await.ok();
        }
        Ok(())
    }

    /// The primary is killed by SIGKILL, another takes over, and the killed one comes back.
    async fn restart(&self, _: &str, begun: Begun<'_>) -> Result<(), String> {
        begun();
        // A write that waits for its majority when the primary is killed was sent before.
        tokio::time::sleep(Duration::from_millis(300)).await;
        let server = self.0.clone();
        let restart = move || {
            let mut server = server.lock().unwrap_or_else(PoisonError::into_inner);
            let server = server.as_mut().ok_or("there is no server of this run's own")?;
            let primary = server.primary()?;
            server.kill(primary)?;
            server.primary()?;
            server.start_again(primary)
        };
        spawn_blocking(restart).await.map_err(|error| error.to_string())?
    }

    async fn unsound(&self, url: &str) -> Result<Vec<String>, String> {
        let database = database(url, "jobs").await.map_err(|error| error.to_string())?;
        layout::wrong(&database).await.map_err(|error| error.to_string())
    }

    fn leaves(&self, _: &str) -> bool {
        false
    }
}
