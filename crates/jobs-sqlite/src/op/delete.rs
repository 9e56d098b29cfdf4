//! Delete (A3).

use async_trait::async_trait;
use jobs_core::{
    JobRef, Permit, State,
    admin::Deleted,
    permit::Delete,
    state::{Event, Step, step},
};

use super::{cancel::Scoped, sweep::remove};
use crate::{
    db::query,
    error::Fault,
    tx::{Tx, json},
    writer::Write,
};

/// Removes jobs and their history.
pub(crate) struct DeleteJobs(Scoped);

impl DeleteJobs {
    pub fn new(permit: &Permit<Delete>, jobs: &[JobRef]) -> Self {
        Self(Scoped::new(permit, jobs))
    }
}

#[async_trait]
impl Write for DeleteJobs {
    const NAME: &'static str = "delete";
    type Answer = Vec<Deleted>;

    async fn run(&self, tx: &mut Tx<'_>) -> Result<Vec<Deleted>, Fault> {
        let mut answers = Vec::with_capacity(self.0.jobs.len());
        for job in &self.0.jobs {
            let Some(found) = self.0.find(tx, job).await? else {
                answers.push(Deleted::Unknown);
                continue;
            };
            if let Some(run) = &found.live
                && step(run.state, Event::OperatorDelete, run.facts(tx.now)) != Step::Gone
            {
                answers.push(Deleted::Running);
                continue;
            }
            if let Some((State::Done, queue)) = found.ended {
                let less = [(queue, -1)];
                tx.db.run(query(include_str!("moves_count.sql")).bind(json(&less))).await?;
            }
            remove(tx, &[found.job], true).await?;
            answers.push(Deleted::Deleted);
        }
        Ok(answers)
    }
}
