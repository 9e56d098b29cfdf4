//! `cancel`: jobs end without their work.

use clap::Args;
use jobs_core::{Admin, JobRef, Permit, Result as Stored, State, admin::Cancelled, permit};

use super::{
    Session,
    many::{Answer, Change, Which, change},
};
use crate::stop::Stop;

/// End jobs without their work; a running one is asked to stop
///
/// It says what it will touch and asks first. A running job is asked to stop, and is cancelled when
/// its handler ends, unless its work is done by then.
#[derive(Debug, Args)]
pub(crate) struct Cancel {
    #[command(flatten)]
    which: Which,
}

impl Cancel {
    pub async fn run<A: Admin>(self, session: &Session<A>) -> Result<u8, Stop> {
        change::<Self, A>(self.which, session).await
    }
}

impl Change for Cancel {
    type Verb = permit::Cancel;
    const WORD: &'static str = "cancel";
    const ASKS: bool = true;
    const WARNING: &'static str = "";
    const STATES: &'static [State] =
        &[State::Scheduled, State::Ready, State::Running, State::Parked];
    const UNLESS_SAID: &'static [State] = Self::STATES;

    async fn apply<A: Admin>(
        store: &A,
        permit: &Permit<permit::Cancel>,
        jobs: &[JobRef],
    ) -> Stored<Vec<Answer>> {
        let answers = store.cancel(permit, jobs).await?;
        Ok(answers.into_iter().map(Answer::from).collect())
    }
}

impl From<Cancelled> for Answer {
    fn from(answer: Cancelled) -> Self {
        match answer {
            Cancelled::Cancelled => Self::changed("cancelled"),
            Cancelled::Requested => Self::changed("requested"),
            Cancelled::NotLive(state) => Self::not("not_live", Some(state)),
            Cancelled::Unknown => Self::not("unknown", None),
        }
    }
}
