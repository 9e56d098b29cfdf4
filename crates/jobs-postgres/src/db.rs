//! The handle's connections, and one call on one of them.
//!
//! A connection is bound to the runtime that opened it and is given only to calls on that runtime, so
//! a handle outlives runtimes. A call that is dropped or late takes its connection with it: what the
//! server still does is then nobody's answer. Rejected: sqlx's pool, which sends a ping after each
//! use, from a task of its own, and hands connections of an ended runtime to the next one.

use std::{
    collections::HashMap,
    future::Future,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use jobs_core::{ErrorKind, Result};
use sqlx::{
    AssertSqlSafe, Connection, Executor, PgConnection,
    postgres::{PgArguments, PgRow},
};
use tokio::{
    runtime::{Handle, Id},
    sync::{Semaphore, SemaphorePermit},
    time::{Instant, timeout_at},
};

use crate::{
    error::{Fault, LATE},
    options::{Mode, Options, millis},
};

/// The connections of one handle.
#[derive(Debug)]
pub(crate) struct Db {
    pub options: Arc<Options>,
    idle: Mutex<Vec<Idle>>,
    turns: Semaphore,
    /// Statements with the schema's name in them, by the place of their text.
    texts: Mutex<HashMap<(usize, usize), Arc<str>>>,
}

/// A connection that nobody uses.
#[derive(Debug)]
struct Idle {
    runtime: Id,
    since: Instant,
    conn: PgConnection,
}

/// Behind a pooler, the milliseconds after which the server ends a transaction whose client stalled
/// between two statements of a call: it may hold locks that all wait for.
const STALLED: u32 = 5_000;
/// How often a server looks whether the client of a running statement is still there; without, a
/// dropped call's statement goes on to its end. Not for the connect options: a server on a system that
/// cannot tell refuses the setting, and then the connection.
const LOOK: &str = "SET client_connection_check_interval = '2s'";
/// How often a call that met a conflict is tried.
const TRIES: usize = 3;

impl Db {
    pub fn new(options: Arc<Options>) -> Self {
        let turns = Semaphore::new(options.connections);
        Self { options, idle: Mutex::default(), turns, texts: Mutex::default() }
    }

    /// A statement's text for this handle's schema, in which `jobs.` stands for it.
    pub fn text(&self, sql: &'static str) -> Arc<str> {
        let mut texts = self.texts.lock().unwrap_or_else(PoisonError::into_inner);
        let text = || in_schema(sql, &self.options.schema).into();
        texts.entry((sql.as_ptr() as usize, sql.len())).or_insert_with(text).clone()
    }

    /// All rows of one statement, which is one transaction. `bind` is asked again when a conflict is
    /// tried again.
    pub async fn call(
        &self,
        operation: &'static str,
        sql: &'static str,
        bind: impl Fn(&mut Args) -> std::result::Result<(), Fault>,
    ) -> Result<Vec<PgRow>> {
        let until = Instant::now() + self.options.deadline;
        let run = async {
            let mut tries = 0;
            loop {
                tries += 1;
                let mut args = Args::default();
                bind(&mut args)?;
                match self.once(sql, args).await {
                    Err(fault) if fault.is_conflict() && tries < TRIES => {}
                    answer => return answer,
                }
            }
        };
        let answer = timeout_at(until, run).await.unwrap_or(Err(LATE));
        answer.map_err(|fault| fault.into_error(operation))
    }

    /// A method of several statements, within the deadline of one call.
    pub async fn within<T>(
        &self,
        operation: &'static str,
        method: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        let done = tokio::time::timeout(self.options.deadline, method).await;
        done.unwrap_or_else(|_| Err(LATE.into_error(operation)))
    }

    async fn once(&self, sql: &'static str, args: Args) -> std::result::Result<Vec<PgRow>, Fault> {
        let (mut conn, turn) = self.take().await?;
        let answer = self.run(&mut conn, sql, args).await;
        match &answer {
            Err(fault) if !fault.leaves_the_connection() => turn.broke(),
            _ => turn.give_back(conn),
        }
        answer
    }

    async fn run(
        &self,
        conn: &mut PgConnection,
        sql: &'static str,
        args: Args,
    ) -> std::result::Result<Vec<PgRow>, Fault> {
        let text = self.text(sql);
        match self.options.mode {
            Mode::Direct => {
                let query = sqlx::query_with(AssertSqlSafe(text), args.0);
                let rows = query.fetch_all(conn).await;
                self.seen()?;
                Ok(rows?)
            }
            Mode::Pooled => {
                let begin = format!(
                    "BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL lock_timeout = {}; \
                     SET LOCAL statement_timeout = {}; \
                     SET LOCAL search_path = pg_catalog, pg_temp; \
                     SET LOCAL idle_in_transaction_session_timeout = {STALLED}",
                    millis(self.options.busy),
                    millis(self.options.deadline)
                );
                conn.execute(sqlx::raw_sql(AssertSqlSafe(begin))).await?;
                self.seen()?;
                let query = sqlx::query_with(AssertSqlSafe(text), args.0).persistent(false);
                let rows = query.fetch_all(&mut *conn).await;
                self.seen()?;
                let end = if rows.is_ok() { "COMMIT" } else { "ROLLBACK" };
                conn.execute(sqlx::raw_sql(end)).await?;
                self.seen()?;
                Ok(rows?)
            }
        }
    }

    /// Counts a round trip, whose answer a cut connection loses.
    fn seen(&self) -> std::result::Result<(), Fault> {
        match &self.options.cut {
            Some(cut) if cut.now() => {
                Err(Fault::Broken(ErrorKind::Unavailable, "the connection was cut"))
            }
            _ => Ok(()),
        }
    }

    /// A connection of the calling runtime, an idle one or a new one.
    async fn take(&self) -> std::result::Result<(PgConnection, Turn<'_>), Fault> {
        let ended = Fault::Broken(ErrorKind::Internal, "the handle is closed");
        let permit = self.turns.acquire().await.map_err(|_| ended)?;
        let runtime = Handle::current().id();
        let idle = {
            let mut idle = self.idle();
            let at = idle.iter().rposition(|idle| idle.runtime == runtime);
            // Those of other runtimes, which may have ended, make room.
            let used = self.options.connections.saturating_sub(self.turns.available_permits());
            if at.is_none() && !idle.is_empty() && used + idle.len() > self.options.connections {
                idle.remove(0);
            }
            at.map(|at| idle.swap_remove(at).conn)
        };
        let turn =
            Turn { db: self, runtime, since: Instant::now(), answered: false, _permit: permit };
        match idle {
            Some(conn) => Ok((conn, turn)),
            None => match self.connect().await {
                Ok(conn) => Ok((conn, turn)),
                Err(error) => {
                    turn.broke();
                    Err(error.into())
                }
            },
        }
    }

    async fn connect(&self) -> sqlx::Result<PgConnection> {
        let mut conn = PgConnection::connect_with(&self.options.own()).await?;
        if self.options.mode == Mode::Direct {
            match conn.execute(sqlx::raw_sql(LOOK)).await {
                Ok(_) | Err(sqlx::Error::Database(_)) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(conn)
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Idle>> {
        // Every change is one call, so what a panic left is whole.
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A connection for a few statements that are no part of the contract's methods.
    pub async fn with<T, F>(
        &self,
        operation: &'static str,
        work: impl FnOnce(PgConnection) -> F,
    ) -> Result<T>
    where
        F: Future<Output = std::result::Result<T, Fault>>,
    {
        let run = async {
            let conn = PgConnection::connect_with(&self.options.own()).await?;
            work(conn).await
        };
        let done = tokio::time::timeout(self.options.deadline, run).await;
        done.unwrap_or(Err(LATE)).map_err(|fault| fault.into_error(operation))
    }
}

/// A connection's use. Dropped without an answer, because the call was late or given up, it takes the
/// connections with it that have been idle since before: what one way to the server lost, another
/// did, and each would cost a call its deadline.
struct Turn<'d> {
    db: &'d Db,
    runtime: Id,
    since: Instant,
    answered: bool,
    _permit: SemaphorePermit<'d>,
}

impl Turn<'_> {
    fn give_back(mut self, conn: PgConnection) {
        self.answered = true;
        self.db.idle().push(Idle { runtime: self.runtime, since: Instant::now(), conn });
    }

    /// The others broke with it, as when the server restarted.
    fn broke(mut self) {
        self.answered = true;
        self.db.idle().clear();
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        if !self.answered {
            self.db.idle().retain(|idle| idle.since > self.since);
        }
    }
}

/// What is bound to a statement.
#[derive(Default)]
pub(crate) struct Args(pub PgArguments);

impl Args {
    /// Binds the next parameter.
    pub fn add<'q, T>(&mut self, value: T) -> std::result::Result<(), Fault>
    where
        T: sqlx::Encode<'q, sqlx::Postgres> + sqlx::Type<sqlx::Postgres>,
    {
        let added = sqlx::Arguments::add(&mut self.0, value);
        added.map_err(|error| Fault::Sql(sqlx::Error::Encode(error)))
    }
}

/// `sql` with the schema's name, quoted, where `jobs.` stands.
pub(crate) fn in_schema(sql: &str, schema: &str) -> String {
    sql.replace("jobs.", &format!("{}.", quoted(schema)))
}

/// As an identifier.
pub(crate) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// Column `at` of a row.
pub(crate) fn get<'r, T>(row: &'r PgRow, at: usize) -> std::result::Result<T, Fault>
where
    T: sqlx::Decode<'r, sqlx::Postgres> + sqlx::Type<sqlx::Postgres>,
{
    Ok(sqlx::Row::try_get(row, at)?)
}
