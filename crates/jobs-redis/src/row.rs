//! A stored job: what is written of it, and what is read.
//!
//! The hash holds what scripts look at, every field short, so that the server packs it: memory is half
//! of what one long field in it costs. The body holds what only callers look at.

use std::collections::{BTreeMap, HashMap};

use fred::types::Value;
use jobs_core::{
    AuthorizedJob, Cause, Job, JobId, JobRef, Key, OutcomeKind, Payload, State,
    driver::{scope_of, small, timeout_number, timeout_of},
    job::RunAt,
    queue::KEPT_ATTEMPTS,
    time::from_millis,
    view::{Attempt, Holder, JobRecord, JobView, VerbRecord},
};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::{
    error::Fault,
    reply::{Reply, int, text},
};

/// What the body begins with.
#[derive(Default, Serialize, Deserialize)]
struct Header {
    action: String,
    by: String,
    timeout: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    key: Option<(String, u8)>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    meta: BTreeMap<String, String>,
    max: u32,
}

/// An id as it is stored: sorts as ids do.
pub(crate) fn id(id: JobId) -> String {
    id.0.simple().to_string()
}

/// The id of a stored one.
pub(crate) fn id_of(text: &str) -> Result<JobId, Fault> {
    Uuid::try_parse(text).map(JobId).map_err(|_| corrupt("an id", text))
}

/// The state of a stored one.
pub(crate) fn state_of(code: &str) -> Result<State, Fault> {
    let number = code.parse::<usize>().ok();
    number.and_then(|n| State::ALL.get(n).copied()).ok_or_else(|| corrupt("a state", code))
}

/// The outcome of a stored one.
pub(crate) fn outcome_of(code: &str) -> Result<OutcomeKind, Fault> {
    let number = code.parse::<usize>().ok();
    number.and_then(|n| OutcomeKind::ALL.get(n).copied()).ok_or_else(|| corrupt("an outcome", code))
}

/// A job's body.
pub(crate) fn body(job: &AuthorizedJob) -> String {
    let header = Header {
        action: job.action.clone(),
        by: job.authorized_by.clone(),
        timeout: timeout_number(job.timeout),
        key: job
            .key
            .as_ref()
            .map(|key| (key.text.clone(), jobs_core::driver::scope_number(Some(key)))),
        meta: job.metadata.clone(),
        max: job.max_attempts(),
    };
    // Texts and numbers always have a JSON form.
    let header = serde_json::to_string(&header).unwrap_or_default();
    format!("{}:{header}{}", header.len(), job.payload.as_str())
}

/// A job of its body and the fields that scripts look at.
pub(crate) fn job(
    of: &JobRef,
    queue: String,
    name: String,
    priority: i64,
    due: i64,
    body: &str,
) -> Result<Job, Fault> {
    let damaged = || corrupt("the body", &of.to_string());
    let (length, rest) = body.split_once(':').ok_or_else(damaged)?;
    let length: usize = length.parse().map_err(|_| damaged())?;
    let (header, payload) = rest.split_at_checked(length).ok_or_else(damaged)?;
    let header: Header = serde_json::from_str(header).map_err(|_| damaged())?;
    Ok(Job {
        id: of.id,
        queue,
        name,
        tenant: of.tenant.clone(),
        action: header.action,
        authorized_by: header.by,
        payload: Payload::from_json(payload).map_err(|_| damaged())?,
        run_at: RunAt::At(from_millis(due)),
        priority: i16::try_from(priority).map_err(|_| damaged())?,
        max_attempts: Some(header.max),
        timeout: timeout_of(header.timeout),
        key: header.key.map(|(text, scope)| Key { text, scope: scope_of(i64::from(scope)) }),
        metadata: header.meta,
    })
}

/// A job as `get.lua` answers it.
pub(crate) struct Row {
    of: JobRef,
    fields: HashMap<String, String>,
    body: String,
    attempts: Vec<Attempt>,
}

impl Row {
    /// `None` where nothing is stored, or only what is left of history.
    pub fn read(of: JobRef, value: Value) -> Result<Option<Self>, Fault> {
        if int(&value).is_ok() {
            return Ok(None);
        }
        let mut parts = Reply::of(value)?;
        let (mut hash, mut fields) = (parts.list()?, HashMap::new());
        while hash.left() > 1 {
            fields.insert(hash.text()?, hash.text()?);
        }
        let body = parts.text()?;
        let mut attempts = Vec::new();
        let mut stored = parts.list()?;
        while stored.left() > 0 {
            attempts.push(attempt(stored.list()?)?);
        }
        let row = Self { of, fields, body, attempts };
        Ok(if row.fields.contains_key("stub") { None } else { Some(row) })
    }

