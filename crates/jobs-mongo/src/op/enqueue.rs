//! Push (P1–P7): one `insert`. A duplicate is told by the index that refuses it.

use std::{
    collections::{HashMap, HashSet},
    sync::{Mutex, PoisonError},
    time::Instant,
};

use futures::StreamExt;
use jobs_core::{AuthorizedJob, Error, ErrorKind, Result, driver::distinct, queue::Pushed};
use mongodb::bson::{Document, RawArrayBuf, doc, rawdoc};

use crate::{
    Mongo,
    error::{EXPIRED, Fault, LATE},
    frontier::Line,
    row::{self, held, id, int, text, token},
};

/// Jobs of one statement.
const CHUNK: usize = 1000;
/// Most bytes of one statement: its body is one document, of which a server takes 16 MiB.
const BYTES: usize = 12 * 1024 * 1024;
/// Bytes of a document, at most, beside what its payload, metadata and key have: names, ids, its line.
const REST: usize = 2048;
/// How often a push that meets the end of somebody's transaction is made.
const TRIES: usize = 3;

/// Pushes, a lone one together with those that come meanwhile. One with a key is a statement of its
/// own: it may wait for somebody's transaction.
pub(crate) async fn all(store: &Mongo, jobs: &[AuthorizedJob]) -> Vec<Result<Pushed>> {
    match jobs {
        [] => Vec::new(),
        [job] if job.key.is_none() => {
            if let Err(fault) = row::fits(job) {
                return vec![Err(fault.into_error("enqueue"))];
            }
            let push = |jobs: Vec<AuthorizedJob>| async move { shared(store, &jobs).await };
            vec![store.sharing().call(job.clone(), push).await]
        }
        jobs => bulk(store, jobs).await,
    }
}

/// In statements that fit, two on their way at once, so that one is encoded while the other is
/// stored; where an id or key comes twice one after the other, because the first one wins.
async fn bulk(store: &Mongo, jobs: &[AuthorizedJob]) -> Vec<Result<Pushed>> {
    let over = Mutex::new(None);
    let mut chunks = Vec::new();
    let mut rest = jobs;
    while !rest.is_empty() {
        let (chunk, tail) = rest.split_at(fits(rest).min(distinct(rest)));
        chunks.push(of_bulk(store, chunk, &over));
        rest = tail;
    }
    let beside = if distinct(jobs) == jobs.len() { 2 } else { 1 };
    let answers: Vec<_> = futures::stream::iter(chunks).buffered(beside).collect().await;
    answers.into_iter().flatten().collect()
}

/// One statement of a bulk. After a failure of the store those that come after it are not sent: each
/// would wait as long for the same.
async fn of_bulk(
    store: &Mongo,
    jobs: &[AuthorizedJob],
    over: &Mutex<Option<Error>>,
) -> Vec<Result<Pushed>> {
    let before = over.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let pushed = match before {
        Some(error) => Err(error),
        None => push(store, jobs, token(), Instant::now() + store.db.options.deadline).await,
    };
    let error = match pushed {
        Ok(pushed) => return pushed.into_iter().map(Ok).collect(),
        Err(error) => error,
    };
    if matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Timeout) {
        *over.lock().unwrap_or_else(PoisonError::into_inner) = Some(error.clone());
    }
    jobs.iter().map(|_| Err(error.clone())).collect()
}

/// How many from the front go into one statement.
pub(crate) fn fits(jobs: &[AuthorizedJob]) -> usize {
    let mut bytes = 0;
    let fitting = jobs.iter().take(CHUNK).take_while(|job| {
        let metadata = job.metadata.iter().map(|(name, value)| name.len() + value.len() + 16);
        // The key is there twice.
        let key = job.key.as_ref().map_or(0, |key| 2 * key.text.len());
        bytes += job.payload.as_str().len() + metadata.sum::<usize>() + key + REST;
        bytes <= BYTES
    });
    fitting.count().max(1)
}

/// Pushes of several callers: what one of them meets is not the others' (P7).
async fn shared(store: &Mongo, jobs: &[AuthorizedJob]) -> Vec<Result<Pushed>> {
    let mut answers = Vec::with_capacity(jobs.len());
    let mut rest = jobs;
    while !rest.is_empty() {
        let (chunk, tail) = rest.split_at(fits(rest).min(distinct(rest)));
        answers.extend(together(store, chunk).await);
        rest = tail;
    }
    answers
}

