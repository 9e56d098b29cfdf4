//! The one way into a store: a job that its Grant covers.
//!
//! - **G3** [`authorized`] checks in this order: [`NoTenant`](Refusal::NoTenant),
//!   [`NoName`](Refusal::NoName), [`BadField`](Refusal::BadField), [`Forged`](Refusal::Forged)
//!   tenant, action, authorized-by, [`PayloadTooLarge`](Refusal::PayloadTooLarge); an empty field
//!   is filled from the Grant (`g3_the_order_of_refusals`, `g3_empty_fields_are_filled`). A message
//!   names both sides (`g3_a_refusal_names_both_sides`).
//! - **G3** A refused push does no I/O and stores nothing (`g3_a_refused_push_never_reaches_the_store`,
//!   `g3_a_refused_push_stores_nothing`).
//! - **G5** Every field has bounds, and the largest legal value of each is stored and comes back
//!   (`g5_bounds_of_every_field`, `g5_the_largest_legal_job_round_trips`). No key built from names
//!   is ambiguous (`g5_no_key_built_from_names_is_ambiguous`). Any other input is a typed refusal
//!   (`g5_hostile_input_never_panics`, `g5_hostile_numbers_never_panic`); what
//!   reaches a driver unchecked is answered there (`g5_hostile_questions_are_answered`,
//!   `g5_hostile_claims_are_lost`).
//! - **P5** A payload of the limit passes, one byte more is refused before any I/O
//!   (`p5_payload_limit_is_exact`).

use std::{fmt, ops::Deref, sync::Arc, time::Duration};

use crate::{
    Grant, Job,
    grant::excerpt,
    job::{DEFAULT_QUEUE, RunAt, Timeout},
    names::{is_name, is_tenant},
    retry::DEFAULT_MAX_ATTEMPTS,
    time::{MAX_MILLIS, delay_millis, millis_up},
};

/// Longest authorized-by, in bytes.
pub const MAX_AUTHORIZED_BY: usize = 200;
/// Longest unique key, in bytes.
pub const MAX_KEY: usize = 256;
/// Most metadata entries.
pub const MAX_METADATA_ENTRIES: usize = 16;
/// Most bytes of all metadata names and values together.
pub const MAX_METADATA_BYTES: usize = 4096;
/// Priorities go from its negative to it.
pub const MAX_PRIORITY: i16 = 100;
/// Most deliveries of one job.
pub const MAX_ATTEMPTS: u32 = 1000;
/// Longest timeout that is not [`Timeout::Never`]: 366 days.
pub const MAX_TIMEOUT: Duration = Duration::from_secs(366 * 24 * 3600);

/// A job that its Grant covers, complete and within bounds: the only thing that
/// [`Queue::enqueue`](crate::Queue::enqueue) takes, and made only by [`authorized`]. A clone shares
/// the job: a driver that hands it to a thread of its own copies nothing.
#[derive(Clone, Debug)]
pub struct AuthorizedJob(Arc<Job>);

impl Deref for AuthorizedJob {
    type Target = Job;

    fn deref(&self) -> &Job {
        &self.0
    }
}

impl AuthorizedJob {
    /// Deliveries before it is parked, as stored with it.
    pub fn max_attempts(&self) -> u32 {
        self.0.max_attempts.unwrap_or(DEFAULT_MAX_ATTEMPTS)
    }

    /// When it is due, in milliseconds, if it is pushed at `now` by the store's clock. The past
    /// means now: nobody overtakes by backdating.
    pub fn due_at(&self, now: i64) -> i64 {
        match self.0.run_at {
            RunAt::Now => now,
            RunAt::At(time) => millis_up(time).max(now),
            RunAt::After(delay) => crate::time::after(now, delay),
        }
    }

    /// The job.
    pub fn into_job(self) -> Job {
        Arc::unwrap_or_clone(self.0)
    }
}

/// Checks `job` against `grant` and fills what is empty. Times are rounded where they are stored, by
/// [`due_at`](AuthorizedJob::due_at).
///
/// # Errors
/// [`Refusal`], in the order of G3. Nothing was touched.
pub fn authorized(grant: &Grant, job: Job) -> Result<AuthorizedJob, Refusal> {
    let tenant = grant.tenant().ok_or(Refusal::NoTenant)?;
    if job.name.is_empty() {
        return Err(Refusal::NoName);
    }
    let mut job = job;
    if job.queue.is_empty() {
        DEFAULT_QUEUE.clone_into(&mut job.queue);
    }
    check_bounds(&job)?;
    fill_or_compare(&mut job.tenant, tenant, Field::Tenant)?;
    fill_or_compare(&mut job.action, grant.action(), Field::Action)?;
    fill_or_compare(&mut job.authorized_by, grant.authorized_by(), Field::AuthorizedBy)?;
    let (size, limit) = (job.payload.as_str().len(), grant.payload_limit());
    if size > limit {
        return Err(Refusal::PayloadTooLarge { name: job.name, size, limit });
    }
    job.max_attempts.get_or_insert(DEFAULT_MAX_ATTEMPTS);
    Ok(AuthorizedJob(Arc::new(job)))
}

