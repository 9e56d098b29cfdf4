//! Pushing inside the caller's own transaction (P6).

use std::fmt;

use jobs_core::{AuthorizedJob, Error, ErrorKind, Result, driver::distinct, queue::Pushed};
use sqlx::{AssertSqlSafe, PgConnection};

use crate::{
    Postgres,
    db::Args,
    error::Fault,
    op::enqueue::{self, Read},
    options::Mode,
};

/// What was pushed inside a transaction, and the wake-up for after its commit.
#[must_use = "fire it after the commit; without it a worker finds the jobs when it next looks"]
pub struct PushedIn {
    /// One answer per job, in order.
    pub pushed: Vec<Pushed>,
    store: Postgres,
    /// What each statement pushed, and what it answered.
    parts: Vec<(Vec<AuthorizedJob>, Read)>,
}

impl PushedIn {
    /// Wakes idle workers. Call it once the transaction is committed. Off a runtime, only those of this
    /// handle are woken at once; others find the jobs when they next look.
    pub fn wake(self) -> Vec<Pushed> {
        for (jobs, read) in &self.parts {
            enqueue::published(&self.store, &jobs.iter().collect::<Vec<_>>(), read);
        }
        self.pushed
    }
}

impl fmt::Debug for PushedIn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PushedIn").field("pushed", &self.pushed).finish_non_exhaustive()
    }
}

impl Postgres {
    /// Pushes on the caller's connection, inside the caller's transaction, and uses nothing else: the
    /// commit publishes, a rollback leaves nothing. The connection must be to this handle's database.
    ///
    /// It is one statement, which fails for no reason that a caller could expect: a duplicate and a
    /// held key are answers, and the rest of the transaction goes on. Ids and keys pushed here keep
    /// other pushes of them waiting until the transaction ends, 2 s at most, so keep it short. This
    /// push itself waits for another transaction's uncommitted id or key for as long as the
    /// transaction's `lock_timeout` says, which is without end where the caller set none.
    ///
    /// # Cancel safety
    /// Not cancel safe: once its future is dropped half way, roll the transaction back.
    ///
    /// # Errors
    /// The transaction is lost and has to be rolled back. `Busy` when another transaction was in the
    /// way, as under REPEATABLE READ when it stored the same id or key since the snapshot: do the whole
    /// transaction again.
    pub async fn push_in(
        &self,
        conn: &mut PgConnection,
        jobs: &[AuthorizedJob],
    ) -> Result<PushedIn> {
        let mut done = PushedIn { pushed: Vec::new(), store: self.clone(), parts: Vec::new() };
        let mut rest = jobs;
        while !rest.is_empty() {
            let (head, tail) = rest.split_at(distinct(rest));
            let read = self.one(conn, head).await.map_err(|fault| fault.into_error("push_in"))?;
            for answer in &read.answers {
                // Its id or key was freed while this statement ran.
                let again = "another transaction was in the way: roll back and try again";
                let again = || Error::new(ErrorKind::Busy, "push_in", again);
                done.pushed.push(answer.ok_or_else(again)?);
            }
            done.parts.push((head.to_vec(), read));
            rest = tail;
        }
        Ok(done)
    }

    async fn one(
        &self,
        conn: &mut PgConnection,
        jobs: &[AuthorizedJob],
    ) -> std::result::Result<Read, Fault> {
        let asked: Vec<_> = jobs.iter().collect();
        let mut args = Args::default();
        enqueue::bind(&mut args, &asked)?;
        let query = sqlx::query_with(AssertSqlSafe(self.db.text(enqueue::SQL)), args.0);
        let query = query.persistent(self.db.options.mode == Mode::Direct);
        enqueue::read(&query.fetch_all(conn).await?, asked.len())
    }
}
