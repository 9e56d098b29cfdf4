//! What must agree between a job's hash and the sets it is in, whoever has written them.

use jobs_redis::fred::{
    interfaces::{ClientLike, LuaInterface},
    types::{Builder, config::Config},
};

/// Behind the prelude of the scripts: one sentence for each thing that is wrong, at most twenty.
const LAYOUT: &str =
    concat!("#!lua\n", include_str!("../../src/op/prelude.lua"), include_str!("layout.lua"));

/// One sentence for each thing that is wrong in the first shard.
///
/// # Errors
/// The server's.
pub async fn wrong(url: &str, prefix: &str) -> Result<Vec<String>, String> {
    let said = |error: jobs_redis::fred::error::Error| error.to_string();
    let config = Config::from_url(url).map_err(said)?;
    let client = Builder::from_config(config).build().map_err(said)?;
    client.init().await.map_err(said)?;
    let keys = ["meta", "nil"].map(|name| format!("{{{prefix}:0}}:{name}"));
    let found = client.eval(LAYOUT, keys.to_vec(), Vec::<String>::new()).await;
    client.quit().await.ok();
    found.map_err(said)
}
