//! Pushing inside the caller's own transaction (P6).

use std::fmt;

use jobs_core::{AuthorizedJob, ErrorKind, Result, driver::distinct, queue::Pushed};
use mongodb::{
    ClientSession, Database,
    bson::{Document, RawDocumentBuf, doc},
};

use crate::{
    Mongo,
    db::written,
    error::{DUPLICATE, Fault},
    frontier::Line,
    op::enqueue::{Stored, clashes, fits, published},
    row::{self, held, id, token},
};

/// What was pushed inside a transaction, and the wake-up for after its commit.
#[must_use = "fire it after the commit; without it a worker finds the jobs when it next looks"]
pub struct PushedIn {
    /// One answer per job, in order.
    pub pushed: Vec<Pushed>,
    store: Mongo,
    lines: Vec<(Line, i64)>,
}

impl PushedIn {
    /// Wakes idle workers. Call it once the transaction is committed, on a runtime.
    pub fn wake(self) -> Vec<Pushed> {
        published(&self.store, self.lines.iter().map(|(line, due)| (line, *due)));
        self.pushed
    }
}

impl fmt::Debug for PushedIn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PushedIn").field("pushed", &self.pushed).finish_non_exhaustive()
    }
}

impl Mongo {
    /// Pushes in the caller's session, inside the transaction that it has begun, and uses nothing
    /// else: the commit publishes, a rollback leaves nothing. In a session without a transaction each
    /// statement is done by itself, at the session's own concerns: begin one. The session must be of a client of the
    /// same set; the store is best opened by [`Options::of_database`](crate::Options::of_database)
    /// with the application's own.
    ///
    /// A duplicate and a held key that were committed before the transaction's snapshot are answers.
    ///
    /// # Cancel safety
    /// Not cancel safe: once its future is dropped half way, abort the transaction.
    ///
    /// # Errors
    /// The transaction is lost and has to be aborted. `Busy` when another one was in the way, as when
    /// it stored the same id or key since the snapshot: do the whole transaction again.
    pub async fn push_in(
        &self,
        session: &mut ClientSession,
        jobs: &[AuthorizedJob],
    ) -> Result<PushedIn> {
        let mut done = PushedIn { pushed: Vec::new(), store: self.clone(), lines: Vec::new() };
        let push = async {
            let now = self.now_in(session).await?;
            let mut rest = jobs;
            while !rest.is_empty() {
                let (head, tail) = rest.split_at(distinct(rest).min(fits(rest)));
                self.some(session, head, now, &mut done).await?;
                rest = tail;
            }
            Ok(())
        };
        // Nothing is sent by the store's own connections, also not to see whether it is there.
        self.db.alone("push_in", push).await?;
        Ok(done)
    }

    /// The store's time, by the transaction's own reading, and whether there is a store.
    async fn now_in(&self, session: &mut ClientSession) -> std::result::Result<i64, Fault> {
        let database = session.client().database(&self.db.options.database);
        let rows = look(
            session,
            &database,
            doc! {
                "find": self.db.name("schema"),
                "filter": { "_id": "schema" },
                "projection": { "now": "$$NOW" },
            },
        );
        let rows = rows.await?;
        let missing = "the jobs collections are missing: call migrate() once";
        let missing = || Fault::Refused(ErrorKind::Schema, missing.to_owned());
        row::need(row::date(rows.first().ok_or_else(missing)?, "now"), "now")
    }

    /// Looks first, because a unique index that refuses a document ends the transaction.
    async fn some(
        &self,
        session: &mut ClientSession,
        jobs: &[AuthorizedJob],
        now: i64,
        done: &mut PushedIn,
    ) -> std::result::Result<(), Fault> {
        let name = self.db.name("jobs");
        let database = session.client().database(&self.db.options.database);
        let asked: Vec<&AuthorizedJob> = jobs.iter().collect();
        let rows = look(
            session,
            &database,
            doc! {
                "find": &name,
                "filter": clashes(&asked),
                "projection": { "state": 1, "held": 1 },
                // Each job has at most two in its way.
                "batchSize": i64::try_from(2 * jobs.len() + 1).unwrap_or(i64::MAX),
            },
        )
        .await?;
        let stored = Stored::read(&rows)?;
        let (mut updates, token) = (Vec::new(), token());
        for job in jobs {
            let answer = stored.answer(job, None);
            done.pushed.push(answer.unwrap_or(Pushed::Stored));
            if answer.is_some() {
                continue;
            }
            let (document, line, due) = row::document(job, now, token)?;
            done.lines.push((line, due));
            updates.push(upsert(job, document)?);
        }
        if updates.is_empty() {
            return Ok(());
        }
        let count = updates.len();
        let update = doc! { "update": &name, "updates": updates, "ordered": true };
        let reply = database.run_command(update).session(&mut *session).await?;
        let answered = written(&reply)?;
        let inserted = reply.get_array("upserted").map_or(0, Vec::len);
        if answered.duplicates.is_empty() && inserted == count {
            return Ok(());
        }
        let what = "another transaction stored the same job or key: do the whole one again";
        Err(Fault::Answered(DUPLICATE, what.to_owned()))
    }
}

/// All that a `find` of one reply answers in the session.
async fn look(
    session: &mut ClientSession,
    database: &Database,
    find: Document,
) -> std::result::Result<Vec<Document>, Fault> {
    let found = database.run_command(find).session(&mut *session).await?;
    let cursor = row::need(found.get_document("cursor").ok(), "cursor")?;
    if row::int(cursor, "id") != Some(0) {
        return Err(Fault::Corrupt("a look had more than one reply".to_owned()));
    }
    let rows = cursor.get_array("firstBatch").into_iter().flatten();
    Ok(rows.filter_map(|row| row.as_document().cloned()).collect())
}

/// One that is there since the look is not touched, and counted as not inserted.
fn upsert(job: &AuthorizedJob, document: RawDocumentBuf) -> std::result::Result<Document, Fault> {
    let mut document = Document::try_from(document).map_err(mongodb::error::Error::from)?;
    let filter = match &job.key {
        Some(key) => {
            document.remove("held");
            doc! { "held": held(&job.tenant, &key.text) }
        }
        None => {
            document.remove("_id");
            doc! { "_id": id(&job.job_ref()) }
        }
    };
    Ok(doc! { "q": filter, "u": { "$setOnInsert": document }, "upsert": true })
}