fn fill_or_compare(field: &mut String, granted: &str, which: Field) -> Result<(), Refusal> {
    if field.is_empty() {
        granted.clone_into(field);
    }
    if field == granted {
        return Ok(());
    }
    Err(Refusal::Forged { field: which, job: excerpt(field), grant: excerpt(granted) })
}

fn check_bounds(job: &Job) -> Result<(), Refusal> {
    let name = "[a-z0-9][a-z0-9._:-]{0,63}";
    bound(is_name(&job.queue), Field::Queue, name, &job.queue)?;
    bound(is_name(&job.name), Field::Name, name, &job.name)?;
    let tenant = "[a-z0-9][a-z0-9_-]{0,63}";
    bound(job.tenant.is_empty() || is_tenant(&job.tenant), Field::Tenant, tenant, &job.tenant)?;
    bound(job.action.is_empty() || is_name(&job.action), Field::Action, name, &job.action)?;
    let plain = |text: &str, most: usize| text.len() <= most && !text.contains('\0');
    let by = &job.authorized_by;
    bound(plain(by, MAX_AUTHORIZED_BY), Field::AuthorizedBy, "at most 200 bytes, no NUL", by)?;
    if let Some(key) = &job.key {
        let fits = !key.text.is_empty() && plain(&key.text, MAX_KEY);
        bound(fits, Field::Key, "1 to 256 bytes, no NUL", &key.text)?;
    }
    let bytes: usize = job.metadata.iter().map(|(name, value)| name.len() + value.len()).sum();
    let fits = job.metadata.len() <= MAX_METADATA_ENTRIES
        && bytes <= MAX_METADATA_BYTES
        && job.metadata.iter().all(|(name, value)| plain(name, bytes) && plain(value, bytes));
    let found = format_args!("{} entries, {bytes} bytes", job.metadata.len());
    bound(fits, Field::Metadata, "at most 16 entries and 4096 bytes, no NUL", found)?;
    let fits = (-MAX_PRIORITY..=MAX_PRIORITY).contains(&job.priority);
    bound(fits, Field::Priority, "-100 to 100", job.priority)?;
    let attempts = job.max_attempts.unwrap_or(DEFAULT_MAX_ATTEMPTS);
    let fits = (1..=MAX_ATTEMPTS).contains(&attempts);
    bound(fits, Field::MaxAttempts, "1 to 1000", attempts)?;
    if let Timeout::After(limit) = job.timeout {
        let fits = !limit.is_zero() && limit <= MAX_TIMEOUT;
        let expected = "more than 0 and at most 366 days, or Never";
        bound(fits, Field::Timeout, expected, format_args!("{limit:?}"))?;
    }
    let fits = match job.run_at {
        RunAt::Now => true,
        RunAt::At(time) => millis_up(time) <= MAX_MILLIS,
        RunAt::After(delay) => delay_millis(delay) < MAX_MILLIS,
    };
    bound(fits, Field::RunAt, "up to the year 2200", format_args!("{:?}", job.run_at))
}

/// What was found is put into words only when it is refused.
fn bound(
    fits: bool,
    field: Field,
    expected: &'static str,
    found: impl fmt::Display,
) -> Result<(), Refusal> {
    if fits {
        return Ok(());
    }
    Err(Refusal::BadField { field, expected, found: excerpt(&found.to_string()) })
}

/// A field of [`Job`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "each is the field of that name")]
pub enum Field {
    Queue,
    Name,
    Tenant,
    Action,
    AuthorizedBy,
    RunAt,
    Priority,
    MaxAttempts,
    Timeout,
    Key,
    Metadata,
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Queue => "queue",
            Self::Name => "name",
            Self::Tenant => "tenant",
            Self::Action => "action",
            Self::AuthorizedBy => "authorized_by",
            Self::RunAt => "run_at",
            Self::Priority => "priority",
            Self::MaxAttempts => "max_attempts",
            Self::Timeout => "timeout",
            Self::Key => "key",
            Self::Metadata => "metadata",
        })
    }
}

/// Why a push was refused before any I/O.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// An operator's Grant has no tenant to push for.
    #[error("an operator's Grant pushes nothing: authorize the action in one tenant")]
    NoTenant,
    /// The job has no name.
    #[error("the job has no name: give it the name of its handler")]
    NoName,
    /// A field is outside its bounds.
    #[error("{field} is {found}, must be {expected}")]
    BadField {
        /// Which.
        field: Field,
        /// What it must be.
        expected: &'static str,
        /// The head of what it is.
        found: String,
    },
    /// The job says something that its Grant does not.
    #[error(
        "the job says {field} {job}, its Grant says {grant}: leave {field} empty or use Job::new"
    )]
    Forged {
        /// Which field.
        field: Field,
        /// What the job says.
        job: String,
        /// What the Grant says.
        grant: String,
    },
    /// The payload is larger than the Grant's limit.
    #[error(
        "the payload of {name} has {size} bytes, the limit is {limit}: store the document \
         elsewhere and push its id"
    )]
    PayloadTooLarge {
        /// The job's name.
        name: String,
        /// Its payload, in bytes.
        size: usize,
        /// The limit, in bytes.
        limit: usize,
    },
}
