//! Push (P1–P7).

use std::collections::{BTreeMap, BTreeSet};

use jobs_core::{
    AuthorizedJob, Error, ErrorKind, JobId, Result, State,
    driver::{distinct, scope_number, timeout_number},
    job::RunAt,
    queue::Pushed,
    time::{delay_millis, millis_up},
};
use sqlx::postgres::PgRow;
use uuid::Uuid;

use crate::{
    Postgres,
    db::{Args, get},
    error::Fault,
    frontier::Line,
    row::{self, at},
};

/// Jobs of one statement.
const CHUNK: usize = 1000;
/// From so many jobs on, those without keys are stored in two halves at once, on two connections: the
/// server then works on them with two cores. The lists they come in have no order among transactions.
const HALVED: usize = 400;
/// How often a push that meets the end of somebody's transaction is made.
const TRIES: usize = 3;

/// The statement, a call of the function in `enqueue.sql`.
pub(crate) const SQL: &str = "SELECT * FROM jobs.enqueue($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, \
     $12, $13, $14, $15, $16)";

/// The same, which waits for others' transactions for a moment only.
const BRIEF: &str = "SELECT * FROM jobs.enqueue_briefly($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, \
     $12, $13, $14, $15, $16)";

/// Pushes, a lone one together with those that come meanwhile. One with a key is a statement of its
/// own: it may wait for somebody's transaction.
pub(crate) async fn all(store: &Postgres, jobs: &[AuthorizedJob]) -> Vec<Result<Pushed>> {
    match jobs {
        [] => Vec::new(),
        [job] if job.key.is_none() => {
            let push =
                |jobs: Vec<AuthorizedJob>| async move { push(store, &jobs, Failed::Halve).await };
            vec![store.pushes.call(job.clone(), push).await]
        }
        jobs => {
            let mut answers = Vec::with_capacity(jobs.len());
            for chunk in jobs.chunks(CHUNK) {
                answers.extend(push(store, chunk, Failed::Whole).await);
                if fail_rest(&mut answers, jobs.len()) {
                    break;
                }
            }
            answers
        }
    }
}

/// Where one of a push has failed, those after it are not sent: one of the same id or key would take
/// what is the first one's, and each would wait as long for a server that is away.
fn fail_rest(answers: &mut Vec<Result<Pushed>>, count: usize) -> bool {
    let error = answers.iter().find_map(|answer| answer.as_ref().err().cloned());
    let Some(error) = error else { return false };
    answers.resize_with(count, || Err(error.clone()));
    true
}

/// What becomes of a statement's jobs when it fails.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Failed {
    /// None of it is stored: they are of one push.
    Whole,
    /// They are of several pushes, and what one meets is not the others' (P7): again by halves, which
    /// finds the one in twenty statements of five hundred pushes.
    Halve,
}

/// Stores jobs in order, the first of an id or key wins; each is answered by what became of its own
/// statement, or of one before it.
async fn push(store: &Postgres, jobs: &[AuthorizedJob], failed: Failed) -> Vec<Result<Pushed>> {
    let mut answers = Vec::with_capacity(jobs.len());
    let mut rest = jobs;
    while !rest.is_empty() {
        let (head, tail) = rest.split_at(distinct(rest));
        if head.len() >= HALVED && head.iter().all(|job| job.key.is_none()) {
            let (one, other) = head.split_at(head.len() / 2);
            let (one, other) = tokio::join!(part(store, one, failed), part(store, other, failed));
            answers.extend(one);
            answers.extend(other);
        } else {
            answers.extend(part(store, head, failed).await);
        }
        if failed == Failed::Whole && fail_rest(&mut answers, jobs.len()) {
            break;
        }
        rest = tail;
    }
    answers
}

/// Stores jobs of different ids and keys in one statement, or in those that its failure asks for.
async fn part(store: &Postgres, jobs: &[AuthorizedJob], failed: Failed) -> Vec<Result<Pushed>> {
    let (mut answers, mut parts, mut sql) = (Vec::with_capacity(jobs.len()), vec![jobs], SQL);
    while let Some(part) = parts.pop() {
        match store_all(store, sql, part).await {
            Ok(pushed) => answers.extend(pushed.into_iter().map(Ok)),
            Err(error) => {
                let connection =
                    matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Timeout);
                if part.len() == 1 || connection || failed == Failed::Whole {
                    answers.extend(part.iter().map(|_| Err(error.clone())));
                } else {
                    let (first, second) = part.split_at(part.len() / 2);
                    parts.extend([second, first]);
                }
            }
        }
        // What a part waits for has been waited for by now.
        sql = BRIEF;
    }
    answers
}

async fn store_all(
    store: &Postgres,
    sql: &'static str,
    jobs: &[AuthorizedJob],
) -> Result<Vec<Pushed>> {
    let mut answers: Vec<Option<Pushed>> = vec![None; jobs.len()];
    let mut left: Vec<usize> = (0..jobs.len()).collect();
    for _ in 0..TRIES {
        let asked: Vec<&AuthorizedJob> = left.iter().map(|at| &jobs[*at]).collect();
        let rows = store.db.call("enqueue", sql, |args| bind(args, &asked)).await?;
        let read = read(&rows, asked.len()).map_err(|fault| fault.into_error("enqueue"))?;
        published(store, &asked, &read);
        for (at, answer) in left.iter().zip(&read.answers) {
            answers[*at] = *answer;
        }
        left.retain(|at| answers[*at].is_none());
        if left.is_empty() {
            return Ok(answers.into_iter().flatten().collect());
        }
    }
    let what = "other transactions push and end the same job or key all the time: try again";
    Err(Error::new(ErrorKind::Busy, "enqueue", what))
}

