//! Get (A5).

use jobs_core::{
    JobRef, OutcomeKind, Permit, Result, State,
    permit::Read,
    queue::KEPT_ATTEMPTS,
    time::from_millis,
    view::{Attempt, Holder, JobRecord, VerbRecord},
};
use sqlx::postgres::PgRow;

use super::list::{VIEW, view};
use crate::{
    Postgres,
    db::get,
    error::Fault,
    row::{self, small},
};

/// One job with everything known of it.
pub(crate) async fn one(
    store: &Postgres,
    permit: &Permit<Read>,
    job: &JobRef,
) -> Result<Option<JobRecord>> {
    let rows = store.db.call("get", include_str!("get.sql"), |args| {
        args.add(row::plain(&job.tenant))?;
        args.add(job.id.0)?;
        args.add(permit.tenant())
    });
    let rows = rows.await?;
    let record = rows.first().map(record).transpose();
    record.map_err(|fault| fault.into_error("get"))
}

fn attempts(row: &PgRow) -> std::result::Result<Vec<Attempt>, Fault> {
    let at = VIEW + 1;
    let numbers: Option<Vec<i32>> = get(row, at)?;
    let Some(numbers) = numbers else { return Ok(Vec::new()) };
    let fences: Vec<i64> = get(row, at + 1)?;
    let workers: Vec<String> = get(row, at + 2)?;
    let (starts, ends): (Vec<i64>, Vec<i64>) = (get(row, at + 3)?, get(row, at + 4)?);
    let outcomes: Vec<i16> = get(row, at + 5)?;
    let causes: Vec<Option<String>> = get(row, at + 6)?;
    let numbered = numbers.into_iter().zip(fences).zip(workers);
    let timed = numbered.zip(starts.into_iter().zip(ends));
    let whole = timed.zip(outcomes.into_iter().zip(causes));
    whole
        .map(|((((number, fence), worker), (start, end)), (outcome, cause))| {
            Ok(Attempt {
                number: small(number),
                fence,
                worker,
                started_at: from_millis(start),
                ended_at: from_millis(end),
                outcome: row::outcome(outcome)?,
                cause: cause.map(Into::into),
            })
        })
        .collect()
}

fn record(row: &PgRow) -> std::result::Result<JobRecord, Fault> {
    let at = |column| Ok::<_, Fault>(get::<Option<i64>>(row, column)?.map(from_millis));
    let view = view(row)?;
    let holder = match (at(23)?, at(24)?, at(25)?) {
        (Some(started_at), Some(renewed_at), Some(lease_until)) => {
            let worker = get::<Option<String>>(row, 22)?.unwrap_or_default();
            Some(Holder { worker, started_at, renewed_at, lease_until })
        }
        _ => None,
    };
    let last_verb = match (get::<Option<String>>(row, 28)?, at(30)?) {
        (Some(verb), Some(at)) => {
            Some(VerbRecord { verb, by: get::<Option<_>>(row, 29)?.unwrap_or_default(), at })
        }
        _ => None,
    };
    let mut attempts = attempts(row)?;
    let fence = get(row, 7)?;
    if view.state == State::Done {
        // A done row is its last attempt.
        attempts.push(Attempt {
            number: view.attempt,
            fence,
            worker: get::<Option<String>>(row, 31)?.unwrap_or_default(),
            started_at: at(32)?.unwrap_or_default(),
            ended_at: at(19)?.unwrap_or_default(),
            outcome: OutcomeKind::Done,
            cause: None,
        });
    }
    let old = attempts.len().saturating_sub(KEPT_ATTEMPTS);
    attempts.drain(..old);
    Ok(JobRecord {
        view,
        fence,
        holder,
        attempts,
        snoozes: small(get(row, 26)?),
        releases: small(get(row, 27)?),
        last_verb,
        now: from_millis(get(row, VIEW)?),
    })
}
