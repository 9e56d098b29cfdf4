//! Settle (S2–S4).

use std::collections::BTreeMap;

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
    let mut answers = vec![Settled::Lost; settlements.len()];
    for placed in parts(settlements) {
        part(store, &placed, &mut answers).await?;
    }
    Ok(answers)
}

/// Settles one part.
pub(super) async fn part(
    store: &Postgres,
    part: &[Placed<'_>],
    answers: &mut [Settled],
) -> Result<()> {
    let rows = store.db.call("settle", SQL, |args| bind(args, part)).await?;
    read(store, &rows, part, answers).map_err(|fault| fault.into_error("settle"))
}

/// A settlement and its place in the call.
pub(super) type Placed<'s> = (usize, &'s Settlement);

/// Settlements in the order of identity, in which rows are locked, no claim twice in a part: one part,
/// unless a claim comes twice.
pub(super) fn parts(settlements: &[Settlement]) -> Vec<Vec<Placed<'_>>> {
    let mut rest: Vec<Placed<'_>> = settlements.iter().enumerate().collect();
    let mut parts = Vec::new();
    while !rest.is_empty() {
        rest.sort_by(|(_, one), (_, other)| {
            let identity = |s: &Settlement| (s.claim.job.id, s.claim.fence, s.claim.nonce.0);
            let tenants = || one.claim.job.tenant.cmp(&other.claim.job.tenant);
            identity(one)
                .0
                .cmp(&identity(other).0)
                .then_with(tenants)
                .then_with(|| identity(one).cmp(&identity(other)))
        });
        let mut again = Vec::new();
        let mut part: Vec<Placed<'_>> = Vec::with_capacity(rest.len());
        for placed in rest {
            match part.last() {
                Some((_, last)) if last.claim == placed.1.claim => again.push(placed),
                _ => part.push(placed),
            }
        }
        parts.push(part);
        rest = again;
    }
    parts
}

/// The settlements, column by column.
pub(super) fn bind(args: &mut Args, part: &[Placed<'_>]) -> std::result::Result<(), Fault> {
    let claims = || part.iter().map(|(_, settlement)| &settlement.claim);
    let outcomes = || part.iter().map(|(_, settlement)| &settlement.outcome);
    args.add(claims().map(|claim| row::plain(&claim.job.tenant)).collect::<Vec<_>>())?;
    args.add(claims().map(|claim| claim.job.id.0).collect::<Vec<_>>())?;
    args.add(claims().map(|claim| claim.fence).collect::<Vec<_>>())?;
    args.add(claims().map(|claim| claim.nonce.0).collect::<Vec<_>>())?;
    args.add(outcomes().map(|outcome| outcome.kind() as i16).collect::<Vec<_>>())?;
    args.add(outcomes().map(|outcome| outcome.delay().map(delay_millis)).collect::<Vec<_>>())?;
    args.add(outcomes().map(|outcome| outcome.cause().map(|c| c.as_str())).collect::<Vec<_>>())
}

/// The answers, which are of part 3; what has none is done. What is in line again is known to this
/// handle, and who watches is woken: elsewhere only for what is due soon.
pub(super) fn read(
    store: &Postgres,
    rows: &[PgRow],
    part: &[Placed<'_>],
    answers: &mut [Settled],
) -> std::result::Result<(), Fault> {
    let mut queues = BTreeMap::<String, i64>::new();
    let (mut done, mut now) = (None, 0);
    part.iter().for_each(|(place, _)| answers[*place] = Settled::Applied(State::Done));
    let mut told = 0;
    for row in rows {
        match get::<i16>(row, at::PART)? {
            3 => told += 1,
            5 => {
                done = usize::try_from(get::<i32>(row, at::AT)?).ok();
                now = get(row, at::RUN_AT)?;
                continue;
            }
            _ => continue,
        }
        let answer = match get::<i16>(row, at::CODE)? {
            0 => Settled::Lost,
            1 => {
                let state = row::state(get(row, at::STATE)?)?;
                if matches!(state, State::Ready | State::Scheduled) {
                    let queue: String = get(row, at::QUEUE)?;
                    let (line, due) = row::line(row)?;
                    match state {
                        State::Ready => store.frontier.note(&queue, line, due),
                        _ => store.frontier.note_due(&queue, &line.name, due.1),
                    }
                    // A job that is ready was due before now.
                    let first = queues.entry(queue).or_insert(due.1);
                    *first = (*first).min(due.1);
                }
                Settled::Applied(state)
            }
            _ => Settled::AlreadyApplied(row::outcome(get(row, at::STATE)?)?),
        };
        let place = part.get(row::place(row)?).map(|(place, _)| *place);
        let place = place.and_then(|place| answers.get_mut(place));
        *place.ok_or_else(|| Fault::Corrupt("an answer is for no settlement".into()))? = answer;
    }
    store.wake.tell_of(&store.db, now, queues);
    match done.map(|done| done + told) {
        Some(count) if count == part.len() => Ok(()),
        _ => Err(Fault::Corrupt("a settlement has no answer".into())),
    }
}
