//! Settle (S2–S4).

use std::collections::BTreeSet;

use jobs_core::{Result, Settled, Settlement, State, time::delay_millis};
use sqlx::postgres::PgRow;

use crate::{
    Postgres,
    db::{Args, get},
    error::Fault,
    row::{self, at},
};

/// The statement, a call of the function in `settle.sql`.
const SQL: &str = "SELECT * FROM jobs.settle($1, $2, $3, $4, $5, $6, $7)";

/// Settles in order; inside one call the first for a claim wins.
pub(crate) async fn all(store: &Postgres, settlements: &[Settlement]) -> Result<Vec<Settled>> {
    if settlements.is_empty() {
        return Ok(Vec::new());
    }
    let rows = store.db.call("settle", SQL, |args| bind(args, settlements)).await?;
    read(store, &rows, settlements).map_err(|fault| fault.into_error("settle"))
}

/// The settlements, column by column.
pub(super) fn bind(args: &mut Args, settlements: &[Settlement]) -> std::result::Result<(), Fault> {
    let claims = || settlements.iter().map(|settlement| &settlement.claim);
    let outcomes = || settlements.iter().map(|settlement| &settlement.outcome);
    args.add(claims().map(|claim| row::plain(&claim.job.tenant)).collect::<Vec<_>>())?;
    args.add(claims().map(|claim| claim.job.id.0).collect::<Vec<_>>())?;
    args.add(claims().map(|claim| claim.fence).collect::<Vec<_>>())?;
    args.add(claims().map(|claim| claim.nonce.0).collect::<Vec<_>>())?;
    args.add(outcomes().map(|outcome| outcome.kind() as i16).collect::<Vec<_>>())?;
    args.add(outcomes().map(|outcome| outcome.delay().map(delay_millis)).collect::<Vec<_>>())?;
    let cause = |outcome: &'_ jobs_core::Outcome| outcome.cause().map(|c| c.as_str().to_owned());
    args.add(outcomes().map(cause).collect::<Vec<_>>())
}

/// The answers, which are of part 3. What is ready again is known to this handle, and who watches is
/// woken.
pub(super) fn read(
    store: &Postgres,
    rows: &[PgRow],
    settlements: &[Settlement],
) -> std::result::Result<Vec<Settled>, Fault> {
    let mut answers = vec![Settled::Lost; settlements.len()];
    let mut queues = BTreeSet::new();
    for row in rows {
        if get::<i16>(row, at::PART)? != 3 {
            continue;
        }
        let (code, number): (i16, i16) = (get(row, at::CODE)?, get(row, at::STATE)?);
        let answer = match code {
            1 => {
                let state = row::state(number)?;
                if matches!(state, State::Ready | State::Scheduled) {
                    let queue: String = get(row, at::QUEUE)?;
                    let (line, due) = row::line(row)?;
                    match state {
                        State::Ready => store.frontier.note(&queue, line, due),
                        _ => store.frontier.note_due(&queue, &line.name, due),
                    }
                    queues.insert(queue);
                }
                Settled::Applied(state)
            }
            _ => Settled::AlreadyApplied(row::outcome(number)?),
        };
        let place = answers.get_mut(row::place(row)?);
        *place.ok_or_else(|| Fault::Corrupt("an answer is for no settlement".into()))? = answer;
    }
    store.wake.tell(&store.db, queues);
    Ok(answers)
}
