//! Delete (A3).

use jobs_core::{JobRef, Permit, Result, admin::Deleted, permit::Delete};

use super::cancel::{bind, read};
use crate::Postgres;

const SQL: &str = "SELECT * FROM jobs.delete($1, $2, $3)";

/// Removes jobs and their history.
pub(crate) async fn all(
    store: &Postgres,
    permit: &Permit<Delete>,
    jobs: &[JobRef],
) -> Result<Vec<Deleted>> {
    let rows = store.db.call("delete", SQL, |args| {
        args.add(permit.tenant())?;
        bind(args, jobs)
    });
    let answer = |code, _: &_| Ok(if code == 1 { Deleted::Deleted } else { Deleted::Running });
    let rows = rows.await?;
    let answers = read(&rows, Deleted::Unknown, jobs.len(), answer);
    let answers = answers.map_err(|fault| fault.into_error("delete"))?;
    for (job, _) in jobs.iter().zip(&answers).filter(|(_, was)| **was == Deleted::Deleted) {
        // With the job went its record, so this is the only one of who did it (G6).
        tracing::info!(by = permit.by(), tenant = job.tenant, id = %job.id, "a job is deleted");
    }
    Ok(answers)
}
