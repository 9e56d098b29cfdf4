//! `retry`: parked and cancelled jobs go back in line.

use clap::Args;
use jobs_core::{Admin, JobRef, Permit, Result as Stored, State, admin::Retried, permit};

use super::{
    Session,
    many::{Answer, Change, Which, change},
};
use crate::stop::Stop;

/// Put parked or cancelled jobs back in line, due now
///
/// By filter it counts the jobs and asks first, by id it does not. A filter without a state means
/// parked jobs: cancelled ones were ended on purpose.
#[derive(Debug, Args)]
pub(crate) struct Retry {
    #[command(flatten)]
    which: Which,
}

impl Retry {
    pub async fn run<A: Admin>(self, session: &Session<A>) -> Result<u8, Stop> {
        change::<Self, A>(self.which, session).await
    }
}

impl Change for Retry {
    type Verb = permit::Retry;
    const WORD: &'static str = "retry";
    const ASKS: bool = false;
    const WARNING: &'static str = "";
    const STATES: &'static [State] = &[State::Parked, State::Cancelled];
    const UNLESS_SAID: &'static [State] = &[State::Parked];

    async fn apply<A: Admin>(
        store: &A,
        permit: &Permit<permit::Retry>,
        jobs: &[JobRef],
    ) -> Stored<Vec<Answer>> {
        let answers = store.retry(permit, jobs).await?;
        Ok(answers.into_iter().map(Answer::from).collect())
    }
}

impl From<Retried> for Answer {
    fn from(answer: Retried) -> Self {
        match answer {
            Retried::Retried => Self::changed("retried"),
            Retried::NotRetryable(state) => Self::not("not_retryable", Some(state)),
            Retried::KeyHeld(id, state) => {
                Self { held_by: Some(id), ..Self::not("key_held", Some(state)) }
            }
            Retried::Unknown => Self::not("unknown", None),
        }
    }
}
