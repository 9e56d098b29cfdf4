//! Check (A7).

use jobs_core::{Result, time::from_millis, view::Check};

use crate::{
    Redis,
    reply::int,
    schema::{Info, VERSION, masters},
    script::script,
};

script!(CHECK, ALWAYS, "check.lua");

/// Schema, safety settings and clock.
pub(crate) async fn health(store: &Redis) -> Result<Check> {
    let db = &store.db;
    let health = async {
        let now = int(&db.run(0, &CHECK, Vec::new()).await?)?;
        let (mut findings, mut version) = (Vec::new(), String::new());
        for server in masters(db).await? {
            let info = Info::of(db, server.as_ref()).await?;
            let at = server.map_or_else(String::new, |server| format!("{server}: "));
            version = info.field("redis_version").unwrap_or("unknown").to_owned();
            if info.field("maxmemory_policy").is_some_and(|policy| policy != "noeviction") {
                findings.push(format!("{at}may evict jobs: set maxmemory-policy noeviction"));
            }
            if info.field("aof_enabled") == Some("0") {
                findings.push(format!(
                    "{at}keeps no append-only file, so a restart loses jobs: set appendonly yes"
                ));
            }
            if info.field("aof_last_write_status").is_some_and(|status| status != "ok") {
                findings.push(format!("{at}cannot write its append-only file: look at its log"));
            }
        }
        Ok(Check {
            store: format!("Redis {version}"),
            schema: VERSION,
            now: from_millis(now),
            findings,
        })
    };
    db.within("check", health).await
}
