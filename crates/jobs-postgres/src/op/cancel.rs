//! Cancel (A3), and what the verbs share.

use jobs_core::{JobRef, Permit, Result, admin::Cancelled, permit::Cancel};
use sqlx::postgres::PgRow;

use crate::{
    Postgres,
    db::{Args, get},
    error::Fault,
    row::{self, at},
};

const SQL: &str = "SELECT * FROM jobs.cancel($1, $2, $3, $4)";

/// The jobs asked for.
pub(super) fn bind(args: &mut Args, jobs: &[JobRef]) -> std::result::Result<(), Fault> {
    args.add(jobs.iter().map(|job| row::plain(&job.tenant)).collect::<Vec<_>>())?;
    args.add(jobs.iter().map(|job| job.id.0).collect::<Vec<_>>())
}

/// One answer for each of `count` jobs.
pub(super) fn read<T: Copy>(
    rows: &[PgRow],
    unknown: T,
    count: usize,
    answer: impl Fn(i16, &PgRow) -> std::result::Result<T, Fault>,
) -> std::result::Result<Vec<T>, Fault> {
    let mut answers = vec![unknown; count];
    for row in rows {
        let code = get::<i16>(row, at::CODE)?;
        let place = answers.get_mut(row::place(row)?);
        let place = place.ok_or_else(|| Fault::Corrupt("an answer is for no job".into()))?;
        if code > 0 {
            *place = answer(code, row)?;
        }
    }
    Ok(answers)
}

/// Ends jobs without their work.
pub(crate) async fn all(
    store: &Postgres,
    permit: &Permit<Cancel>,
    jobs: &[JobRef],
) -> Result<Vec<Cancelled>> {
    let rows = store.db.call("cancel", SQL, |args| {
        args.add(permit.tenant())?;
        args.add(permit.by())?;
        bind(args, jobs)
    });
    let answer = |code, row: &PgRow| {
        Ok(match code {
            1 => Cancelled::Cancelled,
            2 => Cancelled::Requested,
            _ => Cancelled::NotLive(row::state(get(row, at::STATE)?)?),
        })
    };
    let rows = rows.await?;
    let answers = read(&rows, Cancelled::Unknown, jobs.len(), answer);
    answers.map_err(|fault| fault.into_error("cancel"))
}
