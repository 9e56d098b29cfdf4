//! Sweep (X1): takes back what was silent, promotes what came due, prunes history (S5).

use std::{collections::BTreeSet, sync::PoisonError};

use jobs_core::{
    JobId, JobRef, Result,
    queue::{Lost, Swept},
    time::delay_millis,
};
use sqlx::postgres::PgRow;
use uuid::Uuid;

use crate::{
    Postgres,
    db::get,
    error::Fault,
    row::{self, at},
};

/// Most that one sweep does of each.
const BATCH: i32 = 500;

const SQL: &str = "SELECT * FROM jobs.sweep($1, $2, $3, $4, $5)";

/// Where a round that goes on from nowhere begins with the history: above every queue.
pub(crate) const FIRST: &str = "~";

/// One bounded round.
pub(crate) async fn round(store: &Postgres) -> Result<Swept> {
    let retention = store.db.options.retention;
    let after = store.swept.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let rows = store.db.call("sweep", SQL, |args| {
        args.add(BATCH)?;
        args.add(delay_millis(retention.done))?;
        args.add(i64::try_from(retention.done_per_queue).unwrap_or(i64::MAX))?;
        args.add(delay_millis(retention.cancelled))?;
        args.add(after.as_str())
    });
    read(store, &rows.await?).map_err(|fault| fault.into_error("sweep"))
}

fn read(store: &Postgres, rows: &[PgRow]) -> std::result::Result<Swept, Fault> {
    let (mut swept, mut queues) = (Swept::default(), BTreeSet::new());
    let count = |number: i32| usize::try_from(number).unwrap_or_default();
    for row in rows {
        match get::<i16>(row, at::PART)? {
            0 => {
                swept.promoted = count(get(row, at::AT)?);
                swept.pruned = count(get(row, at::ATTEMPT)?);
                swept.more = get::<i16>(row, at::CODE)? > 0;
                *store.swept.lock().unwrap_or_else(PoisonError::into_inner) = get(row, at::QUEUE)?;
            }
            part => {
                let (line, due) = row::line(row)?;
                let queue: String = get(row, at::QUEUE)?;
                let state = match part {
                    1 => row::state(get(row, at::STATE)?)?,
                    _ => jobs_core::State::Ready,
                };
                if part == 1 {
                    let id = JobId(get::<Uuid>(row, at::ID)?);
                    swept.lost.push(Lost {
                        job: JobRef { tenant: line.tenant.clone(), id },
                        queue: queue.clone(),
                        name: line.name.clone(),
                        attempt: row::small(get(row, at::ATTEMPT)?),
                        state,
                    });
                }
                if state == jobs_core::State::Ready {
                    store.frontier.note(&queue, line, due);
                    queues.insert(queue);
                }
            }
        }
    }
    store.wake.tell(&store.db, queues);
    Ok(swept)
}
