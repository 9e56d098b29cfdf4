//! The verbs that change jobs and lanes, for forms and for JSON alike.

use jobs_core::{
    JobId, JobRef, State,
    admin::{Cancelled, Deleted, LaneChange, LaneRef, Pause, Retried, Tuned},
    json::{self, Changed, Unchanged},
    names::is_tenant,
    permit::{Cancel, Delete, Retry, Tune},
    words::is_endless,
};

use crate::{answer::Refused, app::Asked, fields};

/// Of jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum JobVerb {
    Retry,
    Cancel,
    Delete,
}

impl JobVerb {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Retry => "retry",
            Self::Cancel => "cancel",
            Self::Delete => "delete",
        }
    }

    /// Does it do something to a job in this state? The store decides; this is for buttons.
    pub fn fits(self, state: State) -> bool {
        match self {
            Self::Retry => matches!(state, State::Parked | State::Cancelled),
            Self::Cancel => state.is_live(),
            Self::Delete => state != State::Running,
        }
    }

    /// Does it to all of them.
    pub async fn apply(self, asked: &Asked<'_>, jobs: &[JobRef]) -> Result<Changed, Refused> {
        let store = asked.store();
        let answers: Vec<Answer> = match self {
            Self::Retry => {
                let permit = asked.permit::<Retry>()?;
                store.retry(&permit, jobs).await?.into_iter().map(of_retry).collect()
            }
            Self::Cancel => {
                let permit = asked.permit::<Cancel>()?;
                store.cancel(&permit, jobs).await?.into_iter().map(of_cancel).collect()
            }
            Self::Delete => {
                let permit = asked.permit::<Delete>()?;
                store.delete(&permit, jobs).await?.into_iter().map(of_delete).collect()
            }
        };
        let asked = jobs.len() as u64;
        let mut sum = Changed { verb: self.as_str(), asked, ..Changed::default() };
        for (job, answer) in jobs.iter().zip(answers) {
            *sum.answers.entry(answer.word).or_default() += 1;
            if answer.changed {
                sum.changed += 1;
                continue;
            }
            sum.unchanged.push(Unchanged {
                state: answer.state.map(State::as_str),
                held_by: answer.held_by.map(|id| id.to_string()),
                ..Unchanged::new(job, answer.word)
            });
        }
        Ok(sum)
    }
}

struct Answer {
    word: &'static str,
    changed: bool,
    state: Option<State>,
    held_by: Option<JobId>,
}

fn done(word: &'static str) -> Answer {
    Answer { word, changed: true, state: None, held_by: None }
}

fn not(word: &'static str, state: Option<State>) -> Answer {
    Answer { word, changed: false, state, held_by: None }
}

fn of_retry(answer: Retried) -> Answer {
    match answer {
        Retried::Retried => done("retried"),
        Retried::NotRetryable(state) => not("not_retryable", Some(state)),
        Retried::KeyHeld(id, state) => Answer { held_by: Some(id), ..not("key_held", Some(state)) },
        Retried::Unknown => not("unknown", None),
    }
}

fn of_cancel(answer: Cancelled) -> Answer {
    match answer {
        Cancelled::Cancelled => done("cancelled"),
        Cancelled::Requested => done("requested"),
        Cancelled::NotLive(state) => not("not_live", Some(state)),
        Cancelled::Unknown => not("unknown", None),
    }
}

fn of_delete(answer: Deleted) -> Answer {
    match answer {
        Deleted::Deleted => done("deleted"),
        Deleted::Running => not("running", Some(State::Running)),
        Deleted::Unknown => not("unknown", None),
    }
}

/// Why a job was not changed, for people.
pub(crate) fn why_not(unchanged: &Unchanged) -> String {
    match (unchanged.answer, unchanged.state, &unchanged.held_by) {
        ("unknown", ..) => "no such job".to_owned(),
        ("running", ..) => "it runs: cancel it first".to_owned(),
        ("key_held", state, Some(by)) => {
            format!("its key is held by {by}, which is {}", state.unwrap_or("live"))
        }
        (_, Some(state), _) => format!("it is {state}"),
        (answer, ..) => answer.replace('_', " "),
    }
}

/// Pauses or resumes a lane, or with no tenant, as an operator, the queue of every tenant.
pub(crate) async fn tune(
    asked: &Asked<'_>,
    queue: Option<&str>,
    tenant: Option<String>,
    pause: Pause,
) -> Result<json::Tuned, Refused> {
    let queue = fields::queue(queue)?;
    if tenant.as_deref().is_some_and(|tenant| !is_tenant(tenant)) {
        return Err(Refused::bad("No tenant is called so."));
    }
    let tenant = asked.grant.tenant().map(str::to_owned).or(tenant);
    let lane = LaneRef { queue, tenant };
    let change = LaneChange { pause: Some(pause), ..LaneChange::default() };
    let verb = change.verb().unwrap_or_default();
    match asked.store().set_lane(&asked.permit::<Tune>()?, &lane, change).await? {
        Tuned::Tuned => {}
        Tuned::NotAllowed => {
            let words = "A tenant's user may pause and resume its own lanes.";
            return Err(Refused::new(axum::http::StatusCode::FORBIDDEN, words));
        }
        Tuned::OutOfBounds => return Err(Refused::bad("The store takes no such name.")),
    }
    let for_seconds = match pause {
        Pause::For(length) => Some(length.as_secs_f64()),
        Pause::On | Pause::Off => None,
    };
    Ok(json::Tuned {
        verb,
        queue: lane.queue,
        tenant: lane.tenant,
        for_seconds,
        still_paused: Vec::new(),
    })
}

/// Until when, where it ends by itself.
pub(crate) fn deadline(until: Option<jobs_core::Timestamp>) -> Option<jobs_core::Timestamp> {
    until.filter(|at| !is_endless(*at))
}
