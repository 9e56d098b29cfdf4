//! Documents to jobs and back. Nothing here trusts a stored value: a damaged one is an answer.

use std::collections::BTreeMap;

use jobs_core::{
    AuthorizedJob, Job, JobId, JobRef, Key, OutcomeKind, Payload, State,
    driver::{scope_number, scope_of, small, timeout_number, timeout_of},
    job::RunAt,
    time::from_millis,
};
use mongodb::bson::{Bson, DateTime, Document, RawArrayBuf, RawDocumentBuf, cstr, rawdoc};

use crate::{error::Fault, frontier::Line};

/// A whole number, whatever BSON type the server made of it.
pub(crate) fn int(row: &Document, field: &str) -> Option<i64> {
    match row.get(field)? {
        Bson::Int32(number) => Some(i64::from(*number)),
        Bson::Int64(number) => Some(*number),
        // A cast of a float saturates, and of no number is 0.
        Bson::Double(number) => Some(*number as i64),
        _ => None,
    }
}

/// A text.
pub(crate) fn text(row: &Document, field: &str) -> Option<String> {
    row.get_str(field).ok().map(str::to_owned)
}

/// An instant, in milliseconds.
pub(crate) fn date(row: &Document, field: &str) -> Option<i64> {
    row.get_datetime(field).ok().map(|at| at.timestamp_millis())
}

/// A date of the wire.
pub(crate) fn at(millis: i64) -> DateTime {
    DateTime::from_millis(millis)
}

/// What has to be there.
pub(crate) fn need<T>(found: Option<T>, field: &str) -> Result<T, Fault> {
    found.ok_or_else(|| Fault::Corrupt(format!("{field} is missing or of another type")))
}

/// A job's `_id`: unique over all tenants, and in the order of lists.
pub(crate) fn id(job: &JobRef) -> String {
    format!("{}/{}", job.id, job.tenant)
}

/// The job of an `_id`.
pub(crate) fn job_ref(id: &str) -> Result<JobRef, Fault> {
    let parts = id.split_once('/').and_then(|(id, tenant)| Some((id.parse().ok()?, tenant)));
    let (id, tenant): (JobId, _) = need(parts, "_id")?;
    Ok(JobRef { tenant: tenant.to_owned(), id })
}

pub(crate) fn state(row: &Document) -> Result<State, Fault> {
    let number = int(row, "state").and_then(|number| usize::try_from(number).ok());
    need(number.and_then(|at| State::ALL.get(at)).copied(), "state")
}

pub(crate) fn outcome_of(number: i64) -> Result<OutcomeKind, Fault> {
    let found = usize::try_from(number).ok().and_then(|at| OutcomeKind::ALL.get(at));
    need(found.copied(), "outcome")
}

/// The value of a key that is held: a tenant has no `/`.
pub(crate) fn held(tenant: &str, key: &str) -> String {
    format!("{tenant}/{key}")
}

/// Bytes of a document beside its payload: names and bounds of G5, the metadata's 4 KiB, the key.
const BESIDE: usize = 16 * 1024;
/// What one document may hold: 16 MiB, less what attempts on record may come to.
const MOST: usize = 12 * 1024 * 1024;

/// Is a document large enough for it?
pub(crate) fn fits(job: &AuthorizedJob) -> Result<(), Fault> {
    let size = job.payload.as_str().len() + BESIDE;
    if size <= MOST {
        return Ok(());
    }
    let what = format!(
        "the payload of {} has {} bytes, a document holds {}: push its id instead",
        job.name,
        job.payload.as_str().len(),
        MOST - BESIDE
    );
    Err(Fault::Refused(jobs_core::ErrorKind::Refused, what))
}

/// A new job's document, pushed at `now` by the call `token`.
pub(crate) fn document(
    job: &AuthorizedJob,
    now: i64,
    token: i64,
) -> Result<(RawDocumentBuf, Line, i64), Fault> {
    fits(job)?;
    let due = job.due_at(now);
    let state = jobs_core::state::pushed(due <= now);
    let line = Line::of(job, due <= now);
    let max_attempts = i32::try_from(job.max_attempts()).unwrap_or(i32::MAX);
    let mut document = rawdoc! {
        "_id": id(&job.job_ref()),
        "queue": job.queue.as_str(),
        "tenant": job.tenant.as_str(),
        "name": job.name.as_str(),
        "action": job.action.as_str(),
        "authorized_by": job.authorized_by.as_str(),
        "payload": job.payload.as_str(),
        "priority": i32::from(job.priority),
        "rank": Line::rank_of(job.priority),
        "max_attempts": max_attempts,
        "timeout": timeout_number(job.timeout),
        "pushed_at": at(now),
        "run_at": at(due),
        "state": state as i32,
        "line": line.stored(),
        "fence": 0_i64,
        "attempt": 0_i32,
        "token": token,
    };
    if state == State::Scheduled {
        document.append(cstr!("cold"), state as i32);
    }
    if let Some(key) = &job.key {
        document.append(cstr!("key"), key.text.as_str());
        document.append(cstr!("scope"), i32::from(scope_number(Some(key))));
        document.append(cstr!("held"), held(&job.tenant, &key.text));
    }
    if !job.metadata.is_empty() {
        let mut pairs = RawArrayBuf::new();
        for (name, value) in &job.metadata {
            pairs.push(name.as_str());
            pairs.push(value.as_str());
        }
        document.append(cstr!("metadata"), pairs);
    }
    Ok((document, line, due))
}

/// The job of a document; `run_at` is when it is or was due.
pub(crate) fn job(row: &Document) -> Result<Job, Fault> {
    let whole = |field: &str| need(text(row, field), field);
    let id = job_ref(&whole("_id")?)?;
    let payload = Payload::from_json(whole("payload")?);
    let payload = payload.map_err(|error| Fault::Corrupt(error.to_string()))?;
    let priority = int(row, "priority").and_then(|number| i16::try_from(number).ok());
    let scope = scope_of(int(row, "scope").unwrap_or_default());
    Ok(Job {
        id: id.id,
        queue: whole("queue")?,
        name: whole("name")?,
        tenant: id.tenant,
        action: whole("action")?,
        authorized_by: whole("authorized_by")?,
        payload,
        run_at: RunAt::At(from_millis(need(date(row, "run_at"), "run_at")?)),
        priority: need(priority, "priority")?,
        max_attempts: Some(small(need(int(row, "max_attempts"), "max_attempts")?)),
        timeout: timeout_of(int(row, "timeout").unwrap_or_default()),
        key: text(row, "key").map(|text| Key { text, scope }),
        metadata: metadata(row)?,
    })
}

fn metadata(row: &Document) -> Result<BTreeMap<String, String>, Fault> {
    let mut metadata = BTreeMap::new();
    let Ok(pairs) = row.get_array("metadata") else { return Ok(metadata) };
    for pair in pairs.chunks(2) {
        let [Bson::String(name), Bson::String(value)] = pair else {
            return Err(Fault::Corrupt("metadata is no list of texts".into()));
        };
        metadata.insert(name.clone(), value.clone());
    }
    Ok(metadata)
}

/// A call's own mark on what it changed, by which it knows its work again after a lost reply.
pub(crate) fn token() -> i64 {
    jobs_core::Nonce::random().0
}
