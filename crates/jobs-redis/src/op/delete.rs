//! Delete (A3).

use jobs_core::{JobRef, Permit, Result, admin::Deleted, permit::Delete};

use super::{letter, scoped::in_scope, strange};
use crate::{Redis, script::script};

script!(DELETE, ALWAYS, "delete.lua");

/// Removes jobs and their history.
pub(crate) async fn all(
    store: &Redis,
    permit: &Permit<Delete>,
    jobs: &[JobRef],
) -> Result<Vec<Deleted>> {
    let delete = async {
        let answers = in_scope(&store.db, &DELETE, &[], permit, jobs).await?;
        let deleted = jobs.iter().zip(answers).map(|(job, answer)| {
            Ok(match letter(answer)?.0 {
                'd' => {
                    let (tenant, id, by) = (&job.tenant, job.id, permit.by());
                    tracing::info!(tenant, %id, by, "a job was deleted");
                    Deleted::Deleted
                }
                'r' => Deleted::Running,
                'u' => Deleted::Unknown,
                other => return Err(strange(other)),
            })
        });
        deleted.collect()
    };
    store.db.within("delete", delete).await
}
