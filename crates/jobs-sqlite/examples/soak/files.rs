//! SQLite as a store to soak: a file in the run's directory.

#[path = "layout.rs"]
mod layout;

use std::{
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use jobs_core::{Admin, Result, async_trait, retention::Retention};
use jobs_sqlite::{Options, Sqlite};
use jobs_testkit::soak::{Begun, Faults, Soak, Trouble};
use sqlx::{ConnectOptions, Connection, Row, SqliteConnection, sqlite::SqliteConnectOptions};

/// The file's name.
const FILE: &str = "soak.db";

/// How long a hold waits for its turn to write.
const PATIENCE: Duration = Duration::from_secs(20);

/// A store in a file.
pub struct Files;

async fn connect(url: &str) -> Result<SqliteConnection, String> {
    let options = SqliteConnectOptions::new().filename(url).busy_timeout(Duration::from_secs(5));
    options.connect().await.map_err(|error| error.to_string())
}

#[async_trait]
impl Soak for Files {
    fn name(&self) -> &'static str {
        "sqlite"
    }

    fn url(&self, directory: &Path) -> Result<String, String> {
        Ok(directory.join(FILE).display().to_string())
    }

    async fn open(&self, url: &str, trouble: Trouble) -> Result<Arc<dyn Admin>> {
        let long = Duration::from_secs(366 * 24 * 3600);
        let retention = Retention { done: long, done_per_queue: u64::MAX >> 1, cancelled: long };
        let mut options = Options::new(url)?.retention(retention).clock_off_by(trouble.clock_off);
        if let Some(round_trip) = trouble.cut_after {
            options = options.cut_after(round_trip);
        }
        if let Some(round_trips) = trouble.cut_every {
            options = options.cut_every(round_trips);
        }
        Ok(Arc::new(Sqlite::open(options).await?))
    }

    fn opener(&self) -> Arc<dyn Soak> {
        Arc::new(Self)
    }

    fn faults(&self) -> Faults {
        // There is no server.
        Faults { cut: true, clock: true, hold: true, restart: false }
    }

    async fn hold(&self, url: &str, length: Duration, begun: Begun<'_>) -> Result<(), String> {
        let mut file = connect(url).await?;
        let quick = sqlx::raw_sql("PRAGMA busy_timeout = 0").execute(&mut file).await;
        quick.map_err(|error| error.to_string())?;
        // The writers take turns in steps of a millisecond; SQLite's own longer ones may find none.
        let since = Instant::now();
        while sqlx::raw_sql("BEGIN IMMEDIATE").execute(&mut file).await.is_err() {
            if since.elapsed() > PATIENCE {
                return file.close().await.map_err(|error| error.to_string());
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        begun();
        tokio::time::sleep(length).await;
        file.close().await.map_err(|error| error.to_string())
    }

    async fn unsound(&self, url: &str) -> Result<Vec<String>, String> {
        let mut file = connect(url).await?;
        let rows = sqlx::query("PRAGMA integrity_check").fetch_all(&mut file).await;
        let rows = rows.map_err(|error| error.to_string())?;
        let said = rows.iter().map(|row| row.get::<String, _>(0)).filter(|said| said != "ok");
        let mut said: Vec<String> = said.collect();
        said.extend(layout::wrong(&mut file).await.map_err(|error| error.to_string())?);
        file.close().await.map_err(|error| error.to_string())?;
        Ok(said)
    }

    fn leaves(&self, file: &str) -> bool {
        // The last connection that closes takes the others with it.
        file == FILE
    }
}