    fn text(&self, field: &str) -> Result<String, Fault> {
        self.fields.get(field).cloned().ok_or_else(|| corrupt(field, &self.of.to_string()))
    }

    fn int(&self, field: &str) -> Result<i64, Fault> {
        self.text(field)?.parse().map_err(|_| corrupt(field, &self.of.to_string()))
    }

    fn int_or_zero(&self, field: &str) -> i64 {
        self.int(field).unwrap_or_default()
    }

    /// Where it is.
    pub fn state(&self) -> Result<State, Fault> {
        state_of(&self.text("s")?)
    }

    /// As lists show it.
    pub fn view(&self) -> Result<JobView, Fault> {
        let (queue, name) = (self.text("q")?, self.text("n")?);
        Ok(JobView {
            job: job(&self.of, queue, name, self.int("p")?, self.int("d")?, &self.body)?,
            state: self.state()?,
            attempt: small(self.int("a")?),
            pushed_at: from_millis(self.int("t")?),
            finished_at: self.int("e").ok().map(from_millis),
            last_cause: self.attempts.last().and_then(|attempt| attempt.cause.clone()),
            cancel_requested: self.fields.contains_key("z"),
        })
    }

    /// With everything that is known of it.
    pub fn record(mut self, now: i64) -> Result<JobRecord, Fault> {
        let view = self.view()?;
        let fence = self.int("f")?;
        let holder = match view.state {
            State::Running => Some(Holder {
                worker: self.text("w")?,
                started_at: from_millis(self.int("b")?),
                renewed_at: from_millis(self.int("r")?),
                lease_until: from_millis(self.int("u")?),
            }),
            _ => None,
        };
        if view.state == State::Done {
            self.attempts.push(Attempt {
                number: view.attempt,
                fence,
                worker: self.text("w")?,
                started_at: from_millis(self.int("b")?),
                ended_at: from_millis(self.int("e")?),
                outcome: OutcomeKind::Done,
                cause: None,
            });
        }
        let surplus = self.attempts.len().saturating_sub(KEPT_ATTEMPTS);
        let attempts = self.attempts.split_off(surplus);
        let verb = self.fields.get("vv").cloned();
        let by = self.fields.get("vb").cloned().unwrap_or_default();
        let at = from_millis(self.int_or_zero("va"));
        Ok(JobRecord {
            view,
            fence,
            holder,
            attempts,
            snoozes: small(self.int_or_zero("sn")),
            releases: small(self.int_or_zero("rl")),
            last_verb: verb.map(|verb| VerbRecord { verb, by, at }),
            now: from_millis(now),
        })
    }
}

fn attempt(mut stored: Reply) -> Result<Attempt, Fault> {
    let mut number = || -> Result<i64, Fault> { stored.int() };
    let (of, fence) = (number()?, number()?);
    let worker = stored.text()?;
    let (started, ended) = (stored.int()?, stored.int()?);
    let outcome = outcome_of(&stored.text()?)?;
    let cause = stored.next().map(text).transpose()?;
    Ok(Attempt {
        number: small(of),
        fence,
        worker,
        started_at: from_millis(started),
        ended_at: from_millis(ended),
        outcome,
        cause: cause.map(Cause::new),
    })
}

fn corrupt(what: &str, of: &str) -> Fault {
    Fault::Corrupt(format!("{what} of {of:.120}"))
}

#[cfg(test)]
mod tests {
    use jobs_core::{authorized, grant_without_user};

    use super::*;

    #[test]
    fn a_body_round_trips_and_damage_is_told() {
        let grant = grant_without_user("test", "jobs.push", "acme").expect("a grant");
        let mut pushed = Job::new(&grant, "a", &()).expect("a payload").key("k").meta("é", ":");
        pushed.payload = Payload::from_json(" [1, \"é\\u0000\"]\n").expect("JSON");
        let of = pushed.job_ref();
        let stored = body(&authorized(&grant, pushed.clone()).expect("covered"));
        let read = job(&of, "default".into(), "a".into(), 0, 5, &stored).expect("whole");
        let expected = Job {
            queue: "default".into(),
            max_attempts: Some(5),
            run_at: RunAt::At(from_millis(5)),
            ..pushed
        };
        assert_eq!(read, expected);
        for bad in ["", "5", "x:{}", "900:{}1", "2:{}", "3:{é"] {
            let read = job(&of, "q".into(), "a".into(), 0, 5, bad);
            assert!(matches!(read, Err(Fault::Corrupt(_))), "{bad}");
        }
    }
}
