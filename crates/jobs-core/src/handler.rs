//! What an application writes to run jobs: a handler per job type, and how it says that it failed.

use std::{fmt, future::Future, pin::Pin, time::Duration};

use crate::{Cause, Context, JobType, Payload};

/// A handler as its worker keeps it, without its job type.
pub(crate) type Erased = std::sync::Arc<dyn Fn(Context) -> Running + Send + Sync>;
/// One run in flight.
pub(crate) type Running = Pin<Box<dyn Future<Output = Result<(), Failure>> + Send>>;

/// Runs jobs of the type `T`.
///
/// Every `Fn(Context, T) -> impl Future<Output = Result<(), impl Into<Failure>>>` is one, so most
/// applications write a closure; a type of their own implements it to be named and tested.
///
/// A handler must tolerate running twice: delivery is at least once. [`Context::job_id`] is stable
/// across retries, [`Context::fence`] orders the holders.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not run jobs of type `{T}`",
    label = "not a handler of `{T}`",
    note = "write `async |ctx: Context, job: {T}| {{ …; Ok::<(), Failure>(()) }}`, or with state \
            `move |ctx: Context, job: {T}| {{ let db = db.clone(); async move {{ … }} }}`",
    note = "the future must be `Send`, the error a `std::error::Error` or a `Failure`"
)]
pub trait Handler<T: JobType>: Send + Sync + 'static {
    /// What goes wrong: any std error means "try again later", a [`Failure`] can say more.
    type Error: Into<Failure>;

    /// Runs one job.
    ///
    /// # Cancel safety
    /// The future may be dropped at any await: when the lease is lost, at the timeout, after a
    /// cancel, at the end of a shutdown's grace. The job then runs again, or ends as asked.
    fn run(&self, context: Context, job: T)
    -> impl Future<Output = Result<(), Self::Error>> + Send;
}

impl<F, Fut, T, E> Handler<T> for F
where
    T: JobType,
    F: Fn(Context, T) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<(), E>> + Send + 'static,
    E: Into<Failure>,
{
    type Error = E;

    fn run(&self, context: Context, job: T) -> impl Future<Output = Result<(), E>> + Send {
        self(context, job)
    }
}

/// A run that did not succeed, and what should become of its job.
///
/// Any std error turns into one that is retried, so `?` works in a handler. It is no std error
/// itself; for errors that are none either (`anyhow`), write `.map_err(Failure::retry)?`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    pub(crate) then: Then,
    pub(crate) cause: Cause,
}

/// What becomes of the job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Then {
    Retry,
    RetryAfter(Duration),
    Park,
    Snooze(Duration),
    Cancel,
}

impl Failure {
    fn new(then: Then, cause: impl fmt::Display) -> Self {
        Self { then, cause: Cause::new(cause.to_string()) }
    }

    /// Again after the backoff; parked when attempts run out.
    pub fn retry(cause: impl fmt::Display) -> Self {
        Self::new(Then::Retry, cause)
    }

    /// Again after exactly this delay, such as a rate limit's; parked when attempts run out.
    pub fn retry_after(delay: Duration, cause: impl fmt::Display) -> Self {
        Self::new(Then::RetryAfter(delay), cause)
    }

    /// Never again by itself: a person decides.
    pub fn park(cause: impl fmt::Display) -> Self {
        Self::new(Then::Park, cause)
    }

    /// Not now: again after this delay, without spending the attempt.
    pub fn snooze(delay: Duration) -> Self {
        Self::new(Then::Snooze(delay), "")
    }

    /// Not any more: the job ends as cancelled.
    pub fn cancel(cause: impl fmt::Display) -> Self {
        Self::new(Then::Cancel, cause)
    }

    /// The words on record.
    pub fn cause(&self) -> &Cause {
        &self.cause
    }
}

/// The words on record.
impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.cause.as_str())
    }
}

/// Retried, with the error and what caused it on record.
impl<E: std::error::Error> From<E> for Failure {
    fn from(error: E) -> Self {
        let mut cause = error.to_string();
        let mut source = error.source();
        while let Some(inner) = source {
            let text = inner.to_string();
            // Many errors print their source themselves.
            if !cause.ends_with(&text) {
                cause = format!("{cause}: {text}");
            }
            source = inner.source();
        }
        Self { then: Then::Retry, cause: Cause::new(cause) }
    }
}

/// Forgets the job type: decodes the payload, then runs.
pub(crate) fn erase<T: JobType, H: Handler<T>>(handler: H) -> Erased {
    let handler = std::sync::Arc::new(handler);
    std::sync::Arc::new(move |context| {
        let handler = handler.clone();
        Box::pin(async move {
            let job = decode::<T>(&context.job().payload)?;
            handler.run(context, job).await.map_err(Into::into)
        })
    })
}

/// An undecodable payload is a failed attempt like any other: the next release may decode it.
fn decode<T: JobType>(payload: &Payload) -> Result<T, Failure> {
    payload.decode().map_err(|error| {
        Failure::retry(format!("the payload is no {}: {error}", std::any::type_name::<T>()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("outer")]
    struct Outer(#[source] std::num::ParseIntError);

    #[test]
    fn any_error_is_retried_with_its_causes() {
        let failure = Failure::from(Outer("x".parse::<u8>().unwrap_err()));
        assert_eq!(failure.then, Then::Retry);
        assert_eq!(failure.cause().as_str(), "outer: invalid digit found in string");
        let question_mark = || -> Result<(), Failure> {
            "x".parse::<u8>()?;
            Ok(())
        };
        assert!(question_mark().is_err());
    }
}
