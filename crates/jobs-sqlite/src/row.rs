//! Rows to jobs and back. Nothing here trusts a stored value: a damaged one is an answer.

use std::collections::BTreeMap;

use jobs_core::{
    Job, JobId, Key, KeyScope, OutcomeKind, Payload, State,
    job::{RunAt, Timeout},
    time::from_millis,
};
use sqlx::{Row, Sqlite, sqlite::SqliteRow};

use crate::error::Fault;

/// Column `at`, whatever type its statement declares.
pub(crate) fn get<'r, T: sqlx::Decode<'r, Sqlite> + sqlx::Type<Sqlite>>(
    row: &'r SqliteRow,
    at: usize,
) -> Result<T, Fault> {
    Ok(row.try_get(at)?)
}

/// Text that is only shown or recorded, whatever its bytes are.
pub(crate) fn text(row: &SqliteRow, at: usize) -> Result<Option<String>, Fault> {
    let bytes: Option<&[u8]> = get(row, at)?;
    Ok(bytes.map(|bytes| String::from_utf8_lossy(bytes).into_owned()))
}

pub(crate) fn state(number: i64) -> Result<State, Fault> {
    let found = usize::try_from(number).ok().and_then(|at| State::ALL.get(at));
    found.copied().ok_or_else(|| Fault::Corrupt(format!("{number} is no state's number")))
}

pub(crate) fn outcome(number: i64) -> Result<OutcomeKind, Fault> {
    let found = usize::try_from(number).ok().and_then(|at| OutcomeKind::ALL.get(at));
    found.copied().ok_or_else(|| Fault::Corrupt(format!("{number} is no outcome's number")))
}

/// Its number on disk.
pub(crate) fn outcome_number(kind: OutcomeKind) -> i64 {
    kind as i64
}

pub(crate) fn small(number: i64) -> u32 {
    u32::try_from(number).unwrap_or(if number < 0 { 0 } else { u32::MAX })
}

pub(crate) fn id(bytes: &[u8]) -> Result<JobId, Fault> {
    let uuid = uuid::Uuid::from_slice(bytes);
    Ok(JobId(uuid.map_err(|_| Fault::Corrupt("a job's id is not 16 bytes".into()))?))
}

/// The job whose body's columns begin at `at`: tenant, id, queue, name, action, authorized_by,
/// payload, priority, max_attempts, timeout, key, key_scope, metadata.
pub(crate) fn job(row: &SqliteRow, at: usize, run_at: i64) -> Result<Job, Fault> {
    let text: String = get(row, at + 6)?;
    let payload = Payload::from_json(text).map_err(|e| Fault::Corrupt(e.to_string()))?;
    let scope = match get::<i64>(row, at + 11)? {
        2 => KeyScope::UntilStarted,
        _ => KeyScope::UntilFinished,
    };
    let metadata = match get::<Option<&str>>(row, at + 12)? {
        None => BTreeMap::new(),
        Some(text) => serde_json::from_str(text)
            .map_err(|e| Fault::Corrupt(format!("metadata cannot be read: {e}")))?,
    };
    Ok(Job {
        id: id(get(row, at + 1)?)?,
        queue: get(row, at + 2)?,
        name: get(row, at + 3)?,
        tenant: get(row, at)?,
        action: get(row, at + 4)?,
        authorized_by: get(row, at + 5)?,
        payload,
        run_at: RunAt::At(from_millis(run_at)),
        priority: i16::try_from(get::<i64>(row, at + 7)?)
            .map_err(|_| Fault::Corrupt("a priority is out of bounds".into()))?,
        max_attempts: Some(small(get(row, at + 8)?)),
        timeout: timeout(get(row, at + 9)?),
        key: get::<Option<String>>(row, at + 10)?.map(|text| Key { text, scope }),
        metadata,
    })
}

/// 0 the type's, −1 never, else nanoseconds.
pub(crate) fn timeout_number(timeout: Timeout) -> i64 {
    match timeout {
        Timeout::Default => 0,
        Timeout::Never => -1,
        Timeout::After(limit) => i64::try_from(limit.as_nanos()).unwrap_or(i64::MAX),
    }
}

fn timeout(number: i64) -> Timeout {
    match u64::try_from(number) {
        Ok(0) => Timeout::Default,
        Ok(nanos) => Timeout::After(std::time::Duration::from_nanos(nanos)),
        Err(_) => Timeout::Never,
    }
}
