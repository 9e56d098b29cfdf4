//! Stores bodies, many a statement.

use std::sync::{Arc, LazyLock};

use jobs_core::{
    AuthorizedJob,
    driver::{scope_number, timeout_number},
};

use crate::{
    db::{Statement, query_of},
    error::Fault,
    places::Place,
    tx::{Tx, json},
};

/// Rows of one INSERT: few sizes, so that each is prepared once, and none so large that its texts
/// outgrow what SQLite keeps for small allocations: 64 rows are 10 % slower than 32, 16 as well.
const SIZES: [usize; 4] = [32, 16, 4, 1];

/// A statement that stores rows, in each of the sizes.
struct Insert {
    sql: [Arc<str>; 4],
    /// Parameters that all rows share, which come first.
    shared: usize,
    /// Parameters of one row.
    own: usize,
}

static BODY: LazyLock<Insert> =
    LazyLock::new(|| Insert::new(include_str!("enqueue_body.sql"), 0, 17));
static ALIKE: LazyLock<Insert> =
    LazyLock::new(|| Insert::new(include_str!("enqueue_alike.sql"), 10, 4));

impl Insert {
    fn new(sql: &str, shared: usize, own: usize) -> Self {
        let sql = SIZES.map(|rows| repeat(sql, rows, shared, own));
        Self { sql, shared, own }
    }
}

/// The statement with its row repeated. Every parameter is numbered: SQLite and sqlx number bare
/// ones differently behind numbered ones.
fn repeat(sql: &str, rows: usize, shared: usize, own: usize) -> Arc<str> {
    let line = sql.lines().find(|line| line.starts_with("  (?1,")).unwrap_or_default();
    let row = |row: usize| {
        let mut parts = line.split('?');
        let first = parts.next().unwrap_or_default().to_owned();
        parts.fold(first, |text, part| {
            let (number, rest) = part.split_at(part.find([',', ')']).unwrap_or(part.len()));
            let number: usize = number.parse().unwrap_or_default();
            let moved = if number > shared { number + row * own } else { number };
            format!("{text}?{moved}{rest}")
        })
    };
    sql.replacen(line, &(0..rows).map(row).collect::<Vec<_>>().join(",\n"), 1).into()
}

/// A job to store.
#[derive(Clone, Copy)]
pub(super) struct Fresh<'j> {
    pub number: i64,
    /// Which of the jobs pushed.
    pub at: usize,
    pub job: &'j AuthorizedJob,
    pub place: Place,
}

/// Stores the bodies that are new: how many were.
pub(super) async fn run(tx: &mut Tx<'_>, jobs: &[Fresh<'_>]) -> Result<u64, Fault> {
    tx.dirty = true;
    let (mut rest, mut changed) = (jobs, 0);
    while let Some(first) = rest.first() {
        let alike = rest.iter().take_while(|job| is_alike(first, job)).take(SIZES[0]).count();
        let most = rest.len().min(SIZES[0]);
        // Few alike among others are not worth a statement of their own.
        let (insert, most) = if alike * 2 > most { (&*ALIKE, alike) } else { (&*BODY, most) };
        let Some(at) = SIZES.iter().position(|size| *size <= most) else { break };
        let (rows, tail) = rest.split_at(SIZES[at]);
        rest = tail;
        let mut statement = query_of(&insert.sql[at], insert.shared + insert.own * rows.len());
        if insert.shared > 0 {
            statement = bind_shared(statement, first, tx.now);
        }
        let bind = if insert.shared > 0 { bind_own } else { bind_all };
        statement = rows.iter().fold(statement, |s, row| bind(s, row, tx.now));
        changed += tx.db.run(statement).await?;
    }
    Ok(changed)
}

/// Do they differ in nothing but number, line, id and payload?
fn is_alike(one: &Fresh<'_>, other: &Fresh<'_>) -> bool {
    let plain = |job: &AuthorizedJob| job.key.is_none() && job.metadata.is_empty();
    let numbers = |job: &AuthorizedJob| (job.priority, job.max_attempts(), job.timeout);
    let (at, to) = (one.place.lane, other.place.lane);
    let (one, other) = (one.job, other.job);
    at == to
        && plain(one)
        && plain(other)
        && one.run_at == other.run_at
        && numbers(one) == numbers(other)
        && one.action == other.action
        && one.authorized_by == other.authorized_by
}

fn bind_shared<'q>(
    statement: Statement<'q>,
    Fresh { job, place, .. }: &Fresh<'q>,
    now: i64,
) -> Statement<'q> {
    statement
        .bind(job.tenant.as_str())
        .bind(place.queue)
        .bind(place.lane)
        .bind(job.due_at(now))
        .bind(now)
        .bind(i64::from(job.priority))
        .bind(i64::from(job.max_attempts()))
        .bind(timeout_number(job.timeout))
        .bind(job.action.as_str())
        .bind(job.authorized_by.as_str())
}

fn bind_own<'q>(
    statement: Statement<'q>,
    Fresh { number, job, place, .. }: &Fresh<'q>,
    _now: i64,
) -> Statement<'q> {
    let id = &job.id.0.as_bytes()[..];
    statement.bind(*number).bind(place.sublane).bind(id).bind(job.payload.as_str())
}

fn bind_all<'q>(
    statement: Statement<'q>,
    Fresh { number, job, place, .. }: &Fresh<'q>,
    now: i64,
) -> Statement<'q> {
    let metadata = (!job.metadata.is_empty()).then(|| json(&job.metadata));
    statement
        .bind(*number)
        .bind(job.tenant.as_str())
        .bind(&job.id.0.as_bytes()[..])
        .bind(place.queue)
        .bind(place.lane)
        .bind(place.sublane)
        .bind(job.due_at(now))
        .bind(now)
        .bind(i64::from(job.priority))
        .bind(i64::from(job.max_attempts()))
        .bind(timeout_number(job.timeout))
        .bind(i64::from(scope_number(job.key.as_ref())))
        .bind(job.key.as_ref().map(|key| key.text.as_str()))
        .bind(job.action.as_str())
        .bind(job.authorized_by.as_str())
        .bind(metadata)
        .bind(job.payload.as_str())
}
