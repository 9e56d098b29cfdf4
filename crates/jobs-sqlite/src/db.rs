//! One connection, statement by statement: the driver's own, or the caller's of `push_in`.
//!
//! The driver's own connections are rusqlite's, on the threads that use them. Rejected: sqlx's,
//! which run each statement on a thread of their own, two hops and 70 to 140 µs a statement; a
//! group of fifty pushes took 4 to 12 ms, now under one. What applications hold is sqlx's, so a
//! push inside their transaction goes through it. Both are the same SQLite, linked once.

use std::borrow::Cow;

use jobs_core::{ErrorKind, driver::Cut};
use rusqlite::{Connection, ToSql, types::ToSqlOutput};
use sqlx::{AssertSqlSafe, Row as _, SqliteConnection, TypeInfo as _, ValueRef as _};

use crate::{
    error::Fault,
    row::{Row, Value},
};

/// What is bound to a statement. Text is not copied.
#[derive(Clone, Debug)]
pub(crate) enum Bind<'q> {
    Null,
    Integer(i64),
    Text(Cow<'q, str>),
    Blob(Cow<'q, [u8]>),
}

/// A statement and what is bound to it.
#[derive(Debug)]
pub(crate) struct Statement<'q> {
    sql: &'q str,
    binds: Vec<Bind<'q>>,
}

/// A statement of `sql`, to be bound and run.
pub(crate) fn query(sql: &str) -> Statement<'_> {
    Statement { sql, binds: Vec::new() }
}

/// The same with room for many binds.
pub(crate) fn query_of(sql: &str, binds: usize) -> Statement<'_> {
    Statement { sql, binds: Vec::with_capacity(binds) }
}

impl<'q> Statement<'q> {
    /// Binds the next parameter.
    pub fn bind(mut self, value: impl Into<Bind<'q>>) -> Self {
        self.binds.push(value.into());
        self
    }
}

impl From<i64> for Bind<'_> {
    fn from(value: i64) -> Self {
        Self::Integer(value)
    }
}

impl<'q> From<&'q str> for Bind<'q> {
    fn from(value: &'q str) -> Self {
        Self::Text(Cow::Borrowed(value))
    }
}

impl<'q> From<&'q String> for Bind<'q> {
    fn from(value: &'q String) -> Self {
        Self::Text(Cow::Borrowed(value))
    }
}

impl From<String> for Bind<'_> {
    fn from(value: String) -> Self {
        Self::Text(Cow::Owned(value))
    }
}

impl<'q> From<&'q [u8]> for Bind<'q> {
    fn from(value: &'q [u8]) -> Self {
        Self::Blob(Cow::Borrowed(value))
    }
}

impl From<Vec<u8>> for Bind<'_> {
    fn from(value: Vec<u8>) -> Self {
        Self::Blob(Cow::Owned(value))
    }
}

impl<'q> From<&'q Vec<u8>> for Bind<'q> {
    fn from(value: &'q Vec<u8>) -> Self {
        Self::Blob(Cow::Borrowed(value))
    }
}

impl<'q> From<&'q Option<String>> for Bind<'q> {
    fn from(value: &'q Option<String>) -> Self {
        value.as_ref().map_or(Self::Null, Into::into)
    }
}

impl<'q, T: Into<Bind<'q>>> From<Option<T>> for Bind<'q> {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

impl ToSql for Bind<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(match self {
            Self::Null => rusqlite::types::Null.into(),
            Self::Integer(value) => (*value).into(),
            Self::Text(text) => text.as_ref().into(),
            Self::Blob(bytes) => bytes.as_ref().into(),
        })
    }
}

/// Whose connection it is.
enum Conn<'c> {
    Own(&'c mut Connection),
    Callers(&'c mut SqliteConnection),
}

/// A connection on which statements are run.
pub(crate) struct Db<'c> {
    conn: Conn<'c>,
    cut: Option<&'c Cut>,
}

impl<'c> Db<'c> {
    /// The driver's own. Its statements are done when they return: nothing is awaited.
    pub fn own(conn: &'c mut Connection, cut: Option<&'c Cut>) -> Self {
        Self { conn: Conn::Own(conn), cut }
    }

