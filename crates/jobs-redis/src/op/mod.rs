//! One file a verb; the script that it runs is beside it, and what all scripts share in `prelude.lua`.

pub(crate) mod announce;
pub(crate) mod cancel;
pub(crate) mod check;
pub(crate) mod counts;
pub(crate) mod delete;
pub(crate) mod enqueue;
pub(crate) mod get;
pub(crate) mod list;
pub(crate) mod renew;
pub(crate) mod reserve;
pub(crate) mod retry;
pub(crate) mod scoped;
pub(crate) mod set_lane;
pub(crate) mod settle;
pub(crate) mod sweep;
pub(crate) mod turns;
pub(crate) mod workers;

use std::collections::BTreeMap;

use fred::types::Value;
use futures::future::try_join_all;

use crate::{db::Db, error::Fault, keys::shard_of, reply::Reply, script::Script};

/// Items of one script: it holds the server up for as long as it runs, about a millisecond.
pub(crate) const PART: usize = 200;

/// Runs a script over many items, each on its tenant's shard, in order within one; answers in order.
/// After a failure some parts are done; every script answers its repetition.
pub(crate) async fn each<T>(
    db: &Db,
    script: &Script,
    first: &[Value],
    items: &[T],
    tenant: impl Fn(&T) -> &str,
    arguments: impl Fn(&T) -> Vec<Value>,
) -> Result<Vec<Value>, Fault> {
    let shards = db.shards().await?;
    let mut places = BTreeMap::<u32, Vec<usize>>::new();
    for (at, item) in items.iter().enumerate() {
        places.entry(shard_of(tenant(item), shards)).or_default().push(at);
    }
    let run = |(shard, places): (u32, Vec<usize>)| {
        let arguments = &arguments;
        async move {
            let mut answers = Vec::with_capacity(places.len());
            for part in places.chunks(PART) {
                let mut sent = first.to_vec();
                part.iter().for_each(|at| sent.extend(arguments(&items[*at])));
                let mut reply = Reply::of(db.run(shard, script, sent).await?)?;
                for at in part {
                    let missing = || Fault::Corrupt("an answer is missing".to_owned());
                    answers.push((*at, reply.next().ok_or_else(missing)?));
                }
            }
            Ok::<_, Fault>(answers)
        }
    };
    let parts = try_join_all(places.into_iter().map(run)).await?;
    let mut all: Vec<_> = parts.into_iter().flatten().collect();
    all.sort_unstable_by_key(|(at, _)| *at);
    Ok(all.into_iter().map(|(_, answer)| answer).collect())
}

/// An answer of a letter and what follows it.
pub(crate) fn letter(answer: Value) -> Result<(char, String), Fault> {
    let text = crate::reply::text(answer)?;
    let mut letters = text.chars();
    let first = letters.next().ok_or_else(|| Fault::Corrupt("an empty answer".to_owned()))?;
    Ok((first, letters.collect()))
}

/// An answer that no script gives.
pub(crate) fn strange(letter: char) -> Fault {
    Fault::Corrupt(format!("an answer of {letter}"))
}
