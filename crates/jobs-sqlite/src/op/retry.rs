//! Retry (A3, P3).

use async_trait::async_trait;
use jobs_core::{
    JobRef, Permit, State,
    admin::Retried,
    permit::Retry,
    state::{Event, Facts, Step, step},
};

use super::cancel::{Found, Scoped, no_state};
use crate::{
    db::query,
    error::Fault,
    moves::{Moves, Run},
    row::{self, get},
    tx::{Tx, json},
    writer::Write,
};

/// Puts jobs back in line.
pub(crate) struct RetryJobs(Scoped);

impl RetryJobs {
    pub fn new(permit: &Permit<Retry>, jobs: &[JobRef]) -> Self {
        Self(Scoped::new(permit, jobs))
    }
}

#[async_trait]
impl Write for RetryJobs {
    const NAME: &'static str = "retry";
    type Answer = Vec<Retried>;

    async fn run(&self, tx: &mut Tx<'_>) -> Result<Vec<Retried>, Fault> {
        let mut answers = Vec::with_capacity(self.0.jobs.len());
        for job in &self.0.jobs {
            answers.push(match self.0.find(tx, job).await? {
                None => Retried::Unknown,
                Some(found) => retry(tx, &self.0.by, found).await?,
            });
        }
        Ok(answers)
    }
}

async fn retry(tx: &mut Tx<'_>, by: &str, found: Found) -> Result<Retried, Fault> {
    let ended = found.ended.map(|(state, _)| state);
    let state = found.live.as_ref().map(|run| run.state).or(ended);
    let state = state.ok_or_else(|| no_state(found.job))?;
    let Step::To(_) = step(state, Event::OperatorRetry, Facts::default()) else {
        return Ok(Retried::NotRetryable(state));
    };
    let mut live = found.live;
    if state == State::Cancelled {
        let holder = query(include_str!("retry_holder.sql")).bind(found.job);
        if let Some(row) = tx.db.first(holder).await? {
            return Ok(Retried::KeyHeld(row::id(get(&row, 0)?)?, row::state(get(&row, 1)?)?));
        }
        tx.db.run(query(include_str!("retry_restore.sql")).bind(found.job)).await?;
        tx.db.run(query(include_str!("retry_key.sql")).bind(found.job)).await?;
        let gone = query(include_str!("remove_done.sql")).bind(json(&[found.job]));
        tx.db.run(gone).await?;
        live = Run::of(tx, found.job).await?;
    }
    let run = live.ok_or_else(|| no_state(found.job))?;
    let mut moves = Moves::by("retry", by);
    moves.retry(&run, tx.now);
    moves.write(tx).await?;
    Ok(Retried::Retried)
}
