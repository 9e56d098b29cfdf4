//! PostgreSQL, and a pgbouncer in transaction mode in front of it.

use std::env;

use jobs_servers::{PrivatePgbouncer, PrivatePostgres, install, psql};
use url::Url;

use super::Ready;

/// A superuser's URL on a database of a PostgreSQL.
const SERVER: &str = "JOBS_TEST_POSTGRES_URL";
/// The same through a pgbouncer in transaction mode.
const POOLER: &str = "JOBS_TEST_PGBOUNCER_URL";

/// Where the developer names a server, that one; a pooler of ours is in front of it unless one is
/// named too.
pub fn ready(may_install: bool) -> Result<Ready, String> {
    let [server, pooler] = [SERVER, POOLER].map(|name| env::var(name).ok());
    if server.is_none() && pooler.is_some() {
        return Err(format!("{POOLER} is set and {SERVER} is not: name the server behind it"));
    }
    let mut ready = Ready::default();
    let has_server = server.is_some() || PrivatePostgres::find().is_some();
    let has_pooler = pooler.is_some() || PrivatePgbouncer::find().is_some();
    let missing = [(has_server, PrivatePostgres::PACKAGE), (has_pooler, PrivatePgbouncer::PACKAGE)];
    let missing: Vec<_> = missing.iter().filter(|(has, _)| !has).map(|(_, name)| *name).collect();
    if !missing.is_empty() {
        let named = missing.join(" and ");
        let advice = format!(
            "{named} not found: install it (--install does, where there is apt-get), or name one that \
             runs in {SERVER} and {POOLER}"
        );
        if !may_install {
            return Err(advice);
        }
        install(&missing).map_err(|why| format!("{why}; {advice}"))?;
    }
    let server = match server {
        Some(url) => url,
        None => {
            let private = PrivatePostgres::start()?;
            let url = private.url();
            ready._servers.push(Box::new(private));
            url
        }
    };
    let pooler = match pooler {
        Some(url) => url,
        None => {
            let private = PrivatePgbouncer::start(&server)?;
            let url = private.url();
            // In front of the server at the end, too.
            ready._servers.insert(0, Box::new(private));
            url
        }
    };
    ready.environment = vec![(SERVER, server), (POOLER, pooler)];
    Ok(ready)
}

/// A new, empty database for the benchmark's run of this number.
pub fn database(ready: &Ready, run: usize) -> Result<String, String> {
    let server = server(ready)?;
    forget(ready, run)?;
    psql(server, &format!("CREATE DATABASE {}", name(run)))?;
    with_database(server, &name(run))
}

/// Drops it.
pub fn forget(ready: &Ready, run: usize) -> Result<(), String> {
    let drop_it = format!("DROP DATABASE IF EXISTS {} WITH (FORCE)", name(run));
    psql(server(ready)?, &drop_it).map(drop)
}

/// Of this process, so that two do not meet on one server.
fn name(run: usize) -> String {
    format!("bench_{}_{run}", std::process::id())
}

fn server(ready: &Ready) -> Result<&str, String> {
    let url = ready.environment.iter().find(|(name, _)| *name == SERVER);
    url.map(|(_, url)| url.as_str()).ok_or_else(|| format!("{SERVER} is not known"))
}

/// The URL with another database.
fn with_database(url: &str, database: &str) -> Result<String, String> {
    let mut url = Url::parse(url).map_err(|error| format!("{url}: {error}"))?;
    url.set_path(database);
    Ok(url.into())
}
