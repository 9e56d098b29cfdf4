//! Retry (A3, P3).

use std::collections::BTreeSet;

use jobs_core::{Error, ErrorKind, JobId, JobRef, Permit, Result, admin::Retried, permit::Retry};
use sqlx::postgres::PgRow;
use uuid::Uuid;

use super::cancel::{bind, read};
use crate::{
    Postgres,
    db::get,
    error::Fault,
    row::{self, at},
};

const SQL: &str = "SELECT * FROM jobs.retry($1, $2, $3, $4)";

/// Puts jobs back in line.
pub(crate) async fn all(
    store: &Postgres,
    permit: &Permit<Retry>,
    jobs: &[JobRef],
) -> Result<Vec<Retried>> {
    let rows = store.db.call("retry", SQL, |args| {
        args.add(permit.tenant())?;
        args.add(permit.by())?;
        bind(args, jobs)
    });
    let rows = rows.await?;
    let answer = |code, row: &PgRow| {
        Ok(Some(match code {
            1 => Retried::Retried,
            2 => Retried::NotRetryable(row::state(get(row, at::STATE)?)?),
            3 => {
                let id = JobId(get::<Uuid>(row, at::ID)?);
                Retried::KeyHeld(id, row::state(get(row, at::STATE)?)?)
            }
            _ => return Ok(None),
        }))
    };
    let answers = read(&rows, Some(Retried::Unknown), jobs.len(), answer);
    let answers = answers.map_err(|fault| fault.into_error("retry"))?;
    lined_up(store, &rows).map_err(|fault| fault.into_error("retry"))?;
    let answers: Option<Vec<_>> = answers.into_iter().collect();
    answers.ok_or_else(|| {
        let what = "another transaction takes or frees a key that is needed: try again";
        Error::new(ErrorKind::Busy, "retry", what)
    })
}

/// The lines that jobs are in again are known to this handle, and who watches is woken.
fn lined_up(store: &Postgres, rows: &[PgRow]) -> std::result::Result<(), Fault> {
    let mut queues = BTreeSet::new();
    for row in rows {
        if get::<i16>(row, at::CODE)? == 1 {
            let (line, due) = row::line(row)?;
            let queue: String = get(row, at::QUEUE)?;
            store.frontier.note(&queue, line, due);
            queues.insert(queue);
        }
    }
    store.wake.tell(&store.db, queues);
    Ok(())
}
