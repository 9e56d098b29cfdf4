//! From how a handler ended to what its job's settlement says.

use std::time::Duration;

use crate::{
    Cause, Failure, Outcome,
    handler::Then,
    worker::{config::Config, execute::End},
};

/// Why a run was told to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Why {
    LeaseLost,
    TimedOut(Duration),
    CancelRequested,
    Shutdown,
}

/// The outcome of a run that still holds its claim.
pub(crate) fn verdict(
    config: &Config,
    name: &str,
    (attempt, max_attempts): (u32, u32),
    why: Option<Why>,
    started: bool,
    end: End,
) -> Outcome {
    // Without a delay of its own, the backoff's, which is asked only where it counts.
    let fail = |after: Option<Duration>, cause: Cause| {
        if attempt >= max_attempts {
            return Outcome::Park { cause };
        }
        Outcome::Retry { after: after.unwrap_or_else(|| config.delay(name, attempt)), cause }
    };
    let retry = |cause: String| fail(None, Cause::new(cause));
    match (end, why) {
        // The work happened, whatever was asked meanwhile.
        (End::Returned(Ok(())), _) => Outcome::Done,
        (End::Returned(Err(failure)), Some(Why::CancelRequested)) => {
            Outcome::Cancelled { cause: failure.cause }
        }
        (End::Returned(Err(failure)), Some(Why::TimedOut(limit)))
            if failure.then == Then::Retry =>
        {
            retry(format!("timed out after {limit:?}: {}", failure.cause))
        }
        // It was told that the grace is over, and says so: nothing is held against the job.
        (End::Returned(Err(Failure { then: Then::Retry, .. })), Some(Why::Shutdown)) => {
            Outcome::Release
        }
        (End::Returned(Err(Failure { then, cause })), _) => match then {
            Then::Retry => fail(None, cause),
            Then::RetryAfter(after) => fail(Some(after), cause),
            Then::Park => Outcome::Park { cause },
            Then::Snooze(after) => Outcome::Snooze { after },
            Then::Cancel => Outcome::Cancelled { cause },
        },
        (End::Panicked(text), _) => retry(text),
        (End::Dropped, Some(Why::TimedOut(limit))) if started => {
            retry(format!("timed out after {limit:?}"))
        }
        (End::Dropped, Some(Why::CancelRequested)) => {
            Outcome::Cancelled { cause: "cancelled while it ran".into() }
        }
        // The worker ends, the application's runtime ended, or the handler never came to its
        // first step: nothing is held against the job.
        (End::Dropped, _) => Outcome::Release,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(attempt: u32, why: Option<Why>, end: End) -> Outcome {
        verdict(&Config::default(), "a", (attempt, 3), why, true, end)
    }

    fn err(failure: Failure) -> End {
        End::Returned(Err(failure))
    }

    #[test]
    fn every_end_has_its_outcome() {
        let second = Duration::from_secs(1);
        let timed_out = Some(Why::TimedOut(second));
        for why in [None, timed_out, Some(Why::CancelRequested), Some(Why::Shutdown)] {
            assert_eq!(of(3, why, End::Returned(Ok(()))), Outcome::Done);
        }
        let Outcome::Retry { after, .. } = of(2, None, err(Failure::retry("x"))) else { panic!() };
        assert!((27..=30).contains(&after.as_secs()), "{after:?}");
        assert_eq!(of(3, None, err(Failure::retry("x"))), Outcome::Park { cause: "x".into() });
        let limited = err(Failure::retry_after(second, "x"));
        assert_eq!(of(1, None, limited), Outcome::Retry { after: second, cause: "x".into() });
        let limited = err(Failure::retry_after(second, "x"));
        assert_eq!(of(3, None, limited), Outcome::Park { cause: "x".into() });
        let snoozed = err(Failure::snooze(second));
        assert_eq!(of(3, None, snoozed), Outcome::Snooze { after: second });
        let panic = || End::Panicked("boom".into());
        assert!(
            matches!(of(1, None, panic()), Outcome::Retry { cause, .. } if cause == "boom".into())
        );
        assert_eq!(of(3, None, panic()), Outcome::Park { cause: "boom".into() });
        let cause = of(1, timed_out, End::Dropped).cause().cloned();
        assert_eq!(cause, Some("timed out after 1s".into()));
        assert_eq!(of(3, Some(Why::Shutdown), End::Dropped), Outcome::Release);
        assert!(matches!(of(1, Some(Why::CancelRequested), panic()), Outcome::Retry { .. }));
        let asked = of(1, Some(Why::CancelRequested), End::Dropped);
        assert!(matches!(asked, Outcome::Cancelled { .. }));
    }
}
