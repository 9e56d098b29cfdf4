//! `list`: the newest jobs that match.

use std::borrow::Cow;

use clap::Args;
use jobs_core::{
    Admin, Permit, Timestamp,
    permit::Read,
    view::{self, Cursor, JobView, Page},
};

use super::{PAGE, Session};
use crate::{command::Filter, json, stop::Stop, table::table, text};

/// Pages of one call: with a filter that few jobs match, the rest is for the next call.
const MOST_PAGES: usize = 100;
/// Of a cause, in a table.
const CAUSE: usize = 60;

/// List jobs, newest first
#[derive(Debug, Args)]
pub(crate) struct List {
    #[command(flatten)]
    filter: Filter,
    /// How many jobs
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    limit: u32,
    /// Go on where the last list ended, as it said
    #[arg(long, value_name = "CURSOR")]
    after: Option<Cursor>,
}

impl List {
    pub async fn run<A: Admin>(self, session: &Session<A>) -> Result<u8, Stop> {
        let (out, limit) = (session.out, self.limit as usize);
        let permit = session.access.permit().await?;
        let mut list = session.list_of(&self.filter);
        list.after = self.after.clone();
        let (jobs, end) = find(session, &permit, list, limit, MOST_PAGES).await?;
        if out.json {
            out.object(&json::List::of(&jobs, &end))?;
            return Ok(0);
        }
        match jobs.is_empty() {
            true => out.remark(self.nothing(session)),
            false => out.say(in_table(&jobs, session.access.sees_all(), end.now))?,
        }
        if let Some(next) = &end.next {
            let why = match jobs.len() >= limit {
                true => "There may be more",
                false => "Not all jobs were looked at yet",
            };
            out.remark(format!("{why}: go on with --after {next}"));
        }
        Ok(0)
    }

    fn nothing<A: Admin>(&self, session: &Session<A>) -> String {
        let scope = session.access.words();
        match self.filter.is_empty() {
            true => format!("There are no jobs {scope}."),
            false => format!("No job {scope} matches."),
        }
    }
}

/// The first `limit` jobs of a list, and the page with which that ended. A page looks at a bounded
/// number of jobs, so that with a filter it may be empty and not the last.
async fn find<A: Admin>(
    session: &Session<A>,
    permit: &Permit<Read>,
    mut list: view::List,
    limit: usize,
    most_pages: usize,
) -> Result<(Vec<JobView>, Page), Stop> {
    let mut jobs = Vec::new();
    let mut pages = 1;
    loop {
        list.page = (limit - jobs.len()).min(PAGE);
        let mut page = session.store.list(permit, &list).await?;
        jobs.append(&mut page.jobs);
        if page.next.is_none() || jobs.len() >= limit || pages == most_pages {
            return Ok((jobs, page));
        }
        list.after = page.next;
        pages += 1;
    }
}

/// Jobs, one on a line. The id is written as the other verbs take it.
pub(super) fn in_table(jobs: &[JobView], with_tenant: bool, now: Timestamp) -> String {
    let heading = ["ID", "STATE", "QUEUE", "NAME", "ATTEMPT", "DUE", "LAST CAUSE"];
    let rows = jobs.iter().map(|view| {
        let job = &view.job;
        let id = match with_tenant {
            true => job.job_ref().to_string(),
            false => job.id.to_string(),
        };
        let state = match view.cancel_requested {
            true => Cow::from(format!("{}, asked to stop", view.state)),
            false => view.state.as_str().into(),
        };
        let attempt = match job.max_attempts {
            Some(most) => format!("{} of {most}", view.attempt),
            None => view.attempt.to_string(),
        };
        let due = json::due(job.run_at).map(|at| text::when(at, now)).unwrap_or_default();
        let cause = view.last_cause.as_ref().map_or("", |cause| cause.as_str());
        [
            id.into(),
            state,
            job.queue.as_str().into(),
            job.name.as_str().into(),
            attempt.into(),
            due.into(),
            text::cut(cause, CAUSE),
        ]
    });
    table(&heading, rows)
}

#[cfg(test)]
mod tests {
    use jobs_core::{Job, QueueExt};
    use jobs_testkit::kit;

    use super::*;
    use crate::{json, verb::model};

    /// The one that matches is the oldest of more than two pages.
    #[tokio::test]
    async fn a_walk_is_bounded_and_says_so() {
        let session = model::operator().await;
        let oldest = Job { name: "oldest".into(), ..kit::job("acme") };
        kit::push(&session.store, oldest).await;
        let jobs: Vec<_> = (0..2500).map(|_| kit::job("acme")).collect();
        for answer in session.store.push_many(&kit::grant("acme"), jobs).await {
            let _stored = answer.unwrap();
        }
        let permit = session.access.permit().await.unwrap();
        let name = Some("oldest".to_owned());
        let list = view::List { name, page: PAGE, ..view::List::default() };
        let (jobs, end) = find(&session, &permit, list.clone(), 50, 2).await.unwrap();
        let answer = json::List::of(&jobs, &end);
        assert_eq!((answer.jobs.len(), answer.complete), (0, false));
        assert!(answer.next.is_some());
        let after = end.next.clone();
        let rest = view::List { after, ..list.clone() };
        let (jobs, end) = find(&session, &permit, rest, 50, MOST_PAGES).await.unwrap();
        let answer = json::List::of(&jobs, &end);
        assert_eq!((answer.jobs.len(), answer.complete, answer.next), (1, true, None));
        let (jobs, _) = find(&session, &permit, list, 50, MOST_PAGES).await.unwrap();
        assert_eq!(jobs.len(), 1, "within one call it goes on by itself");
    }
}
