//! Push (P1–P7).

use std::collections::{BTreeMap, HashMap};

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
        jobs => push(store, jobs, Failed::Whole).await,
    }
}

/// What becomes of a statement's jobs when it fails.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Failed {
    /// None is stored: they are of one push.
    Whole,
    /// They are of several pushes, and what one meets is not the others' (P7): again by halves, which
    /// finds the one in twenty statements of five hundred pushes.
    Halve,
}

/// Stores jobs in order, the first of an id or key wins; each is answered by what became of its own
/// statement. Where that failed, nobody knows yet whether the first was stored, so those after it that
/// have its id or key are told the same and not stored in its place.
async fn push(store: &Postgres, jobs: &[AuthorizedJob], failed: Failed) -> Vec<Result<Pushed>> {
    let mut answers = Vec::with_capacity(jobs.len());
    let mut unknown = Unknown::default();
    for chunk in jobs.chunks(CHUNK) {
        let mut rest = chunk;
        while let Some(job) = rest.first() {
            if let Some(error) = unknown.after(job) {
                answers.push(Err(error));
                rest = &rest[1..];
                continue;
            }
            let most = distinct(rest);
            let ends = rest[..most].iter().position(|job| unknown.after(job).is_some());
            let (head, tail) = rest.split_at(ends.unwrap_or(most));
            let told = halves(store, head, failed).await;
            // Of several pushes each is for itself (P7): the same job of two callers is tried for each.
            if failed == Failed::Whole {
                unknown.note(head, &told);
            }
            answers.extend(told);
            rest = tail;
        }
    }
    answers
}

/// What became of earlier jobs of a call is not known, by their ids and keys.
#[derive(Default)]
struct Unknown<'j> {
    ids: HashMap<(&'j str, JobId), Error>,
    keys: HashMap<(&'j str, &'j str), Error>,
}

impl<'j> Unknown<'j> {
    fn note(&mut self, jobs: &'j [AuthorizedJob], told: &[Result<Pushed>]) {
        for (job, told) in jobs.iter().zip(told) {
            if let Err(error) = told {
                self.ids.insert((&job.tenant, job.id), error.clone());
                if let Some(key) = &job.key {
                    self.keys.insert((&job.tenant, &key.text), error.clone());
                }
            }
        }
    }

    /// The error of the job before this one that has its id or key.
    fn after(&self, job: &AuthorizedJob) -> Option<Error> {
        let by_key = || {
            let key = job.key.as_ref()?;
            self.keys.get(&(job.tenant.as_str(), key.text.as_str()))
        };
        self.ids.get(&(job.tenant.as_str(), job.id)).or_else(by_key).cloned()
    }
}

/// Stores jobs of different ids and keys, many at once.
async fn halves(store: &Postgres, jobs: &[AuthorizedJob], failed: Failed) -> Vec<Result<Pushed>> {
    if jobs.len() < HALVED || jobs.iter().any(|job| job.key.is_some()) {
        return part(store, jobs, failed).await;
    }
    let (one, other) = jobs.split_at(jobs.len() / 2);
    let (mut one, other) = tokio::join!(part(store, one, failed), part(store, other, failed));
    one.extend(other);
    one
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

/// The lines that these jobs are in now are known to this handle, and who watches is woken, elsewhere only
/// for what is due soon. One that was stored before may be behind a known place: its first push was given
/// up before it was answered.
pub(crate) fn published(store: &Postgres, jobs: &[&AuthorizedJob], read: &Read) {
    let mut lines = BTreeMap::<_, (i16, i64)>::new();
    let mut queues = BTreeMap::<&str, i64>::new();
    for (job, answer) in jobs.iter().zip(&read.answers) {
        let (since, due) = match answer {
            Some(Pushed::Stored) => (read.now, due_of(job, read.now)),
            Some(Pushed::Duplicate(State::Ready | State::Scheduled)) => (0, 0),
            _ => continue,
        };
        let soonest = queues.entry(&job.queue).or_insert(due);
        *soonest = (*soonest).min(due);
        // Of each line the job first in it.
        let line = (job.queue.as_str(), &job.name, job.tenant.as_str());
        let (first, known) = lines.entry(line).or_insert((i16::MAX, i64::MAX));
        (*first, *known) = ((*first).min(-job.priority), (*known).min(since));
    }
    for ((queue, name, tenant), place) in lines {
        let line = Line { name: name.clone(), suspect: false, tenant: tenant.to_owned() };
        // Due now or later: which, the store decided.
        store.frontier.note_due(queue, name, place.1);
        store.frontier.note(queue, line, place);
    }
    let queues = queues.into_iter().map(|(queue, due)| (queue.to_owned(), due));
    store.wake.tell_of(&store.db, read.now, queues);
}

/// When a job is due that was stored at `now`.
fn due_of(job: &AuthorizedJob, now: i64) -> i64 {
    match job.run_at {
        RunAt::Now => now,
        RunAt::At(time) => millis_up(time),
        RunAt::After(delay) => now.saturating_add(delay_millis(delay)),
    }
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
