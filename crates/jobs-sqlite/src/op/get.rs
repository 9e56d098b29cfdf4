//! Get (A5).

use async_trait::async_trait;
use jobs_core::{
    JobRef, OutcomeKind, Permit, State, permit,
    queue::KEPT_ATTEMPTS,
    time::from_millis,
    view::{Attempt, Holder, JobRecord, VerbRecord},
};

use super::list::{VIEW, view};
use crate::{
    db::query,
    error::Fault,
    reader::{Read, Reading},
    row::{Row, get, outcome, small},
};

/// One job with everything known of it.
pub(crate) struct Get {
    scope: Option<String>,
    job: JobRef,
}

impl Get {
    pub fn new(permit: &Permit<permit::Read>, job: &JobRef) -> Self {
        Self { scope: permit.tenant().map(str::to_owned), job: job.clone() }
    }
}

#[async_trait]
impl Read for Get {
    const NAME: &'static str = "get";
    type Answer = Option<JobRecord>;

    async fn run(&self, reading: &mut Reading<'_>) -> Result<Option<JobRecord>, Fault> {
        let id = &self.job.id.0.as_bytes()[..];
        let get = query(include_str!("get.sql")).bind(&self.job.tenant).bind(id);
        let Some(row) = reading.db.first(get.bind(&self.scope)).await? else { return Ok(None) };
        let mut attempts = attempts(reading, &row).await?;
        let old = attempts.len().saturating_sub(KEPT_ATTEMPTS);
        attempts.drain(..old);
        record(&row, attempts, reading.now).map(Some)
    }
}

async fn attempts(reading: &mut Reading<'_>, row: &Row) -> Result<Vec<Attempt>, Fault> {
    let job: i64 = get(row, VIEW)?;
    let mut attempts = Vec::new();
    for row in reading.db.all(query(include_str!("get_attempts.sql")).bind(job)).await? {
        attempts.push(Attempt {
            number: small(get(&row, 0)?),
            fence: get(&row, 1)?,
            worker: get(&row, 2)?,
            started_at: from_millis(get(&row, 3)?),
            ended_at: from_millis(get(&row, 4)?),
            outcome: outcome(get(&row, 5)?)?,
            cause: get::<Option<String>>(&row, 6)?.map(Into::into),
        });
    }
    if crate::row::state(get(row, 14)?)? == State::Done {
        attempts.push(Attempt {
            number: small(get(row, 16)?),
            fence: get(row, VIEW + 1)?,
            worker: get::<Option<String>>(row, VIEW + 11)?.unwrap_or_default(),
            started_at: from_millis(get::<Option<i64>>(row, VIEW + 12)?.unwrap_or_default()),
            ended_at: from_millis(get::<Option<i64>>(row, 17)?.unwrap_or_default()),
            outcome: OutcomeKind::Done,
            cause: None,
        });
    }
    Ok(attempts)
}

fn record(row: &Row, attempts: Vec<Attempt>, now: i64) -> Result<JobRecord, Fault> {
    let at = |column| Ok::<_, Fault>(get::<Option<i64>>(row, column)?.map(from_millis));
    let holder = match (at(VIEW + 3)?, at(VIEW + 4)?, at(VIEW + 5)?) {
        (Some(started_at), Some(renewed_at), Some(lease_until)) => {
            let worker = get::<Option<String>>(row, VIEW + 2)?.unwrap_or_default();
            Some(Holder { worker, started_at, renewed_at, lease_until })
        }
        _ => None,
    };
    let last_verb = match (get::<Option<String>>(row, VIEW + 8)?, at(VIEW + 10)?) {
        (Some(verb), Some(at)) => {
            Some(VerbRecord { verb, by: get::<Option<_>>(row, VIEW + 9)?.unwrap_or_default(), at })
        }
        _ => None,
    };
    Ok(JobRecord {
        view: view(row)?,
        fence: get(row, VIEW + 1)?,
        holder,
        attempts,
        snoozes: small(get(row, VIEW + 6)?),
        releases: small(get(row, VIEW + 7)?),
        last_verb,
        now: from_millis(now),
    })
}
