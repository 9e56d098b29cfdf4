//! Reserve (R1–R8). Who is next is decided in `reserve.sql`.

use std::time::Duration;

use jobs_core::{
    Claim, Result, Settled, Settlement,
    job::RunAt,
    queue::{Delivery, Reserve, Reserved},
    time::delay_millis,
};
use sqlx::postgres::PgRow;
use uuid::Uuid;

use super::settle;
use crate::{
    Postgres,
    db::{Args, get},
    error::Fault,
    frontier::{Answered, Asked, LOOK_MOST, Line, Place, Told},
    row::{self, at},
};

/// The longest that [`Reserved::next_due`] says.
const HOUR: i64 = 3_600_000;

/// What a call that does both is called in an error.
const BOTH: &str = "settle_and_reserve";
const RESERVE: &str = "SELECT * FROM jobs.reserve($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, \
     $13, $14, $15, $16, $17, $18, $19, $20, $21, $22)";
/// Two calls, not one function around both, which would copy each row once more. They are made in this
/// order: what is ready again by the first is there for the second.
const EXCHANGE: &str = "SELECT * FROM jobs.settle($23, $24, $25, $26, $27, $28, $29) UNION ALL \
     SELECT * FROM jobs.reserve($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, \
     $17, $18, $19, $20, $21, $22)";

/// Settles, then reserves. None asked does no I/O.
pub(crate) async fn all(
    store: &Postgres,
    settlements: &[Settlement],
    request: &Reserve,
) -> Result<(Vec<Settled>, Reserved)> {
    if request.most() == 0 {
        return Ok((settle::all(store, settlements).await?, Reserved::default()));
    }
    let mut settled = vec![Settled::Lost; settlements.len()];
    // One, unless a claim comes twice.
    let mut parts = settle::parts(settlements);
    let last = parts.pop().unwrap_or_default();
    for part in parts {
        settle::part(store, &part, &mut settled).await?;
    }
    let (rows, reserved) = exchange(store, &last, request).await?;
    if !last.is_empty() {
        let read = settle::read(store, &rows, &last, &mut settled);
        read.map_err(|fault| fault.into_error(BOTH))?;
    }
    Ok((settled, reserved))
}

