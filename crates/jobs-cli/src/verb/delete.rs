//! `delete`: jobs and their history go for good.

use clap::Args;
use jobs_core::{Admin, JobRef, Permit, Result as Stored, State, admin::Deleted, permit};

use super::{
    Session,
    many::{Answer, Change, Which, change},
};
use crate::stop::Stop;

/// Remove jobs and their history for good
///
/// It says what it will touch and asks first. A running job is not deleted: cancel it first. A
/// filter without a state means jobs that will not run by themselves: parked, done and cancelled ones.
#[derive(Debug, Args)]
pub(crate) struct Delete {
    #[command(flatten)]
    which: Which,
}

impl Delete {
    pub async fn run<A: Admin>(self, session: &Session<A>) -> Result<u8, Stop> {
        change::<Self, A>(self.which, session).await
    }
}

impl Change for Delete {
    type Verb = permit::Delete;
    const WORD: &'static str = "delete";
    const ASKS: bool = true;
    const WARNING: &'static str = ", with all history, for good";
    const STATES: &'static [State] =
        &[State::Scheduled, State::Ready, State::Parked, State::Done, State::Cancelled];
    const UNLESS_SAID: &'static [State] = &[State::Parked, State::Done, State::Cancelled];

    async fn apply<A: Admin>(
        store: &A,
        permit: &Permit<permit::Delete>,
        jobs: &[JobRef],
    ) -> Stored<Vec<Answer>> {
        let answers = store.delete(permit, jobs).await?;
        Ok(answers.into_iter().map(Answer::from).collect())
    }
}

impl From<Deleted> for Answer {
    fn from(answer: Deleted) -> Self {
        match answer {
            Deleted::Deleted => Self::changed("deleted"),
            Deleted::Running => Self::not("running", Some(State::Running)),
            Deleted::Unknown => Self::not("unknown", None),
        }
    }
}
