//! List (A2): newest id first along an index, chunk by chunk, until the page is full, the rows end,
//! or 1,000 rows or 250 ms are spent. Every row read counts, stubs and those the filters drop too.
//!
//! Which index: the cold states (scheduled, parked, cancelled) have their own, by queue for
//! operators and by lane for a tenant, whose lanes are as few as queues. All else walks the bodies,
//! lane by lane of one tenant or of a queue with few tenants, or all of them, and filters; few
//! running or ready jobs are taken from what reserve and sweep have anyway.
//!
//! Rejected: indexes of ready and done jobs by lane, which cost every job two entries more and two
//! removals, and an operator's page a read of every lane (3 s at 1,000 lanes). Rejected: an
//! index of bodies by queue, one entry a push more (a fifth of a bulk push's rate) for an operator's
//! walk of a queue with more than 200 tenants, which looks at the other queues' bodies too.

use std::{
    collections::HashMap,
    sync::{Arc, LazyLock},
    time::{Duration, Instant},
};

use async_trait::async_trait;
use jobs_core::{
    JobId, JobRef, Permit, State, permit,
    time::from_millis,
    view::{Cursor, JobView, List, Page},
};

use crate::{
    db::query,
    error::Fault,
    reader::{Read, Reading},
    row::{self, Row, get, small},
    tx::json,
};

/// Most rows that one page looks at.
const LOOKED_AT: usize = 1000;
/// Longest that one page looks, judged between two chunks.
const LOOKED_FOR: Duration = Duration::from_millis(250);
/// Rows of one chunk.
const CHUNK: usize = 250;
/// Running or ready jobs that are looked at all together.
const FEW: usize = 500;
/// Most lanes of a queue that are walked side by side; with more, all bodies are walked.
const LANES: usize = 200;
/// How many columns a view has.
pub(super) const VIEW: usize = 20;
/// Greater than every id.
const NEWEST: [u8; 17] = [0xff; 17];

/// The statements of the cold states, by lane and by queue.
static SHELVES: LazyLock<[[Arc<str>; 2]; 6]> = LazyLock::new(|| {
    State::ALL.map(|state| {
        ["lane", "queue"].map(|place| {
            let (table, stub) = match state.is_live() {
                true => ("jobs_live", ""),
                false => ("jobs_done", " AND stub = 0"),
            };
            shelf_of(table, &format!("state = {}{stub}", state as i64), place)
        })
    })
});

/// The statement that walks the bodies of lanes.
static BODIES: LazyLock<Arc<str>> = LazyLock::new(|| shelf_of("jobs_body", "TRUE", "lane"));

/// The statement of one index: list_shelf.sql with its names.
fn shelf_of(table: &str, state: &str, place: &str) -> Arc<str> {
    let lines = include_str!("list_shelf.sql").lines().filter(|line| !line.starts_with("--"));
    let sql = lines.collect::<Vec<_>>().join("\n").replace("TABLE", table);
    sql.replace("STATE", state).replace("PLACE", place).into()
}

/// One page.
pub(crate) struct Lister {
    list: List,
    tenant: Option<String>,
    /// The permit does not cover the tenant asked for.
    outside: bool,
}

/// A row looked at. Neither id nor tenant is trusted to be one: a damaged row is stepped over.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Seen {
    id: Vec<u8>,
    tenant: String,
    job: i64,
}

/// Where the rows come from.
enum Walk {
    /// Few enough to have been read already.
    Few(Vec<Seen>),
    All,
    /// The statement of a cold state, or of the bodies, and its lanes or queues.
    Shelf(Arc<str>, Vec<i64>),
}

fn seen(row: &Row) -> Result<Seen, Fault> {
    let id = get::<Option<Vec<u8>>>(row, 1).ok().flatten().unwrap_or_default();
    // A tenant that is no text sorts before all others of its id, so the walk goes on after it.
    let tenant = get::<Option<String>>(row, 2).ok().flatten().unwrap_or_default();
    Ok(Seen { id, tenant, job: get(row, 0)? })
}