/// One statement, and where a job's id or key is locked by somebody's transaction one more without
/// it, within the deadline of one call: whoever shares it waits for all of that.
async fn together(store: &Mongo, jobs: &[AuthorizedJob]) -> Vec<Result<Pushed>> {
    let (token, until) = (token(), Instant::now() + store.db.options.deadline);
    let mut answers: Vec<Option<Result<Pushed>>> = jobs.iter().map(|_| None).collect();
    loop {
        let left: Vec<usize> = (0..jobs.len()).filter(|at| answers[*at].is_none()).collect();
        let asked: Vec<AuthorizedJob> = left.iter().map(|at| jobs[*at].clone()).collect();
        if asked.is_empty() {
            break;
        }
        let error = match push(store, &asked, token, until).await {
            Ok(pushed) => {
                for (at, pushed) in left.iter().zip(pushed) {
                    answers[*at] = Some(Ok(pushed));
                }
                break;
            }
            Err(error) => error,
        };
        let culprit = match error.kind() {
            ErrorKind::Unavailable | ErrorKind::Timeout => None,
            // Where nothing is stored it is no single job's trouble, but a lock's.
            kind => first_missing(store, &asked, kind == ErrorKind::Busy, until).await,
        };
        match culprit.and_then(|at| left.get(at)) {
            Some(at) => answers[*at] = Some(Err(error)),
            None => left.iter().for_each(|at| answers[*at] = Some(Err(error.clone()))),
        }
    }
    let answer = |answer: Option<_>| answer.unwrap_or_else(|| Err(LATE.into_error("enqueue")));
    answers.into_iter().map(answer).collect()
}

/// The job whose lock ended the statement: the server goes from one to the next, so those before it
/// are stored. What a validator refuses is the only one that is not.
async fn first_missing(
    store: &Mongo,
    jobs: &[AuthorizedJob],
    alone: bool,
    until: Instant,
) -> Option<usize> {
    let ids: Vec<_> = jobs.iter().map(|job| id(&job.job_ref())).collect();
    let find = doc! {
        "find": store.db.name("jobs"), "filter": { "_id": { "$in": &ids } },
        "projection": { "_id": 1 },
    };
    let rows = tokio::time::timeout_at(until.into(), store.db.rows(find)).await.ok()?.ok()?;
    let stored: HashSet<_> = rows.iter().filter_map(|row| text(row, "_id")).collect();
    if stored.is_empty() && !alone {
        return None;
    }
    ids.iter().position(|id| !stored.contains(id))
}

/// Stores jobs of which no two have an id or key in common.
async fn push(
    store: &Mongo,
    jobs: &[AuthorizedJob],
    token: i64,
    until: Instant,
) -> Result<Vec<Pushed>> {
    let push = store.db.within("enqueue", store_all(store, jobs, token));
    let pushed = tokio::time::timeout_at(until.into(), push).await;
    pushed.unwrap_or_else(|_| Err(LATE.into_error("enqueue")))
}

async fn store_all(
    store: &Mongo,
    jobs: &[AuthorizedJob],
    token: i64,
) -> std::result::Result<Vec<Pushed>, Fault> {
    let mut answers: Vec<Option<Pushed>> = vec![None; jobs.len()];
    for _ in 0..TRIES {
        let left: Vec<usize> = (0..jobs.len()).filter(|at| answers[*at].is_none()).collect();
        if left.is_empty() {
            break;
        }
        let asked: Vec<&AuthorizedJob> = left.iter().map(|at| &jobs[*at]).collect();
        let answered = insert(store, &asked, token).await?;
        for (at, answer) in left.iter().zip(answered) {
            answers[*at] = answer;
        }
    }
    let answers: Option<Vec<_>> = answers.into_iter().collect();
    answers.ok_or_else(|| {
        let what = "other transactions push and end the same job or key all the time: try again";
        Fault::Broken(ErrorKind::Busy, what)
    })
}