/// Settles, where there is something, and reserves, in one statement.
async fn exchange(
    store: &Postgres,
    settlements: &[settle::Placed<'_>],
    request: &Reserve,
) -> Result<(Vec<PgRow>, Reserved)> {
    let asked = store.frontier.ask(request.queue(), request.names(), request.most());
    let (operation, sql) = match settlements {
        [] => ("reserve", RESERVE),
        _ => (BOTH, EXCHANGE),
    };
    let rows = store.db.call(operation, sql, |args| {
        bind(args, request, &asked)?;
        if settlements.is_empty() { Ok(()) } else { settle::bind(args, settlements) }
    });
    let rows = rows.await?;
    let reserved = read(store, &rows, request, &asked);
    let reserved = reserved.map_err(|fault| fault.into_error(operation))?;
    Ok((rows, reserved))
}

fn bind(args: &mut Args, request: &Reserve, asked: &Asked) -> std::result::Result<(), Fault> {
    let number = |count: usize| i32::try_from(count).unwrap_or(i32::MAX);
    args.add(request.queue())?;
    args.add(request.names())?;
    args.add(request.quick())?;
    args.add(number(request.free_slots()))?;
    args.add(number(request.most()))?;
    args.add(delay_millis(request.leased_for().length()))?;
    args.add(request.nonce_of().0)?;
    args.add(request.worker())?;
    args.add(match asked.look {
        None => 0_i32,
        Some(_) if !asked.all => 1,
        Some(_) => 2,
    })?;
    let after = asked.look.clone().unwrap_or_default();
    args.add(after.name)?;
    args.add(after.suspect)?;
    args.add(after.tenant)?;
    args.add(number(LOOK_MOST))?;
    args.add(asked.due_since)?;
    args.add(asked.crowd_after.as_str())?;
    args.add(asked.more)?;
    let lines = || asked.lines.iter();
    args.add(lines().map(|(line, _)| line.name.as_str()).collect::<Vec<_>>())?;
    args.add(lines().map(|(line, _)| line.suspect).collect::<Vec<_>>())?;
    args.add(lines().map(|(line, _)| line.tenant.as_str()).collect::<Vec<_>>())?;
    args.add(lines().map(|(_, place)| place.0).collect::<Vec<_>>())?;
    args.add(lines().map(|(_, place)| place.1).collect::<Vec<_>>())?;
    args.add(lines().map(|(_, place)| place.2).collect::<Vec<_>>())
}

fn read(
    store: &Postgres,
    rows: &[PgRow],
    request: &Reserve,
    asked: &Asked,
) -> std::result::Result<Reserved, Fault> {
    let (mut reserved, mut answered) = (Reserved::default(), Answered::default());
    let mut repeated = true;
    for row in rows {
        match get::<i16>(row, at::PART)? {
            0 => {
                let (now, due): (i64, Option<i64>) = (get(row, at::RUN_AT)?, get(row, at::FENCE)?);
                let wait = due.map(|due| due.saturating_sub(now).clamp(0, HOUR));
                reserved.next_due = wait.map(|wait| Duration::from_millis(wait.unsigned_abs()));
                let micros: Option<i32> = get(row, at::AT)?;
                answered.took = Duration::from_micros(u64::from(row::small(micros.unwrap_or(0))));
                answered.goes_on = get::<Option<i16>>(row, at::CODE)? == Some(1);
                answered.looked_to = match get(row, at::NAME)? {
                    None => None,
                    Some(name) => Some(Line {
                        name,
                        suspect: get(row, at::SUSPECT)?,
                        tenant: get(row, at::TENANT)?,
                    }),
                };
                answered.due_since = get::<Option<i64>>(row, at::TIMEOUT)?.unwrap_or_default();
                answered.crowd_after = get::<Option<String>>(row, at::KEY)?.unwrap_or_default();
                repeated = false;
            }
            1 => match delivery(row, request) {
                Ok(delivery) => reserved.deliveries.push(delivery),
                Err(fault) => {
                    let error = fault.into_error("reserve");
                    let job = row::whose(row, at::TENANT, at::ID);
                    let what = "a job that cannot be read is left to its lease's end";
                    tracing::error!(%error, job, "{what}");
                }
            },
            2 => {
                let (line, (rank, due)) = row::line(row)?;
                let place = (rank, due, get::<Uuid>(row, at::ID)?);
                let finish: Option<i64> = get(row, at::FENCE)?;
                let charged = finish.zip(get::<Option<i64>>(row, at::TIMEOUT)?);
                let some = get::<i16>(row, at::CODE)? > 0;
                answered.lines.push(Told { line, place, some, charged });
            }
            4 => answered.nows.push((get(row, at::NAME)?, get(row, at::FENCE)?)),
            _ => {}
        }
    }
    // Of a line that was served alone only the deliveries say how far it went; others went no less far.
    if let Some(last) = reserved.deliveries.last() {
        let reached = place(last);
        let of = |line: &Line| {
            (&line.name, line.suspect, &line.tenant)
                == (&last.job.name, last.suspect, &last.job.tenant)
        };
        for told in answered.lines.iter_mut().filter(|told| of(&told.line)) {
            told.place = told.place.max(reached);
        }
    }
    // A repetition answers what was taken, and of the lines nothing.
    if !repeated {
        store.frontier.answered(request.queue(), request.names(), asked, answered);
    }
    Ok(reserved)
}

/// Where a job stood in its line.
fn place(delivery: &Delivery) -> Place {
    let job = &delivery.job;
    let due = match job.run_at {
        RunAt::At(due) => due.as_millisecond(),
        _ => i64::MIN,
    };
    (job.priority.saturating_neg(), due, job.id.0)
}

fn delivery(row: &PgRow, request: &Reserve) -> std::result::Result<Delivery, Fault> {
    let job = row::job(row, at::QUEUE)?;
    let nonce = request.nonce_of();
    let claim = Claim { job: job.job_ref(), fence: get(row, at::FENCE)?, nonce };
    let attempt = row::small(get(row, at::ATTEMPT)?);
    Ok(Delivery { claim, job, attempt, suspect: get(row, at::SUSPECT)? })
}