impl Seen {
    /// As a cursor that can be told, even where the row is damaged.
    fn cursor(&self) -> Cursor {
        let mut id = [0; 16];
        id.iter_mut().zip(&self.id).for_each(|(to, from)| *to = *from);
        let legal = jobs_core::names::is_tenant(&self.tenant);
        let tenant = if legal { self.tenant.clone() } else { "0".to_owned() };
        Cursor(JobRef { tenant, id: JobId(uuid::Uuid::from_bytes(id)) })
    }
}

impl Walk {
    /// The next rows after `from`, about `most`, and whether these are the last.
    async fn step(
        &self,
        reading: &mut Reading<'_>,
        from: &Seen,
        most: usize,
    ) -> Result<(Vec<Seen>, bool), Fault> {
        match self {
            Self::Few(rows) => {
                let after =
                    rows.iter().filter(|row| (&row.id, &row.tenant) < (&from.id, &from.tenant));
                Ok((after.cloned().collect(), true))
            }
            Self::Shelf(sql, places) => shelf(reading, sql, places, from, most).await,
            Self::All => {
                // One more, to know whether these are the last.
                let walk = query(include_str!("list_all.sql")).bind(&from.id).bind(&from.tenant);
                let rows = reading.db.all(walk.bind(most as i64 + 1)).await?;
                let last = rows.len() <= most;
                Ok((rows.iter().take(most).map(seen).collect::<Result<_, Fault>>()?, last))
            }
        }
    }
}

/// The newest of several lanes or queues. Each gives its share of the chunk; what is older than the
/// end of a full share is left for the next chunk, because rows of that share may lie before it.
async fn shelf(
    reading: &mut Reading<'_>,
    sql: &Arc<str>,
    places: &[i64],
    from: &Seen,
    most: usize,
) -> Result<(Vec<Seen>, bool), Fault> {
    let share = (most / places.len().max(1)).max(1);
    let look = query(sql).bind(&from.id).bind(&from.tenant);
    let rows = reading.db.all(look.bind(share as i64).bind(json(places))).await?;
    let mut all = rows.iter().map(seen).collect::<Result<Vec<_>, Fault>>()?;
    let mut ends = HashMap::<i64, (usize, &[u8])>::new();
    for (row, seen) in rows.iter().zip(&all) {
        let (count, end) = ends.entry(get(row, 3)?).or_default();
        *count += usize::from(seen.id < from.id);
        *end = &seen.id;
    }
    let full = ends.values().filter(|(count, _)| *count >= share).map(|(_, end)| *end);
    let Some(end) = full.max().map(<[u8]>::to_vec) else { return Ok((all, true)) };
    all.retain(|seen| seen.id >= end);
    Ok((all, false))
}

impl Lister {
    pub fn new(permit: &Permit<permit::Read>, list: &List) -> Self {
        let outside = list.tenant.as_deref().is_some_and(|tenant| !permit.covers(tenant));
        let tenant = permit.tenant().map(str::to_owned).or_else(|| list.tenant.clone());
        Self { list: list.clone(), tenant, outside }
    }

