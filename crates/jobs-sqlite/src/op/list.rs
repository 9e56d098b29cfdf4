//! List (A2): the newest 1,000 rows of an index at most, then the filters, then the page.

use std::sync::{Arc, LazyLock};

use async_trait::async_trait;
use jobs_core::{
    JobId, JobRef, Permit, State, permit,
    time::from_millis,
    view::{Cursor, JobView, List, Page},
};
use sqlx::{AssertSqlSafe, query, sqlite::SqliteRow};

use crate::{
    db::Statement,
    error::Fault,
    reader::{Read, Reading},
    row::{self, get, small},
    tx::json,
};

/// Most rows that one page looks at.
const LOOKED_AT: usize = 1000;
/// How many columns a view has.
pub(super) const VIEW: usize = 20;
/// Greater than every id.
const NEWEST: [u8; 17] = [0xff; 17];

static SHELVES: LazyLock<[Arc<str>; 6]> = LazyLock::new(|| {
    State::ALL.map(|state| {
        let number = state as i64;
        if state == State::Running {
            return include_str!("list_running.sql").into();
        }
        let (table, predicate) = match state.is_live() {
            true => ("jobs_live", format!("s.state = {number}")),
            false => ("jobs_done", format!("s.state = {number} AND s.stub = 0")),
        };
        let body = include_str!("list_shelf.sql").lines().filter(|line| !line.starts_with("--"));
        let body = body.collect::<Vec<_>>().join("\n");
        body.replace("TABLE", table).replace("STATE", &predicate).into()
    })
});

/// One page.
pub(crate) struct Lister {
    list: List,
    tenant: Option<String>,
    /// The permit does not cover the tenant asked for.
    outside: bool,
}

type Seen = (JobId, String, i64);

impl Lister {
    pub fn new(permit: &Permit<permit::Read>, list: &List) -> Self {
        let outside = list.tenant.as_deref().is_some_and(|tenant| !permit.covers(tenant));
        let tenant = permit.tenant().map(str::to_owned).or_else(|| list.tenant.clone());
        Self { list: list.clone(), tenant, outside }
    }

    /// The newest rows after the cursor, one more than may be looked at.
    async fn look(&self, reading: &mut Reading<'_>) -> Result<Vec<Seen>, Fault> {
        let (id, than) = match &self.list.after {
            Some(Cursor(job)) => (job.id.0.as_bytes().to_vec(), job.tenant.clone()),
            None => (NEWEST.to_vec(), String::new()),
        };
        let bind = |sql: Statement<'static>| {
            sql.bind(id.clone())
                .bind(than.clone())
                .bind(LOOKED_AT as i64 + 1)
                .bind(self.tenant.clone())
        };
        let rows = match (self.list.state, &self.list.queue) {
            (None, None) if self.tenant.is_none() => {
                let all = query(include_str!("list_all.sql")).bind(&id).bind(&than);
                reading.db.all(all.bind(LOOKED_AT as i64 + 1)).await?
            }
            (None, None) => reading.db.all(bind(query(include_str!("list_tenant.sql")))).await?,
            (state, queue) => {
                let states = State::ALL.into_iter().filter(|s| state.is_none_or(|one| one == *s));
                let mut rows = Vec::new();
                for state in states {
                    let sql = AssertSqlSafe(SHELVES[state as usize].clone());
                    rows.extend(reading.db.all(bind(query(sql)).bind(queue.clone())).await?);
                }
                rows
            }
        };
        let seen = |row: &SqliteRow| Ok((row::id(get(row, 1)?)?, get(row, 2)?, get(row, 0)?));
        let mut seen: Vec<Seen> = rows.iter().map(seen).collect::<Result<_, Fault>>()?;
        seen.sort_by(|a, b| b.cmp(a));
        seen.truncate(LOOKED_AT + 1);
        Ok(seen)
    }

    /// The places of those that match.
    async fn filter(&self, reading: &mut Reading<'_>, jobs: &[i64]) -> Result<Vec<usize>, Fault> {
        let list = &self.list;
        if list.name.is_none() && list.id.is_none() && list.cause.is_none() {
            return Ok((0..jobs.len()).collect());
        }
        let id = list.id.map(|id| id.0.as_bytes().to_vec());
        let filter = query(include_str!("list_filter.sql")).bind(json(jobs));
        let filter = filter.bind(list.name.clone()).bind(id).bind(list.cause.clone());
        let rows = reading.db.all(filter).await?;
        let place = |row| Ok(usize::try_from(get::<i64>(row, 0)?).unwrap_or_default());
        rows.iter().map(place).collect()
    }
}

#[async_trait]
impl Read for Lister {
    const NAME: &'static str = "list";
    type Answer = Page;

    async fn run(&self, reading: &mut Reading<'_>) -> Result<Page, Fault> {
        let now = from_millis(reading.now);
        let mut page = Page { jobs: Vec::new(), next: None, complete: true, now };
        if self.outside {
            return Ok(page);
        }
        let most = if self.list.page == 0 { 100 } else { self.list.page.min(1000) };
        let seen = self.look(reading).await?;
        let jobs: Vec<i64> = seen.iter().take(LOOKED_AT).map(|(.., job)| *job).collect();
        let mut places = self.filter(reading, &jobs).await?;
        let full = places.len() >= most;
        places.truncate(most);
        // Where the page ends: after its last job when it is full, else after all looked at.
        let last = if full { places.last().copied() } else { jobs.len().checked_sub(1) };
        if let Some(last) = last
            && last + 1 < seen.len()
        {
            let (id, tenant, _) = &seen[last];
            page.complete = full;
            page.next = Some(Cursor(JobRef { tenant: tenant.clone(), id: *id }));
        }
        let chosen: Vec<i64> = places.iter().map(|at| jobs[*at]).collect();
        if !chosen.is_empty() {
            let fetch = query(include_str!("list_fetch.sql")).bind(json(&chosen));
            for row in reading.db.all(fetch).await? {
                match view(&row) {
                    Ok(view) => page.jobs.push(view),
                    Err(fault) => {
                        let error = fault.into_error("list");
                        tracing::error!(%error, "a job that cannot be read is left out of a list");
                    }
                }
            }
        }
        Ok(page)
    }
}

/// A job as operators see it.
pub(super) fn view(row: &SqliteRow) -> Result<JobView, Fault> {
    Ok(JobView {
        job: row::job(row, 0, get(row, 15)?)?,
        state: row::state(get(row, 14)?)?,
        attempt: small(get(row, 16)?),
        pushed_at: from_millis(get(row, 13)?),
        finished_at: get::<Option<i64>>(row, 17)?.map(from_millis),
        last_cause: get::<Option<String>>(row, 19)?.map(Into::into),
        cancel_requested: get::<i64>(row, 18)? > 0,
    })
}