    /// The caller's.
    pub fn callers(conn: &'c mut SqliteConnection) -> Self {
        Self { conn: Conn::Callers(conn), cut: None }
    }

    /// All rows of a statement.
    pub async fn all(&mut self, statement: Statement<'_>) -> Result<Vec<Row>, Fault> {
        let answer = match &mut self.conn {
            Conn::Own(conn) => all(conn, &statement).map_err(Fault::from),
            Conn::Callers(conn) => {
                let rows = sqlx_query(&statement).fetch_all(&mut **conn).await;
                rows.map_err(Fault::from).and_then(|rows| rows.iter().map(callers_row).collect())
            }
        };
        self.lose()?;
        answer
    }

    /// The first row, if there is one.
    pub async fn first(&mut self, statement: Statement<'_>) -> Result<Option<Row>, Fault> {
        Ok(self.all(statement).await?.into_iter().next())
    }

    /// How many rows it changed.
    pub async fn run(&mut self, statement: Statement<'_>) -> Result<u64, Fault> {
        let answer = match &mut self.conn {
            Conn::Own(conn) => run(conn, &statement).map_err(Fault::from),
            Conn::Callers(conn) => match sqlx_query(&statement).execute(&mut **conn).await {
                Ok(done) => Ok(done.rows_affected()),
                Err(error) => Err(error.into()),
            },
        };
        self.lose()?;
        answer
    }

    fn lose(&self) -> Result<(), Fault> {
        match self.cut {
            Some(cut) if cut.now() => {
                Err(Fault::Broken(ErrorKind::Unavailable, "the connection was cut"))
            }
            _ => Ok(()),
        }
    }
}

fn all(conn: &Connection, statement: &Statement<'_>) -> rusqlite::Result<Vec<Row>> {
    let mut prepared = conn.prepare_cached(statement.sql)?;
    let columns = prepared.column_count();
    let mut rows = prepared.query(rusqlite::params_from_iter(&statement.binds))?;
    let mut all = Vec::new();
    while let Some(row) = rows.next()? {
        let values = (0..columns).map(|at| Ok(Value::from(row.get_ref(at)?)));
        all.push(Row(values.collect::<rusqlite::Result<_>>()?));
    }
    Ok(all)
}

/// A statement may return rows all the same; they are stepped over.
fn run(conn: &Connection, statement: &Statement<'_>) -> rusqlite::Result<u64> {
    let mut prepared = conn.prepare_cached(statement.sql)?;
    let mut rows = prepared.query(rusqlite::params_from_iter(&statement.binds))?;
    while rows.next()?.is_some() {}
    drop(rows);
    drop(prepared);
    Ok(conn.changes())
}

fn sqlx_query<'q>(
    statement: &Statement<'q>,
) -> sqlx::query::Query<'q, sqlx::Sqlite, sqlx::sqlite::SqliteArguments> {
    let query = sqlx::query(AssertSqlSafe(statement.sql));
    statement.binds.iter().fold(query, |query, bind| match bind {
        Bind::Null => query.bind(None::<i64>),
        Bind::Integer(value) => query.bind(*value),
        Bind::Text(text) => query.bind(text.clone().into_owned()),
        Bind::Blob(bytes) => query.bind(bytes.clone().into_owned()),
    })
}

fn callers_row(row: &sqlx::sqlite::SqliteRow) -> Result<Row, Fault> {
    let value = |at| {
        let value = row.try_get_raw(at)?;
        Ok(match value.type_info().name() {
            _ if value.is_null() => Value::Null,
            "INTEGER" => Value::Integer(row.try_get_unchecked(at)?),
            "REAL" => Value::Real(row.try_get_unchecked(at)?),
            "TEXT" => Value::Text(row.try_get_unchecked(at)?),
            _ => Value::Blob(row.try_get_unchecked(at)?),
        })
    };
    (0..row.len()).map(value).collect::<Result<_, Fault>>().map(Row)
}