    /// Chooses the index, and says how many rows choosing it has looked at.
    async fn walk(&self, reading: &mut Reading<'_>) -> Result<(Walk, usize), Fault> {
        let (mut looked_at, list) = (0, &self.list);
        match list.state {
            Some(state @ (State::Scheduled | State::Parked | State::Cancelled)) => {
                let [by_lane, by_queue] = &SHELVES[state as usize];
                let (sql, places) = match &self.tenant {
                    Some(tenant) => (
                        by_lane,
                        query(include_str!("list_lanes.sql"))
                            .bind(&list.queue)
                            .bind(tenant)
                            .bind(i64::MAX),
                    ),
                    None => (by_queue, query(include_str!("list_queues.sql")).bind(&list.queue)),
                };
                let places = reading.db.all(places).await?;
                let places = places.iter().map(|row| get(row, 0)).collect::<Result<_, Fault>>()?;
                return Ok((Walk::Shelf(sql.clone(), places), 0));
            }
            Some(state @ (State::Running | State::Ready)) => {
                let few = match state {
                    State::Running => include_str!("list_few_running.sql"),
                    _ => include_str!("list_few_ready.sql"),
                };
                let rows = reading.db.all(query(few).bind(FEW as i64 + 1)).await?;
                looked_at = rows.len();
                if looked_at <= FEW {
                    let mut rows = rows.iter().map(seen).collect::<Result<Vec<_>, Fault>>()?;
                    rows.sort_by(|a, b| b.cmp(a));
                    return Ok((Walk::Few(rows), 0));
                }
            }
            _ => {}
        }
        let lanes = match (&self.tenant, &list.queue) {
            (Some(tenant), queue) => {
                query(include_str!("list_lanes.sql")).bind(queue).bind(tenant).bind(i64::MAX)
            }
            (None, Some(queue)) => {
                query(include_str!("list_queue_lanes.sql")).bind(queue).bind(LANES as i64 + 1)
            }
            (None, None) => return Ok((Walk::All, looked_at)),
        };
        let lanes = reading.db.all(lanes).await?;
        let lanes: Vec<i64> = lanes.iter().map(|row| get(row, 0)).collect::<Result<_, Fault>>()?;
        match self.tenant.is_none() && lanes.len() > LANES {
            true => Ok((Walk::All, looked_at)),
            false => Ok((Walk::Shelf(BODIES.clone(), lanes), looked_at)),
        }
    }

    /// Which of them match, place by place.
    async fn filter(&self, reading: &mut Reading<'_>, rows: &[Seen]) -> Result<Vec<bool>, Fault> {
        let list = &self.list;
        let jobs: Vec<i64> = rows.iter().map(|row| row.job).collect();
        let filter = query(include_str!("list_filter.sql")).bind(json(&jobs));
        let filter = filter.bind(&list.name).bind(list.id.map(|id| id.0.as_bytes().to_vec()));
        let filter = filter.bind(&list.cause).bind(list.state.map(|state| state as i64));
        let mut matches = vec![false; rows.len()];
        for row in reading.db.all(filter.bind(&list.queue).bind(&self.tenant)).await? {
            let at = usize::try_from(get::<i64>(&row, 0)?).unwrap_or(usize::MAX);
            matches.get_mut(at).into_iter().for_each(|at| *at = true);
        }
        Ok(matches)
    }

    /// The jobs of a page and where it ended.
    async fn look(
        &self,
        reading: &mut Reading<'_>,
    ) -> Result<(Vec<i64>, Option<Cursor>, bool), Fault> {
        let since = Instant::now();
        let most = if self.list.page == 0 { 100 } else { self.list.page.min(1000) };
        let mut from = match &self.list.after {
            Some(Cursor(job)) => {
                Seen { id: job.id.0.as_bytes().to_vec(), tenant: job.tenant.clone(), job: 0 }
            }
            None => Seen { id: NEWEST.to_vec(), tenant: String::new(), job: 0 },
        };
        let (walk, mut looked_at) = self.walk(reading).await?;
        let mut jobs = Vec::new();
        loop {
            let chunk = CHUNK.min(LOOKED_AT.saturating_sub(looked_at)).max(1);
            let (rows, last) = walk.step(reading, &from, chunk).await?;
            let matches = self.filter(reading, &rows).await?;
            for (at, (row, matches)) in rows.iter().zip(matches).enumerate() {
                if matches {
                    jobs.push(row.job);
                    if jobs.len() == most {
                        let more = !last || at + 1 < rows.len();
                        return Ok((jobs, more.then(|| row.cursor()), true));
                    }
                }
            }
            looked_at += rows.len().max(1);
            if let Some(row) = rows.into_iter().next_back() {
                from = row;
            }
            if last {
                return Ok((jobs, None, true));
            }
            if looked_at >= LOOKED_AT || since.elapsed() >= LOOKED_FOR {
                return Ok((jobs, Some(from.cursor()), false));
            }
        }
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
        let (chosen, next, complete) = self.look(reading).await?;
        (page.next, page.complete) = (next, complete);
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
pub(super) fn view(row: &Row) -> Result<JobView, Fault> {
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
