//! Sweep (X1) and retention (S5).

use futures::future::try_join_all;
use jobs_core::{
    JobRef, Result,
    driver::small,
    queue::{Lost, Swept},
    time::delay_millis,
};

use crate::{
    Redis,
    error::Fault,
    reply::Reply,
    row::{id_of, state_of},
    script::script,
};

script!(SWEEP, ALWAYS, "sweep.lua");

/// Most of each that a round does on a shard.
const MOST: i64 = 200;

/// One bounded round on every shard.
pub(crate) async fn round(store: &Redis) -> Result<Swept> {
    let sweep = async {
        let shards = store.db.shards().await?;
        let keeping = store.db.options.retention;
        let arguments = || {
            let number = i64::try_from(keeping.done_per_queue / u64::from(shards));
            vec![
                delay_millis(keeping.done).into(),
                number.unwrap_or(1 << 52).min(1 << 52).into(),
                delay_millis(keeping.cancelled).into(),
                MOST.into(),
            ]
        };
        let of_shard = |shard| async move {
            swept(Reply::of(store.db.run(shard, &SWEEP, arguments()).await?)?)
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
