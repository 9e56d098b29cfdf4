//! Redis: a lone server and a cluster of three masters and a replica.

use std::env;

use jobs_servers::{PrivateRedis, PrivateRedisCluster, REDIS_PACKAGES, install, remove_keys};

use super::Ready;

/// A URL of a lone server.
const SERVER: &str = "JOBS_TEST_REDIS_URL";
/// A URL of a cluster.
const CLUSTER: &str = "JOBS_TEST_REDIS_CLUSTER_URL";

/// Where the developer names one, that one.
pub fn ready(may_install: bool) -> Result<Ready, String> {
    let mut ready = Ready::default();
    let missing = env::var(SERVER).is_err() || env::var(CLUSTER).is_err();
    if missing && PrivateRedis::find().is_none() {
        if !may_install {
            return Err(format!(
                "redis-server not found: install it (--install does), or name a server in {SERVER} \
                 and a cluster in {CLUSTER}"
            ));
        }
        install(REDIS_PACKAGES)?;
    }
    let server = match env::var(SERVER) {
        Ok(url) => url,
        Err(_) => {
            let private = PrivateRedis::start()?;
            let url = private.url();
            ready._servers.push(Box::new(private));
            url
        }
    };
    let cluster = match env::var(CLUSTER) {
        Ok(url) => url,
        Err(_) => {
            let private = PrivateRedisCluster::start()?;
            let url = private.url();
            ready._servers.push(Box::new(private));
            url
        }
    };
    ready.environment = vec![(SERVER, server), (CLUSTER, cluster)];
    Ok(ready)
}

/// A URL with a new, empty prefix for the benchmark's run of this number behind a `#`.
pub fn prefix(ready: &Ready, run: usize) -> Result<String, String> {
    forget(ready, run)?;
    Ok(format!("{}#{}", server(ready)?, name(run)))
}

/// Removes what is stored under it.
pub fn forget(ready: &Ready, run: usize) -> Result<(), String> {
    remove_keys(server(ready)?, &format!("{{{}:*", name(run)))
}

/// Of this process, so that two do not meet on one server.
fn name(run: usize) -> String {
    format!("bench_{}_{run}", std::process::id())
}

fn server(ready: &Ready) -> Result<&str, String> {
    let url = ready.environment.iter().find(|(name, _)| *name == SERVER);
    url.map(|(_, url)| url.as_str()).ok_or_else(|| format!("{SERVER} is not known"))
}
