//! PostgreSQL as a store to soak: a server of the run's own, so that it can be killed.

#[path = "layout.rs"]
mod layout;

use std::{
    path::Path,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use jobs_core::{Admin, Result, async_trait, retention::Retention};
use jobs_postgres::{Options, Postgres};
use jobs_servers::PrivatePostgres;
use jobs_testkit::soak::{Begun, Faults, Soak, Trouble};
use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection};
use tokio::task::spawn_blocking;

/// A store on a server of its own.
#[derive(Default)]
pub struct Server(Arc<Mutex<Option<PrivatePostgres>>>);

#[async_trait]
impl Soak for Server {
    fn name(&self) -> &'static str {
        "postgres"
    }

    fn unavailable(&self) -> Option<String> {
        let missing = PrivatePostgres::find().is_none();
        missing.then(|| "install PostgreSQL, or run `cargo xtask test --install`".to_owned())
    }

    fn url(&self, _: &Path) -> Result<String, String> {
        let server = PrivatePostgres::start()?;
        let url = server.url();
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(server);
        Ok(url)
    }

    async fn open(&self, url: &str, trouble: Trouble) -> Result<Arc<dyn Admin>> {
        let long = Duration::from_secs(366 * 24 * 3600);
        let retention = Retention { done: long, done_per_queue: u64::MAX >> 1, cancelled: long };
        let mut options = Options::new(url)?.retention(retention);
        if let Some(round_trip) = trouble.cut_after {
            options = options.cut_after(round_trip);
        }
        if let Some(round_trips) = trouble.cut_every {
            options = options.cut_every(round_trips);
        }
        let store = Postgres::open(options).await?;
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

    /// Every statement on live jobs waits for the lock.
    async fn hold(&self, url: &str, length: Duration, begun: Begun<'_>) -> Result<(), String> {
        // Without a server nothing is slow, and a connection that breaks is the end of the lock.
        let Ok(mut conn) = PgConnection::connect(url).await else { return Ok(()) };
        let lock = "BEGIN; LOCK TABLE jobs.live IN ACCESS EXCLUSIVE MODE";
        if (&mut conn).execute(sqlx::raw_sql(lock)).await.is_ok() {
            begun();
            let sleep = format!("SELECT pg_sleep({})", length.as_secs_f64());
            (&mut conn).execute(sqlx::raw_sql(AssertSqlSafe(sleep))).await.ok();
        }
        conn.close().await.ok();
        Ok(())
    }

    /// Killed by SIGKILL, as in a crash.
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
        let mut conn = PgConnection::connect(url).await.map_err(|error| error.to_string())?;
        let said = layout::wrong(&mut conn).await.map_err(|error| error.to_string());
        conn.close().await.ok();
        said
    }

    async fn connections(&self, url: &str) -> Result<usize, String> {
        let mut conn = PgConnection::connect(url).await.map_err(|error| error.to_string())?;
        let others = "SELECT count(*) FROM pg_stat_activity
            WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()";
        let number: Result<i64, _> = sqlx::query_scalar(others).fetch_one(&mut conn).await;
        conn.close().await.ok();
        number.map(|number| number as usize).map_err(|error| error.to_string())
    }

    fn leaves(&self, _: &str) -> bool {
        false
    }
}