/// What a push answered; none where it is to be made again.
pub(crate) struct Read {
    pub answers: Vec<Option<Pushed>>,
    pub now: i64,
}

/// Reads the answer to a push of `count` jobs.
pub(crate) fn read(rows: &[PgRow], count: usize) -> std::result::Result<Read, Fault> {
    let mut read = Read { answers: vec![Some(Pushed::Stored); count], now: 0 };
    let mut told = false;
    for row in rows {
        if get::<i16>(row, at::PART)? == 0 {
            read.now = get(row, at::RUN_AT)?;
            told = true;
            continue;
        }
        let answer = match get::<i16>(row, at::CODE)? {
            1 => Some(Pushed::Duplicate(row::state(get(row, at::STATE)?)?)),
            2 => {
                let id = JobId(get::<Uuid>(row, at::ID)?);
                Some(Pushed::KeyHeld(id, row::state(get(row, at::STATE)?)?))
            }
            _ => None,
        };
        let place = read.answers.get_mut(row::place(row)?);
        *place.ok_or_else(|| Fault::Corrupt("an answer is for no job".into()))? = answer;
    }
    // Stored is what needs no row of its own, so an answer of none at all says nothing.
    match told {
        true => Ok(read),
        false => Err(Fault::Corrupt("a push has no answer".into())),
    }
}

/// The lines that these jobs are in now are known to this handle, and who watches is woken. One that
/// was stored before may be behind a known place: its first push was given up before it was answered.
pub(crate) fn published(store: &Postgres, jobs: &[&AuthorizedJob], read: &Read) {
    let mut lines = BTreeMap::<_, (i16, i64)>::new();
    for (job, answer) in jobs.iter().zip(&read.answers) {
        let due = match answer {
            Some(Pushed::Stored) => read.now,
            Some(Pushed::Duplicate(State::Ready | State::Scheduled)) => 0,
            _ => continue,
        };
        // Of each line the job first in it.
        let line = (job.queue.as_str(), &job.name, job.tenant.as_str());
        let (first, since) = lines.entry(line).or_insert((i16::MAX, i64::MAX));
        (*first, *since) = ((*first).min(-job.priority), (*since).min(due));
    }
    let queues: BTreeSet<&str> = lines.keys().map(|line| line.0).collect();
    for ((queue, name, tenant), place) in lines {
        let line = Line { name: name.clone(), suspect: false, tenant: tenant.to_owned() };
        // Due now or later: which, the store decided.
        store.frontier.note_due(queue, name, place.1);
        store.frontier.note(queue, line, place);
    }
    store.wake.tell(&store.db, queues.into_iter().map(str::to_owned));
}

/// A column of all jobs.
fn column<'j, T>(jobs: &[&'j AuthorizedJob], of: impl Fn(&'j AuthorizedJob) -> T) -> Vec<T> {
    jobs.iter().map(|job| of(job)).collect()
}

/// The jobs, column by column.
pub(crate) fn bind(args: &mut Args, jobs: &[&AuthorizedJob]) -> std::result::Result<(), Fault> {
    let metadata = |job: &AuthorizedJob| {
        // A map of text to text always has a JSON form.
        let text = || serde_json::to_string(&job.metadata).unwrap_or_default();
        (!job.metadata.is_empty()).then(text)
    };
    let scope = |job: &AuthorizedJob| i16::from(scope_number(job.key.as_ref()));
    let due = |job: &AuthorizedJob| match job.run_at {
        RunAt::At(time) => Some(millis_up(time)),
        RunAt::Now | RunAt::After(_) => None,
    };
    let delay = |job: &AuthorizedJob| match job.run_at {
        RunAt::After(delay) => Some(delay_millis(delay)),
        RunAt::Now | RunAt::At(_) => None,
    };
    args.add(column(jobs, |job| job.id.0))?;
    args.add(column(jobs, |job| job.tenant.as_str()))?;
    args.add(column(jobs, |job| job.queue.as_str()))?;
    args.add(column(jobs, |job| job.name.as_str()))?;
    args.add(column(jobs, |job| job.action.as_str()))?;
    args.add(column(jobs, |job| job.authorized_by.as_str()))?;
    args.add(column(jobs, |job| job.payload.as_str().as_bytes()))?;
    args.add(column(jobs, |job| job.priority))?;
    args.add(column(jobs, |job| i32::try_from(job.max_attempts()).unwrap_or(i32::MAX)))?;
    args.add(column(jobs, |job| timeout_number(job.timeout)))?;
    args.add(column(jobs, |job| job.key.as_ref().map(|key| key.text.as_str())))?;
    args.add(column(jobs, scope))?;
    args.add(column(jobs, metadata))?;
    args.add(column(jobs, due))?;
    args.add(column(jobs, delay))?;
    args.add(jobs.iter().any(|job| job.key.is_some()))
}
