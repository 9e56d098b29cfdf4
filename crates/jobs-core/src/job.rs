//! What is pushed: a job, its identity and its typed form.

use std::{collections::BTreeMap, fmt, str::FromStr, time::Duration};

use jiff::Timestamp;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use uuid::Uuid;

use crate::{
    Grant,
    payload::{NotJson, Payload},
    retry::DEFAULT_MAX_ATTEMPTS,
};

/// The queue of jobs that name none.
pub const DEFAULT_QUEUE: &str = "default";

/// A job as it is pushed and as a handler gets it back (P1).
///
/// Fill it with [`Job::new`] or [`Job::of`], by hand, or from JSON: whatever it says is checked
/// against the Grant by [`authorized`](fn@crate::authorized) before a driver can store it, and an
/// empty tenant, action or authorized-by is filled from the Grant.
///
/// - **G2** [`Job::new`] copies tenant, action and authorized-by from the Grant
///   (`g2_a_job_carries_the_grant_that_pushed_it`).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Job {
    /// Made by the client, so it is known before the commit. Stable across retries.
    pub id: JobId,
    /// Empty means `default`.
    pub queue: String,
    /// Which handler runs it: an explicit name that outlives refactorings.
    pub name: String,
    /// Whose it is.
    pub tenant: String,
    /// The action it was pushed under, and the only one its handler gets.
    pub action: String,
    /// Who pushed it.
    pub authorized_by: String,
    /// One JSON value: facts and ids rather than documents.
    pub payload: Payload,
    /// When it may start.
    pub run_at: RunAt,
    /// −100…100, higher first, inside its tenant.
    pub priority: i16,
    /// Deliveries before it is parked, 1…1000; `None` means 5.
    pub max_attempts: Option<u32>,
    /// How long one run may take.
    pub timeout: Timeout,
    /// At most one live job of the tenant with this key.
    pub key: Option<Key>,
    /// Small facts for tracing and tools, `traceparent` among them; at most 16 and 4 KiB.
    pub metadata: BTreeMap<String, String>,
}

/// When a job may start, by the store's clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunAt {
    /// At once.
    #[default]
    Now,
    /// Not before this time, which rounds up to whole milliseconds; the past means now.
    At(Timestamp),
    /// This long after the store took it.
    After(Duration),
}

/// How long one run may take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Timeout {
    /// The type's, else 1 h.
    #[default]
    Default,
    /// This long.
    After(Duration),
    /// As long as it takes.
    Never,
}

/// A job's identity within its tenant: a UUIDv7, increasing within a process (P2).
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct JobId(pub Uuid);

/// Which job: ids are a tenant's own, so another tenant's equal id is another job.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct JobRef {
    /// Whose.
    pub tenant: String,
    /// Which.
    pub id: JobId,
}

/// A unique key, scoped to the tenant (P3).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Key {
    /// At most 256 bytes, no NUL.
    pub text: String,
    /// How long it is held.
    #[serde(default)]
    pub scope: KeyScope,
}

/// How long a job holds its key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KeyScope {
    /// While it is live, parked included; an operator's retry takes it again.
    #[default]
    UntilFinished,
    /// From push to the first delivery, cancel or delete; never taken again.
    UntilStarted,
}

/// A type that is a job: how it is stored is its serde form, what it is called is [`NAME`].
///
/// [`NAME`]: Self::NAME
///
/// ```
/// #[derive(serde::Serialize, serde::Deserialize)]
/// struct SendInvoice { invoice: u64 }
///
/// impl jobs_core::JobType for SendInvoice {
///     const NAME: &'static str = "invoice.send";
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no job type",
    label = "has no job name",
    note = "derive Serialize and Deserialize, then \
            `impl JobType for {Self} {{ const NAME: &'static str = \"invoice.send\"; }}`"
)]
pub trait JobType: Serialize + DeserializeOwned + Send + 'static {
    /// The stored name: stable, so that a renamed type still runs yesterday's jobs.
    const NAME: &'static str;
    /// The queue it goes to.
    const QUEUE: &'static str = DEFAULT_QUEUE;
    /// Deliveries before it is parked.
    const MAX_ATTEMPTS: u32 = DEFAULT_MAX_ATTEMPTS;
    /// How long one run may take.
    const TIMEOUT: Timeout = Timeout::Default;
}

