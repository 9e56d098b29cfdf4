//! What `retry`, `cancel` and `delete` share: jobs by id or by filter, what will be touched, a
//! question, batches, and an account of what became of each.
//!
//! By filter the matching jobs are counted first, and then only those counted are touched: what was
//! pushed while somebody read the question stays. Each page is looked at again just before its jobs
//! are changed, so that one that left the filter meanwhile stays too.

mod account;
mod plan;

use std::collections::HashSet;

use clap::Args;
use jobs_core::{
    Admin, JobId, JobRef, Permit, Result as Stored, State,
    permit::{Read, Verb},
};

use super::Session;
use crate::{command::Filter, confirm::confirm, stop::Stop, text::count};
use account::Account;
use plan::Plan;

/// Jobs of one call.
const BATCH: usize = 500;
/// Jobs that are named one by one, before a question and after.
const NAMED: usize = 20;

/// Which jobs, and whether to ask.
#[derive(Debug, Args)]
pub(crate) struct Which {
    /// The jobs: <TENANT>/<UUID>, or their UUIDs where --tenant says whose
    #[arg(value_name = "ID")]
    ids: Vec<String>,
    #[command(flatten)]
    filter: Filter,
    /// Do not ask
    #[arg(long, short)]
    yes: bool,
}

/// A verb that changes many jobs.
pub(crate) trait Change {
    /// The action it needs.
    type Verb: Verb;
    /// `retry`
    const WORD: &'static str;
    /// Does it ask, where the jobs are named one by one?
    const ASKS: bool;
    /// For a question, after what it will touch.
    const WARNING: &'static str;
    /// The states of which jobs it is for.
    const STATES: &'static [State];
    /// Those of them that a filter without a state means.
    const UNLESS_SAID: &'static [State];

    /// One answer per job.
    async fn apply<A: Admin>(
        store: &A,
        permit: &Permit<Self::Verb>,
        jobs: &[JobRef],
    ) -> Stored<Vec<Answer>>;
}

/// What became of one job.
pub(crate) struct Answer {
    /// Did it change?
    pub changed: bool,
    /// In one word.
    pub word: &'static str,
    /// Where it is, where that is why.
    pub state: Option<State>,
    /// Who has its key, where that is why.
    pub held_by: Option<JobId>,
}

impl Answer {
    pub fn changed(word: &'static str) -> Self {
        Self { changed: true, word, state: None, held_by: None }
    }

    pub fn not(word: &'static str, state: Option<State>) -> Self {
        Self { changed: false, word, state, held_by: None }
    }
}

/// Changes what was asked for; the exit status is 1 where a job was left unchanged.
pub(crate) async fn change<C: Change, A: Admin>(
    which: Which,
    session: &Session<A>,
) -> Result<u8, Stop> {
    let word = C::WORD;
    match (which.ids.is_empty(), which.filter.is_empty()) {
        (false, true) => by_id::<C, A>(which, session).await,
        (true, false) => by_filter::<C, A>(which, session).await,
        (true, true) => Err(Stop::refused(format!(
            "{word} which jobs? Name them by id, or by --queue, --state, --name or --cause"
        ))),
        (false, false) => Err(Stop::refused(format!(
            "{word} by id or by filter: both at once say two different things"
        ))),
    }
}

async fn by_id<C: Change, A: Admin>(which: Which, session: &Session<A>) -> Result<u8, Stop> {
    let mut seen = HashSet::new();
    let mut jobs = Vec::new();
    for typed in &which.ids {
        let job = session.access.job(typed)?;
        if seen.insert(job.clone()) {
            jobs.push(job);
        }
    }
    let permit = session.access.permit::<C::Verb>().await?;
    if C::ASKS && !which.yes {
        let lines = name_them(&jobs, session).await?;
        let (number, warning) = (count(jobs.len() as u64, "job"), C::WARNING);
        confirm(&format!("{lines}\n{} {number}{warning}?", capital(C::WORD)))?;
    }
    let mut account = Account::new(C::WORD, jobs.len());
    let result = account.apply::<C, A>(session, &permit, &jobs).await;
    account.close(session, result)
}

/// A line for each of the first jobs, for the question.
async fn name_them<A: Admin>(jobs: &[JobRef], session: &Session<A>) -> Result<String, Stop> {
    let permit = session.access.permit::<Read>().await?;
    let mut lines = Vec::new();
    for job in jobs.iter().take(NAMED) {
        let record = session.store.get(&permit, job).await?;
        lines.push(match record {
            Some(found) => format!("  {job}  {}, {}", found.view.job.name, found.view.state),
            None => format!("  {job}  no such job"),
        });
    }
    if jobs.len() > NAMED {
        lines.push(format!("  and {} more", jobs.len() - NAMED));
    }
    Ok(lines.join("\n"))
}

async fn by_filter<C: Change, A: Admin>(which: Which, session: &Session<A>) -> Result<u8, Stop> {
    let states: Vec<State> = match which.filter.state {
        None => C::UNLESS_SAID.to_vec(),
        Some(state) if C::STATES.contains(&state) => vec![state],
        Some(state) => {
            let fit: Vec<_> = C::STATES.iter().map(|state| state.as_str()).collect();
            let (word, fit) = (C::WORD, fit.join(", "));
            return Err(Stop::refused(format!(
                "there is no {word} of {state} jobs, only of those that are {fit}"
            )));
        }
    };
    let permit = session.access.permit::<C::Verb>().await?;
    let read = session.access.permit::<Read>().await?;
    let plan = Plan::count(session, &read, &which.filter, &states).await?;
    let mut account = Account::new(C::WORD, plan.len());
    let scope = session.access.words();
    if plan.len() == 0 {
        if !session.out.json {
            let words: Vec<_> = states.iter().map(|state| state.as_str()).collect();
            session.out.remark(format!("No job {scope} matches that is {}.", words.join(", ")));
        }
        return account.close(session, Ok(()));
    }
    if !which.yes {
        let (lines, word) = (plan.in_lines(), capital(C::WORD));
        let (number, warning) = (count(plan.len() as u64, "job"), C::WARNING);
        confirm(&format!("{lines}\n{word} {number} {scope}{warning}?"))?;
    }
    let touched = plan.touch::<C, A>(session, (&read, &permit), &mut account).await;
    let result = touched.map(|moved| account.moved_on(moved));
    account.close(session, result)
}

fn capital(word: &str) -> String {
    let (first, rest) = word.split_at(1);
    first.to_uppercase() + rest
}
