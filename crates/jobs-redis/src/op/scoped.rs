//! Verbs on jobs by their ids, in a permit's scope (G6).

use fred::types::Value;
use jobs_core::{
    JobRef, Permit,
    names::{is_name, is_tenant},
    permit::Read,
};

use super::each;
use crate::{db::Db, error::Fault, row::id, script::Script};

/// Runs a script over jobs. A foreign one is asked for under a tenant that there cannot be, so that it
/// is answered as an unknown one, by the same script.
pub(crate) async fn in_scope<V>(
    db: &Db,
    script: &Script,
    first: &[Value],
    permit: &Permit<V>,
    jobs: &[JobRef],
) -> Result<Vec<Value>, Fault> {
    if jobs.is_empty() {
        return Ok(Vec::new());
    }
    let arguments = |job: &JobRef| {
        let tenant = if permit.covers(&job.tenant) { job.tenant.as_str() } else { "" };
        vec![tenant.into(), id(job.id).into()]
    };
    each(db, script, first, jobs, |job| &job.tenant, arguments).await
}

/// Is it certain that there is nothing of these to see? An empty text would mean all of them to a
/// script.
pub(crate) fn nobody(permit: &Permit<Read>, queue: Option<&str>, tenant: Option<&str>) -> bool {
    queue.is_some_and(|queue| !is_name(queue))
        || tenant.is_some_and(|tenant| !is_tenant(tenant) || !permit.covers(tenant))
}
