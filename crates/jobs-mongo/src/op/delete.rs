//! Delete (A3): one statement a job, which answers whether it was this one that removed it.

use jobs_core::{JobRef, Permit, State, admin::Deleted, permit::Delete};
use mongodb::bson::doc;

use super::{
    retry::{look, scoped},
    sweep::over,
};
use crate::{Mongo, error::Fault, row::id};

/// Statements at once.
const BESIDE: usize = 8;

/// Removes jobs and their history.
pub(crate) async fn all(
    store: &Mongo,
    permit: &Permit<Delete>,
    jobs: &[JobRef],
) -> Result<Vec<Deleted>, Fault> {
    let mut removed = Vec::with_capacity(jobs.len());
    for part in jobs.chunks(BESIDE) {
        let removing: Vec<_> = part.iter().map(|job| remove(store, permit, job)).collect();
        removed.extend(futures::future::join_all(removing).await);
    }
    let left = look(store, permit, jobs).await?;
    let mut answers = Vec::with_capacity(jobs.len());
    for (job, removed) in jobs.iter().zip(removed) {
        answers.push(match removed? {
            true => {
                // With the job went its record, so this is the only one of who did it (G6).
                let (by, tenant) = (permit.by(), &job.tenant);
                tracing::info!(by, tenant, id = %job.id, "a job is deleted");
                Deleted::Deleted
            }
            false if left.contains_key(&id(job)) => Deleted::Running,
            false => Deleted::Unknown,
        });
    }
    Ok(answers)
}

async fn remove(store: &Mongo, permit: &Permit<Delete>, job: &JobRef) -> Result<bool, Fault> {
    let mut filter = scoped(permit, job);
    let running = State::Running as i32;
    filter.insert("$or", vec![doc! { "state": { "$ne": running } }, doc! { "$expr": over() }]);
    let reply = store.db.run(doc! {
        "findAndModify": store.db.name("jobs"),
        "query": filter,
        "remove": true,
        "fields": { "_id": 1 },
        "writeConcern": { "w": "majority", "j": true },
    });
    let reply = reply.await?;
    Ok(reply.get_document("value").is_ok())
}
