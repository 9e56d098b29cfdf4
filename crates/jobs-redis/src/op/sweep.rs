//! Sweep (X1) and retention (S5).

use std::collections::BTreeMap;

use fred::types::Value;
use futures::future::try_join_all;
use jobs_core::{
    JobRef, Result,
    driver::small,
    queue::{Lost, Swept},
    time::delay_millis,
};

use crate::{
    Redis,
    db::Db,
    error::Fault,
    reply::Reply,
    row::{id_of, state_of},
    script::script,
};

script!(SWEEP, ALWAYS, "sweep.lua");
script!(HISTORY, ALWAYS, "history.lua");

/// Most of each that a round does on a shard.
const MOST: i64 = 200;

/// More than there can be, and exact as a score.
const UNCOUNTED: i64 = 1 << 52;

/// One bounded round on every shard.
pub(crate) async fn round(store: &Redis) -> Result<Swept> {
    let sweep = async {
        let shards = store.db.shards().await?;
        let keeping = store.db.options.retention;
        // A lone shard counts by itself.
        let number = if shards == 1 { keeping.done_per_queue } else { u64::MAX };
        let number = i64::try_from(number).unwrap_or(UNCOUNTED).min(UNCOUNTED);
        let mut arguments: Vec<Value> = vec![
            delay_millis(keeping.done).into(),
            number.into(),
            delay_millis(keeping.cancelled).into(),
            MOST.into(),
        ];
        if shards > 1 {
            arguments.extend(last_to_go(&store.db, shards, keeping.done_per_queue).await?);
        }
        let of_shard = |shard| {
            let arguments = arguments.clone();
            async move { swept(Reply::of(store.db.run(shard, &SWEEP, arguments).await?)?) }
        };
        let mut all = Swept::default();
        for part in try_join_all((0..shards).map(of_shard)).await? {
            all.lost.extend(part.lost);
            all.promoted += part.promoted;
            all.pruned += part.pruned;
            all.more |= part.more;
        }
        Ok::<_, Fault>(all)
    };
    let swept = store.db.within("sweep", sweep).await?;
    store.wake.tell(swept.lost.iter().map(|lost| lost.queue.as_str()));
    Ok(swept)
}

/// Of each queue that has too many done jobs over all shards, the youngest of those that have to go
/// now, as arguments. Whoever finds it twice lets the same ones go.
async fn last_to_go(db: &Db, shards: u32, number: u64) -> std::result::Result<Vec<Value>, Fault> {
    let mut counts = BTreeMap::<String, u64>::new();
    for reply in try_join_all((0..shards).map(|at| db.run(at, &HISTORY, Vec::new()))).await? {
        let mut reply = Reply::of(reply)?;
        while reply.left() > 1 {
            let queue = reply.text()?;
            let count = u64::try_from(reply.int()?).unwrap_or_default();
            *counts.entry(queue).or_default() += count;
        }
    }
    let mut last = Vec::new();
    for (queue, count) in counts {
        let surplus = count.saturating_sub(number).min(MOST.unsigned_abs());
        let Some(place) = usize::try_from(surplus).ok().and_then(|surplus| surplus.checked_sub(1))
        else {
            continue;
        };
        let oldest = |shard| {
            let arguments = vec![queue.as_str().into(), surplus.to_string().into()];
            db.run(shard, &HISTORY, arguments)
        };
        let mut all = Vec::new();
        for reply in try_join_all((0..shards).map(oldest)).await? {
            let mut reply = Reply::of(reply)?;
            while reply.left() > 1 {
                let job = reply.text()?;
                all.push((reply.int()?, job));
            }
        }
        all.sort_unstable();
        if let Some((end, job)) = all.into_iter().nth(place) {
            last.extend([queue.into(), end.into(), job.into()]);
        }
    }
    Ok(last)
}

fn swept(mut reply: Reply) -> std::result::Result<Swept, Fault> {
    let (promoted, pruned, more) = (reply.int()?, reply.int()?, reply.int()? == 1);
    let count = |number: i64| usize::try_from(number).unwrap_or_default();
    let (promoted, pruned) = (count(promoted), count(pruned));
    let mut lost = Vec::new();
    while reply.left() > 0 {
        let (tenant, id) = (reply.text()?, reply.text()?);
        lost.push(Lost {
            job: JobRef { tenant, id: id_of(&id)? },
            queue: reply.text()?,
            name: reply.text()?,
            attempt: small(reply.int()?),
            state: state_of(&reply.text()?)?,
        });
    }
    Ok(Swept { lost, promoted, pruned, more })
}
