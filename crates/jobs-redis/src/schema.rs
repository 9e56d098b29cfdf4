//! What a store is made of: one key in each shard that says so.

use fred::{
    interfaces::{ClientLike, ClusterInterface, KeysInterface},
    types::{ClusterHash, CustomCommand, SetOptions, Value, config::Server},
};
use jobs_core::{ErrorKind, Result};

use crate::{db::Db, error::Fault, keys::key, options::Durability};

/// The schema's version. Migrations only add: a release runs on its own version and the next.
pub(crate) const VERSION: u32 = 1;
/// The oldest server: sharded publish and flags of scripts.
pub const OLDEST_SERVER: (u32, u32) = (7, 0);

/// Of the key `meta`: version and number of shards.
fn parsed(meta: &str) -> Option<(u32, u32)> {
    let (version, shards) = meta.split_once(' ')?;
    Some((version.parse().ok()?, shards.parse().ok().filter(|shards| *shards > 0)?))
}

fn fits(meta: &str) -> std::result::Result<u32, Fault> {
    let (version, shards) =
        parsed(meta).ok_or_else(|| Fault::Corrupt(format!("the key meta says {meta:.40}")))?;
    if version > VERSION + 1 {
        let what = format!(
            "the store is of version {version}, this release knows {VERSION} and the next: upgrade \
             the application"
        );
        return Err(Fault::Refused(ErrorKind::Schema, what));
    }
    Ok(shards)
}

/// How many shards the store has.
pub(crate) async fn shards(db: &Db) -> std::result::Result<u32, Fault> {
    match db.read(0, "meta").await? {
        Some(meta) => fits(&meta),
        None => {
            let what = "there is no store under this prefix: call migrate()".to_owned();
            Err(Fault::Refused(ErrorKind::Schema, what))
        }
    }
}

/// Marks every shard. Any number of processes may do that at once; the first says how many there are.
pub(crate) async fn migrate(db: &Db) -> Result<()> {
    let migrate = async {
        let wanted = format!("{VERSION} {}", db.options.shards_of_a_new_store());
        mark(db, 0, &wanted).await?;
        let meta = db.read(0, "meta").await?.unwrap_or_default();
        for shard in 1..fits(&meta)? {
            mark(db, shard, &meta).await?;
        }
        Ok(())
    };
    db.within("migrate", migrate).await
}

async fn mark(db: &Db, shard: u32, meta: &str) -> std::result::Result<(), Fault> {
    let key = key(&db.options.prefix, shard, "meta");
    let set = || async {
        let client = db.client().await?;
        let set = client.set(key.as_str(), meta, None, Some(SetOptions::NX), false);
        let _: Value = set.await?;
        Ok(())
    };
    db.again(set).await
}

/// Is it a server to trust jobs to? Asked of every master.
pub(crate) async fn check(db: &Db) -> Result<()> {
    let check = async {
        for server in masters(db).await? {
            let info = Info::of(db, server.as_ref()).await?;
            info.is_safe(db).await?;
        }
        match db.read(0, "meta").await? {
            Some(meta) => fits(&meta).map(drop),
            None => Ok(()),
        }
    };
    db.within("open", check).await
}

/// The masters of a cluster; of a lone server nothing.
pub(crate) async fn masters(db: &Db) -> std::result::Result<Vec<Option<Server>>, Fault> {
    let state = db.again(|| async { Ok(db.client().await?.cached_cluster_state()) }).await?;
    Ok(match state {
        Some(state) => state.unique_primary_nodes().into_iter().map(Some).collect(),
        None => vec![None],
    })
}

/// What a server says of itself.
pub(crate) struct Info {
    text: String,
    server: Option<Server>,
}

impl Info {
    pub async fn of(db: &Db, server: Option<&Server>) -> std::result::Result<Self, Fault> {
        let text = ask(db, server, "INFO", Vec::new()).await?;
        let Value::String(text) = text else {
            return Err(Fault::Corrupt("INFO answers no text".to_owned()));
        };
        Ok(Self { text: text.to_string(), server: server.cloned() })
    }

    /// One of its fields.
    pub fn field(&self, name: &str) -> Option<&str> {
        let value = |line: &'_ str| line.strip_prefix(name)?.strip_prefix(':').map(str::len);
        let line = self.text.lines().find(|line| value(line).is_some())?;
        Some(&line[name.len() + 1..])
    }

    /// What may evict or lose jobs is refused, in words that say what to set.
    async fn is_safe(&self, db: &Db) -> std::result::Result<(), Fault> {
        let refused = |what: String| Err(Fault::Refused(ErrorKind::Unsafe, what));
        let version = self.field("redis_version").unwrap_or("0");
        let mut numbers = version.split('.').map(|number| number.parse::<u32>().unwrap_or(0));
        let found = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
        if found < OLDEST_SERVER {
            return refused(format!("the server is {version}: 7.0 or newer is needed"));
        }
        match self.field("maxmemory_policy") {
            None | Some("noeviction") => {}
            Some(policy) => {
                return refused(format!(
                    "the server may evict jobs (maxmemory-policy {policy}): set maxmemory-policy \
                     noeviction"
                ));
            }
        }
        if db.options.durability == Durability::Durable {
            self.is_durable(db).await?;
        }
        Ok(())
    }

    async fn is_durable(&self, db: &Db) -> std::result::Result<(), Fault> {
        for (setting, wanted) in [("appendonly", "yes"), ("appendfsync", "always")] {
            let arguments = vec!["GET".into(), setting.into()];
            let found = match ask(db, self.server.as_ref(), "CONFIG", arguments).await {
                Ok(Value::Array(pair)) => pair.get(1).and_then(Value::as_string),
                Ok(_) => None,
                Err(fault) if fault.is_passing() => return Err(fault),
                Err(_) => None,
            };
            if found.as_deref() != Some(wanted) {
                let found = found.unwrap_or_else(|| "not to be asked for".to_owned());
                let what = format!(
                    "Durability::Durable needs {setting} {wanted}, which is {found}: set it, or open \
                     the store with Durability::Fast"
                );
                return Err(Fault::Refused(ErrorKind::Unsafe, what));
            }
        }
        Ok(())
    }
}

async fn ask(
    db: &Db,
    server: Option<&Server>,
    command: &'static str,
    arguments: Vec<Value>,
) -> std::result::Result<Value, Fault> {
    let ask = || async {
        let client = db.client().await?;
        let command = CustomCommand::new_static(command, ClusterHash::Random, false);
        Ok(match server {
            Some(server) => {
                client.with_cluster_node(server).custom(command, arguments.clone()).await?
            }
            None => client.custom(command, arguments.clone()).await?,
        })
    };
    db.again(ask).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_newer_store_is_refused_and_a_strange_one_is_damage() {
        assert_eq!(fits("1 8").ok(), Some(8));
        assert_eq!(fits("2 8").ok(), Some(8));
        assert!(matches!(fits("3 8"), Err(Fault::Refused(ErrorKind::Schema, _))));
        for bad in ["", "1", "1 0", "x 1", "1 x"] {
            assert!(matches!(fits(bad), Err(Fault::Corrupt(_))), "{bad}");
        }
    }
}
