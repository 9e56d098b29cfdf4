//! Rows to jobs and back. Nothing here trusts a stored value: a damaged one is an answer.

use std::collections::BTreeMap;

use jobs_core::{
    Job, JobId, Key, OutcomeKind, Payload, State,
    driver::{scope_of, timeout_of},
    job::RunAt,
    time::from_millis,
};
use rusqlite::types::ValueRef;

pub(crate) use jobs_core::driver::small;

use crate::error::Fault;

/// A stored value. Text is bytes, because damaged text is no UTF-8.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    Null,
    Integer(i64),
    Real(f64),
    Text(Vec<u8>),
    Blob(Vec<u8>),
}

impl From<ValueRef<'_>> for Value {
    fn from(value: ValueRef<'_>) -> Self {
        match value {
            ValueRef::Null => Self::Null,
            ValueRef::Integer(value) => Self::Integer(value),
            ValueRef::Real(value) => Self::Real(value),
            ValueRef::Text(bytes) => Self::Text(bytes.to_vec()),
            ValueRef::Blob(bytes) => Self::Blob(bytes.to_vec()),
        }
    }
}

/// One row of an answer.
#[derive(Clone, Debug)]
pub(crate) struct Row(pub Vec<Value>);

/// What a column is read as; `None` when the value is of another type.
pub(crate) trait FromValue<'r>: Sized {
    fn from_value(value: &'r Value) -> Option<Self>;
}

impl FromValue<'_> for i64 {
    fn from_value(value: &Value) -> Option<Self> {
        if let Value::Integer(number) = value { Some(*number) } else { None }
    }
}

impl<'r> FromValue<'r> for &'r str {
    fn from_value(value: &'r Value) -> Option<Self> {
        if let Value::Text(bytes) = value { str::from_utf8(bytes).ok() } else { None }
    }
}

impl FromValue<'_> for String {
    fn from_value(value: &Value) -> Option<Self> {
        <&str>::from_value(value).map(str::to_owned)
    }
}

impl<'r> FromValue<'r> for &'r [u8] {
    fn from_value(value: &'r Value) -> Option<Self> {
        if let Value::Text(bytes) | Value::Blob(bytes) = value { Some(bytes) } else { None }
    }
}

impl FromValue<'_> for Vec<u8> {
    fn from_value(value: &Value) -> Option<Self> {
        <&[u8]>::from_value(value).map(<[u8]>::to_vec)
    }
}

impl<'r, T: FromValue<'r>> FromValue<'r> for Option<T> {
    fn from_value(value: &'r Value) -> Option<Self> {
        if *value == Value::Null { Some(None) } else { T::from_value(value).map(Some) }
    }
}

/// Column `at` of a row.
pub(crate) fn get<'r, T: FromValue<'r>>(row: &'r Row, at: usize) -> Result<T, Fault> {
    let value = row.0.get(at).and_then(T::from_value);
    value.ok_or_else(|| Fault::Corrupt(format!("column {at} holds no such value")))
}

/// Text that is only shown or recorded, whatever its bytes are.
pub(crate) fn text(row: &Row, at: usize) -> Result<Option<String>, Fault> {
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

pub(crate) fn id(bytes: &[u8]) -> Result<JobId, Fault> {
    let uuid = uuid::Uuid::from_slice(bytes);
    Ok(JobId(uuid.map_err(|_| Fault::Corrupt("a job's id is not 16 bytes".into()))?))
}

/// The job whose body's columns begin at `at`: tenant, id, queue, name, action, authorized_by,
/// payload, priority, max_attempts, timeout, key, key_scope, metadata.
pub(crate) fn job(row: &Row, at: usize, run_at: i64) -> Result<Job, Fault> {
    let text: String = get(row, at + 6)?;
    let payload = Payload::from_json(text).map_err(|e| Fault::Corrupt(e.to_string()))?;
    let scope = scope_of(get(row, at + 11)?);
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
        timeout: timeout_of(get(row, at + 9)?),
        key: get::<Option<String>>(row, at + 10)?.map(|text| Key { text, scope }),
        metadata,
    })
}
