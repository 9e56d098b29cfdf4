//! Delete (A3): marked with this call's own mark, by which it knows its work again, then removed.

use jobs_core::{ErrorKind, JobRef, Permit, State, admin::Deleted, permit::Delete};
use mongodb::bson::{Bson, Document, doc};

use super::{
    retry::{look, scoped},
    sweep::{over, record_taken},
};
use crate::{
    Mongo,
    error::Fault,
    row::{id, int, token},
};

/// Jobs at once.
const BESIDE: usize = 8;
/// How often a job that another verb meets is tried.
const TRIES: usize = 3;

/// Removes jobs and their history.
pub(crate) async fn all(
    store: &Mongo,
    permit: &Permit<Delete>,
    jobs: &[JobRef],
) -> Result<Vec<Deleted>, Fault> {
    let ids: Vec<Bson> = jobs.iter().map(|job| Bson::String(id(job))).collect();
    record_taken(store, &ids).await?;
    let mut answers = Vec::with_capacity(jobs.len());
    for part in jobs.chunks(BESIDE) {
        let removing: Vec<_> = part.iter().map(|job| remove(store, permit, job)).collect();
        for answer in futures::future::join_all(removing).await {
            answers.push(answer?);
        }
    }
    Ok(answers)
}

async fn remove(store: &Mongo, permit: &Permit<Delete>, job: &JobRef) -> Result<Deleted, Fault> {
    for _ in 0..TRIES {
        let token = token();
        let running = State::Running as i32;
        let free = vec![doc! { "state": { "$ne": running } }, doc! { "$expr": over() }];
        let mut filter = scoped(permit, job);
        filter.insert("$or", free.clone());
        let mark = doc! { "$set": {
            "verb": "delete",
            "verb_by": { "$literal": permit.by() },
            "verb_at": "$$NOW",
            "verb_mark": token,
        } };
        store.db.update("jobs", vec![doc! { "q": filter, "u": [mark] }]).await?;
        let found = look(store, permit, std::slice::from_ref(job)).await?;
        let Some(row) = found.get(&id(job)) else { return Ok(Deleted::Unknown) };
        if int(row, "verb_mark") != Some(token) {
            // Another verb came between, or it runs.
            if int(row, "state") == Some(i64::from(running)) {
                return Ok(Deleted::Running);
            }
            continue;
        }
        let marked = doc! { "_id": id(job), "verb_mark": token, "$or": free };
        if is_removed(store, permit, job, marked).await? {
            // With the job went its record, so this is the only one of who did it (G6).
            let (by, tenant) = (permit.by(), &job.tenant);
            tracing::info!(by, tenant, id = %job.id, "a job is deleted");
            return Ok(Deleted::Deleted);
        }
    }
    let what = "other verbs change the job all the time: try again";
    Err(Fault::Broken(ErrorKind::Busy, what))
}

/// Was it this call that removed it? Sent more than once, it was where it is gone.
async fn is_removed(
    store: &Mongo,
    permit: &Permit<Delete>,
    job: &JobRef,
    marked: Document,
) -> Result<bool, Fault> {
    let written = store.db.delete("jobs", marked).await?;
    if written.count == 0 && written.again {
        let left = look(store, permit, std::slice::from_ref(job)).await?;
        return Ok(!left.contains_key(&id(job)));
    }
    Ok(written.count > 0)
}
