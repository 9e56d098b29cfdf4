//! Cancel (A3).

use async_trait::async_trait;
use jobs_core::{
    JobRef, Permit, State,
    admin::Cancelled,
    permit::Cancel,
    state::{Event, Step, step},
};

use crate::{
    db::query,
    error::Fault,
    moves::{Moves, Run},
    row::{self, get},
    tx::{Tx, json},
    writer::Write,
};

/// A verb's jobs and scope.
pub(crate) struct Scoped {
    tenant: Option<String>,
    pub by: String,
    pub jobs: Vec<JobRef>,
}

/// A stored job in scope.
pub(crate) struct Found {
    pub job: i64,
    pub live: Option<Run>,
    /// State and queue of a finished one.
    pub ended: Option<(State, i64)>,
}

impl Scoped {
    pub fn new<V>(permit: &Permit<V>, jobs: &[JobRef]) -> Self {
        let tenant = permit.tenant().map(str::to_owned);
        Self { tenant, by: permit.by().to_owned(), jobs: jobs.to_vec() }
    }

    /// Each job, if it is stored and in scope, with a live row unless it ended. A later mention of one job is looked up again by the
    /// caller's own order: verbs run one after the other.
    pub async fn find(&self, tx: &mut Tx<'_>, job: &JobRef) -> Result<Option<Found>, Fault> {
        let wanted = json(&[(&job.tenant, job.id.0.simple().to_string())]);
        let find = query(include_str!("admin_match.sql")).bind(wanted).bind(&self.tenant);
        let Some(row) = tx.db.first(find).await? else { return Ok(None) };
        let end = 2 + Run::COLUMNS;
        let ended = match get::<Option<i64>>(&row, end)? {
            Some(state) => Some((row::state(state)?, get(&row, end + 1)?)),
            None => None,
        };
        let (job, mut live) = (get(&row, 1)?, Run::read(&row, 2)?);
        if live.is_none() && ended.is_none() {
            tx.db.run(query(include_str!("admin_fresh.sql")).bind(job)).await?;
            live = Run::of(tx, job).await?;
        }
        Ok(Some(Found { job, live, ended }))
    }
}

/// Ends jobs without their work.
pub(crate) struct CancelJobs(Scoped);

impl CancelJobs {
    pub fn new(permit: &Permit<Cancel>, jobs: &[JobRef]) -> Self {
        Self(Scoped::new(permit, jobs))
    }
}

#[async_trait]
impl Write for CancelJobs {
    const NAME: &'static str = "cancel";
    type Answer = Vec<Cancelled>;

    async fn run(&self, tx: &mut Tx<'_>) -> Result<Vec<Cancelled>, Fault> {
        let mut answers = Vec::with_capacity(self.0.jobs.len());
        for job in &self.0.jobs {
            let found = self.0.find(tx, job).await?;
            answers.push(match found {
                None => Cancelled::Unknown,
                Some(Found { live: Some(run), .. }) => cancel(tx, &self.0.by, &run).await?,
                Some(Found { ended: Some((state, _)), .. }) => Cancelled::NotLive(state),
                Some(Found { job, .. }) => return Err(no_state(job)),
            });
        }
        Ok(answers)
    }
}

/// A body in no state.
pub(crate) fn no_state(job: i64) -> Fault {
    Fault::Corrupt(format!("job number {job} is neither live nor finished: delete its row"))
}

async fn cancel(tx: &mut Tx<'_>, by: &str, run: &Run) -> Result<Cancelled, Fault> {
    match step(run.state, Event::OperatorCancel, run.facts(tx.now)) {
        Step::To(_) => {
            let mut moves = Moves::by("cancel", by);
            moves.cancel(run, tx.now);
            moves.write(tx).await?;
            Ok(Cancelled::Cancelled)
        }
        Step::CancelRequested => {
            let ask = query(include_str!("cancel_ask.sql")).bind(json(&[run.job]));
            tx.db.run(ask.bind(by).bind(tx.now)).await?;
            tx.dirty = true;
            Ok(Cancelled::Requested)
        }
        Step::Gone | Step::Refused => Ok(Cancelled::NotLive(run.state)),
    }
}
