//! Rows to jobs and back. Nothing here trusts a stored value: a damaged one is an answer.

use std::{borrow::Cow, collections::BTreeMap};

use jobs_core::{
    Job, JobId, Key, OutcomeKind, Payload, State,
    driver::{scope_of, timeout_of},
    job::RunAt,
    time::from_millis,
};
use sqlx::postgres::PgRow;
use uuid::Uuid;

use crate::{db::get, error::Fault, frontier::Line};

/// The columns of `jobs.answer`.
pub(crate) mod at {
    pub const PART: usize = 0;
    pub const AT: usize = 1;
    pub const CODE: usize = 2;
    pub const STATE: usize = 3;
    pub const QUEUE: usize = 4;
    pub const TENANT: usize = 5;
    pub const ID: usize = 6;
    pub const NAME: usize = 7;
    pub const SUSPECT: usize = 8;
    pub const RANK: usize = 9;
    pub const RUN_AT: usize = 10;
    pub const FENCE: usize = 11;
    pub const ATTEMPT: usize = 12;
    pub const TIMEOUT: usize = 17;
    pub const KEY: usize = 18;
}

/// The place, counted from 0, that an answer is for.
pub(crate) fn place(row: &PgRow) -> Result<usize, Fault> {
    let at: i32 = get(row, at::AT)?;
    usize::try_from(at - 1).map_err(|_| Fault::Corrupt("an answer is for no place".into()))
}

pub(crate) fn state(number: i16) -> Result<State, Fault> {
    let found = usize::try_from(number).ok().and_then(|at| State::ALL.get(at));
    found.copied().ok_or_else(|| Fault::Corrupt(format!("{number} is no state's number")))
}

pub(crate) fn outcome(number: i16) -> Result<OutcomeKind, Fault> {
    let found = usize::try_from(number).ok().and_then(|at| OutcomeKind::ALL.get(at));
    found.copied().ok_or_else(|| Fault::Corrupt(format!("{number} is no outcome's number")))
}

/// As the server can be asked for it: text with a NUL is nobody's name.
pub(crate) fn plain(text: &str) -> Cow<'_, str> {
    match text.contains('\0') {
        true => text.replace('\0', "\u{fffd}").into(),
        false => text.into(),
    }
}

pub(crate) fn small(number: i32) -> u32 {
    u32::try_from(number).unwrap_or_default()
}

/// The line that an answer names, and its job's negated priority and due time.
pub(crate) fn line(row: &PgRow) -> Result<(Line, (i16, i64)), Fault> {
    let line = Line {
        name: get(row, at::NAME)?,
        suspect: get(row, at::SUSPECT)?,
        tenant: get(row, at::TENANT)?,
    };
    Ok((line, (get(row, at::RANK)?, get(row, at::RUN_AT)?)))
}

/// The job of columns from `at` on: queue, tenant, id, name, suspect, rank, run_at, fence, attempt,
/// action, authorized_by, payload, max_attempts, timeout, key, key_scope, metadata.
pub(crate) fn job(row: &PgRow, at: usize) -> Result<Job, Fault> {
    let bytes: Vec<u8> = get(row, at + 11)?;
    let text = String::from_utf8(bytes).map_err(|e| Fault::Corrupt(e.to_string()))?;
    let payload = Payload::from_json(text).map_err(|e| Fault::Corrupt(e.to_string()))?;
    let scope = scope_of(get::<i16>(row, at + 15)?.into());
    let metadata = match get::<Option<&str>>(row, at + 16)? {
        None => BTreeMap::new(),
        Some(text) => serde_json::from_str(text)
            .map_err(|e| Fault::Corrupt(format!("metadata cannot be read: {e}")))?,
    };
    Ok(Job {
        id: JobId(get::<Uuid>(row, at + 2)?),
        queue: get(row, at)?,
        name: get(row, at + 3)?,
        tenant: get(row, at + 1)?,
        action: get(row, at + 9)?,
        authorized_by: get(row, at + 10)?,
        payload,
        run_at: RunAt::At(from_millis(get(row, at + 6)?)),
        priority: priority(get(row, at + 5)?)?,
        max_attempts: Some(small(get(row, at + 12)?)),
        timeout: timeout_of(get(row, at + 13)?),
        key: get::<Option<String>>(row, at + 14)?.map(|text| Key { text, scope }),
        metadata,
    })
}

fn priority(rank: i16) -> Result<i16, Fault> {
    rank.checked_neg().ok_or_else(|| Fault::Corrupt(format!("{rank} is no priority's rank")))
}

/// Whose a row is that cannot be read, for the log, as far as that can be told.
pub(crate) fn whose(row: &PgRow, tenant: usize, id: usize) -> String {
    let tenant = get::<Option<String>>(row, tenant).ok().flatten().unwrap_or_else(|| "?".into());
    let id = get::<Option<Uuid>>(row, id).ok().flatten();
    format!("{tenant}/{}", id.map_or_else(|| "?".into(), |id| id.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rank_that_has_no_priority_is_damage() {
        assert_eq!(
            [priority(-100).ok(), priority(0).ok(), priority(7).ok()],
            [100, 0, -7].map(Some)
        );
        assert!(matches!(priority(i16::MIN), Err(Fault::Corrupt(_))));
    }
}