/// One statement; no answer where the holder of an id or key was gone when it was looked for.
async fn insert(
    store: &Mongo,
    jobs: &[&AuthorizedJob],
    token: i64,
) -> std::result::Result<Vec<Option<Pushed>>, Fault> {
    let db = &store.db;
    let now = db.now().await?;
    let mut documents = RawArrayBuf::new();
    let mut lines = Vec::with_capacity(jobs.len());
    for job in jobs {
        let (document, line, due) = row::document(job, now, token)?;
        documents.push(document);
        lines.push((line, due));
    }
    let busy = i64::try_from(db.options.busy.as_millis()).unwrap_or(i64::MAX);
    let command = rawdoc! {
        "insert": db.name("jobs"),
        "ordered": false,
        // It waits for an open transaction that has the same id or key, and holds up nobody else.
        "maxTimeMS": busy,
        "documents": documents,
    };
    let written = match db.write(command).await {
        // Not of a majority that is late.
        Err(fault @ Fault::Unacknowledged(..)) => return Err(fault),
        Err(fault) if fault.code() == Some(EXPIRED) => {
            let what = "another transaction holds the job's id or key: try again";
            return Err(Fault::Broken(ErrorKind::Busy, what));
        }
        written => written?,
    };
    let mut answers = vec![Some(Pushed::Stored); jobs.len()];
    if !written.duplicates.is_empty() {
        let met: Vec<usize> = written.duplicates.iter().map(|(at, _)| *at).collect();
        let asked: Vec<&AuthorizedJob> =
            met.iter().filter_map(|at| jobs.get(*at)).copied().collect();
        let filter = clashes(&asked);
        let rows = db.rows(doc! {
            "find": db.name("jobs"), "filter": filter,
            "projection": { "state": 1, "held": 1, "token": 1 },
        });
        let found = Stored::read(&rows.await?)?;
        for (at, job) in met.iter().zip(&asked) {
            answers[*at] = found.answer(job, Some(token));
        }
    }
    published(
        store,
        lines.iter().zip(&answers).filter_map(|((line, due), answer)| {
            (*answer == Some(Pushed::Stored)).then_some((line, *due))
        }),
    );
    Ok(answers)
}

/// Whoever has the id or the key of one of these.
pub(crate) fn clashes(jobs: &[&AuthorizedJob]) -> Document {
    let ids: Vec<_> = jobs.iter().map(|job| id(&job.job_ref())).collect();
    let keys = jobs.iter().filter_map(|job| Some(held(&job.tenant, &job.key.as_ref()?.text)));
    let keys: Vec<_> = keys.collect();
    if keys.is_empty() {
        return doc! { "_id": { "$in": ids } };
    }
    doc! { "$or": [{ "_id": { "$in": ids } }, { "held": { "$in": keys } }] }
}

/// What is stored already.
#[derive(Default)]
pub(crate) struct Stored {
    /// By id, the state and the mark of who stored it.
    ids: HashMap<String, (jobs_core::State, Option<i64>)>,
    /// By key, who holds it.
    keys: HashMap<String, (jobs_core::JobId, jobs_core::State)>,
}

impl Stored {
    pub fn read(rows: &[Document]) -> std::result::Result<Self, Fault> {
        let mut stored = Self::default();
        for found in rows {
            let name = row::need(text(found, "_id"), "_id")?;
            let state = row::state(found)?;
            if let Some(key) = text(found, "held") {
                stored.keys.insert(key, (row::job_ref(&name)?.id, state));
            }
            stored.ids.insert(name, (state, int(found, "token")));
        }
        Ok(stored)
    }

    /// A stored id beats a held key. A document with this call's own mark was stored by it, before a
    /// reply was lost.
    pub fn answer(&self, job: &AuthorizedJob, token: Option<i64>) -> Option<Pushed> {
        if let Some((state, by)) = self.ids.get(&id(&job.job_ref())) {
            let own = by.is_some() && *by == token;
            return Some(if own { Pushed::Stored } else { Pushed::Duplicate(*state) });
        }
        let key = job.key.as_ref()?;
        let (id, state) = self.keys.get(&held(&job.tenant, &key.text))?;
        Some(Pushed::KeyHeld(*id, *state))
    }
}

/// The lines that stored jobs are in now are known to this handle, and who watches is woken.
pub(crate) fn published<'l>(store: &Mongo, lines: impl Iterator<Item = (&'l Line, i64)>) {
    let mut firsts = HashMap::<&Line, i64>::new();
    for (line, due) in lines {
        let first = firsts.entry(line).or_insert(due);
        *first = due.min(*first);
    }
    let lines = firsts.into_iter();
    store.put_in_line(lines.map(|(line, due)| (line.queue.clone(), Some((line.clone(), due)))));
}