/// What [`push`](crate::QueueExt::push) takes: a [`Job`], or a value of a [`JobType`]. A value gets
/// a new id in each push; where a push can be repeated, make the job first, with [`Job::of`].
pub trait IntoJob {
    /// The job, under `grant`.
    ///
    /// # Errors
    /// [`NotJson`] when the value has no JSON form.
    fn into_job(self, grant: &Grant) -> Result<Job, NotJson>;
}

impl IntoJob for Job {
    fn into_job(self, _: &Grant) -> Result<Job, NotJson> {
        Ok(self)
    }
}

impl<T: JobType> IntoJob for T {
    fn into_job(self, grant: &Grant) -> Result<Job, NotJson> {
        Job::of(grant, &self)
    }
}

impl Job {
    /// A job called `name` with `payload`, carrying the Grant's tenant, action and authorized-by.
    ///
    /// # Errors
    /// [`NotJson`] when the payload has no JSON form.
    pub fn new<P: Serialize + ?Sized>(
        grant: &Grant,
        name: impl Into<String>,
        payload: &P,
    ) -> Result<Self, NotJson> {
        Ok(Self {
            name: name.into(),
            tenant: grant.tenant().unwrap_or_default().to_owned(),
            action: grant.action().to_owned(),
            authorized_by: grant.authorized_by().to_owned(),
            payload: Payload::encode(payload)?,
            ..Self::default()
        })
    }

    /// A typed job, with its type's name, queue, attempts and timeout.
    ///
    /// # Errors
    /// [`NotJson`] when the value has no JSON form.
    pub fn of<T: JobType>(grant: &Grant, value: &T) -> Result<Self, NotJson> {
        let job = Self::new(grant, T::NAME, value)?;
        let (queue, max_attempts) = (T::QUEUE.to_owned(), Some(T::MAX_ATTEMPTS));
        Ok(Self { queue, max_attempts, timeout: T::TIMEOUT, ..job })
    }

    /// On another queue.
    pub fn on(self, queue: impl Into<String>) -> Self {
        Self { queue: queue.into(), ..self }
    }

    /// Not before `time`.
    pub fn at(self, time: Timestamp) -> Self {
        Self { run_at: RunAt::At(time), ..self }
    }

    /// This long after the store took it.
    pub fn after(self, delay: Duration) -> Self {
        Self { run_at: RunAt::After(delay), ..self }
    }

    /// With a priority, −100…100.
    pub fn priority(self, priority: i16) -> Self {
        Self { priority, ..self }
    }

    /// With a limit of deliveries, 1…1000.
    pub fn max_attempts(self, deliveries: u32) -> Self {
        Self { max_attempts: Some(deliveries), ..self }
    }

    /// With a limit of one run's time.
    pub fn timeout(self, timeout: Timeout) -> Self {
        Self { timeout, ..self }
    }

    /// With a key held until the job is finished.
    pub fn key(self, text: impl Into<String>) -> Self {
        let key = Key { text: text.into(), scope: KeyScope::UntilFinished };
        Self { key: Some(key), ..self }
    }

    /// With a key held until the job first starts.
    pub fn key_until_started(self, text: impl Into<String>) -> Self {
        let key = Key { text: text.into(), scope: KeyScope::UntilStarted };
        Self { key: Some(key), ..self }
    }

    /// With one more small fact.
    pub fn meta(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.metadata.insert(name.into(), value.into());
        self
    }

    /// Which job it is.
    pub fn job_ref(&self) -> JobRef {
        JobRef { tenant: self.tenant.clone(), id: self.id }
    }
}

impl JobId {
    /// A new one, greater than every earlier one of this process.
    pub fn new() -> Self {
        Self(Uuid::now_v7())
    }
}

impl Default for JobId {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for JobId {
    type Err = uuid::Error;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(Self(text.parse()?))
    }
}

impl fmt::Display for JobRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.tenant, self.id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn p2_ids_increase_within_a_process() {
        let ids: Vec<_> = (0..10_000).map(|_| JobId::new()).collect();
        assert!(ids.windows(2).all(|pair| pair[0] < pair[1]));
    }
}
