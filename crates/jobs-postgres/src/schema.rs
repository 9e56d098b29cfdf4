//! The schema: migrations of the driver's own, under a lock of its own, and its version.

use jobs_core::{Error, ErrorKind, Result};
use sqlx::{
    AssertSqlSafe, Connection, Executor, PgConnection, Row, SqlSafeStr, postgres::PgArguments,
};

use crate::{
    db::{Db, in_schema, quoted},
    error::Fault,
};

/// The statements of each version, from 1. Functions stand beside the code that calls them.
const MIGRATIONS: &[&[&str]] = &[&[
    include_str!("../migrations/0001_jobs.sql"),
    include_str!("op/enqueue.sql"),
    include_str!("op/settle.sql"),
    include_str!("op/reserve_lines.sql"),
    include_str!("op/reserve_turns.sql"),
    include_str!("op/reserve_take.sql"),
    include_str!("op/reserve.sql"),
    include_str!("op/renew.sql"),
    include_str!("op/sweep.sql"),
    include_str!("op/verbs.sql"),
    include_str!("op/retry.sql"),
    include_str!("op/cancel.sql"),
    include_str!("op/delete.sql"),
    include_str!("op/set_lane.sql"),
    include_str!("op/list.sql"),
    include_str!("op/counts.sql"),
]];

/// The schema that this release makes. It also runs on the next one, because migrations only add.
pub const SCHEMA: u32 = MIGRATIONS.len() as u32;

/// The oldest server it runs on. `EXTRACT` answers numbers from 14 on; before, milliseconds of a
/// double would be rounded.
pub const OLDEST_SERVER: u32 = 14;

/// What a migration of `schema` runs, from version `from` + 1 on.
fn steps(schema: &str, from: u32) -> String {
    let mut sql = String::new();
    for (version, parts) in (1..).zip(MIGRATIONS).filter(|(version, _)| *version > from) {
        for part in *parts {
            sql.push_str(&in_schema(part, schema));
            sql.push('\n');
        }
        let done = "INSERT INTO jobs.migration VALUES";
        sql.push_str(&in_schema(done, schema));
        sql.push_str(&format!(" ({version}, now());\n"));
    }
    sql
}

/// The schema itself and the driver's own table of migrations, beside the application's.
fn ground(schema: &str) -> String {
    let table = "CREATE TABLE IF NOT EXISTS jobs.migration (
  version int4 PRIMARY KEY,
  applied_at timestamptz NOT NULL
);\n";
    format!("CREATE SCHEMA {};\n{}", quoted(schema), in_schema(table, schema))
}

/// The whole schema as one transaction of SQL, for whoever may run it where the application may not;
/// on a database that has it already it fails and changes nothing. The application's role needs:
///
/// ```sql
/// GRANT USAGE ON SCHEMA jobs TO app;
/// GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA jobs TO app;
/// ```
pub fn sql(schema: &str) -> String {
    format!("BEGIN;\n{}{}COMMIT;\n", ground(schema), steps(schema, 0))
}

/// Is the server new enough, and the schema not newer than this release knows?
pub(crate) async fn check(db: &Db) -> Result<()> {
    let schema = db.options.schema.clone();
    let found = db
        .with("connect", |mut conn| async move {
            // One transaction, so that a pooler gives all of it to one session.
            let mut tx = conn.begin_with(BEGIN).await?;
            let server = "SELECT current_setting('server_version_num')::int4, \
                          current_setting('server_encoding')";
            let server = unnamed(server).fetch_one(&mut *tx).await?;
            let (number, encoding): (i32, String) = (server.try_get(0)?, server.try_get(1)?);
            let version = version(&mut tx, &schema).await?;
            tx.commit().await?;
            conn.close().await.ok();
            Ok((number, encoding, version))
        })
        .await;
    let (number, encoding, version) = found?;
    supported(number)?;
    if encoding != "UTF8" {
        let what = format!("the database's encoding is {encoding}: names need one in UTF8");
        return Err(Error::new(ErrorKind::Refused, "connect", what));
    }
    if version > SCHEMA + 1 {
        return Err(newer(version, "connect"));
    }
    Ok(())
}

/// Run once, so not prepared by name, which a pooler would not know again.
fn unnamed<'q>(sql: impl SqlSafeStr) -> sqlx::query::Query<'q, sqlx::Postgres, PgArguments> {
    sqlx::query(sql).persistent(false)
}

/// Whatever the database's default is: under another isolation, who waited for a lock would not see
/// what its holder did.
const BEGIN: &str = "BEGIN ISOLATION LEVEL READ COMMITTED";

/// Is a server of this `server_version_num`, 150018 for 15.18, new enough?
fn supported(number: i32) -> Result<()> {
    let major = u32::try_from(number / 10_000).unwrap_or_default();
    if major >= OLDEST_SERVER {
        return Ok(());
    }
    let what = format!(
        "PostgreSQL {major} is too old, {OLDEST_SERVER} is the oldest that the store runs on: \
         upgrade the server"
    );
    Err(Error::new(ErrorKind::Unsafe, "connect", what))
}

fn newer(found: u32, operation: &'static str) -> Error {
    let what = format!(
        "the schema is version {found}, this release runs on {SCHEMA} and the next: deploy a newer \
         release"
    );
    Error::new(ErrorKind::Schema, operation, what)
}

/// The version of the schema, 0 when there is none.
async fn version(conn: &mut PgConnection, schema: &str) -> std::result::Result<u32, Fault> {
    let table = "SELECT to_regclass($1) IS NOT NULL";
    let name = format!("{}.migration", quoted(schema));
    let there: bool = unnamed(table).bind(name).fetch_one(&mut *conn).await?.try_get(0)?;
    if !there {
        return Ok(0);
    }
    let newest = in_schema("SELECT coalesce(max(version), 0) FROM jobs.migration", schema);
    let newest: i32 = unnamed(AssertSqlSafe(newest)).fetch_one(&mut *conn).await?.try_get(0)?;
    Ok(u32::try_from(newest).unwrap_or_default())
}

/// Brings the schema to this release's version, in one transaction, one process at a time.
pub(crate) async fn migrate(db: &Db) -> Result<()> {
    let schema = db.options.schema.clone();
    let found = db
        .with("migrate", |mut conn| async move {
            let mut tx = conn.begin_with(BEGIN).await?;
            // A lock of the schema's own, so that the application's migrations wait for nothing.
            let lock = "SELECT pg_advisory_xact_lock(hashtext('jobs migration'), hashtext($1))";
            // Another process may take longer than a call waits for a lock.
            (&mut *tx).execute(sqlx::raw_sql("SET LOCAL lock_timeout = 0")).await?;
            unnamed(lock).bind(&schema).execute(&mut *tx).await?;
            let found = version(&mut tx, &schema).await?;
            if found < SCHEMA {
                let there = "SELECT 1 FROM pg_namespace WHERE nspname = $1";
                let there = unnamed(there).bind(&schema).fetch_optional(&mut *tx).await?;
                let mut text = ground(&schema);
                if there.is_some() {
                    // Making it again would need a privilege on the database.
                    text = text.lines().skip(1).collect::<Vec<_>>().join("\n");
                }
                text.push_str(&steps(&schema, found));
                (&mut *tx).execute(sqlx::raw_sql(AssertSqlSafe(text))).await?;
            }
            tx.commit().await?;
            conn.close().await.ok();
            Ok(found)
        })
        .await?;
    if found > SCHEMA + 1 {
        return Err(newer(found, "migrate"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_older_server_is_refused() {
        for number in [0, -1, 90_624, 130_000, 139_999] {
            let error = supported(number).expect_err("too old");
            assert_eq!(error.kind(), ErrorKind::Unsafe, "{number}");
            let what = error.to_string();
            assert!(what.contains("14 is the oldest") && what.contains("upgrade"), "{what}");
        }
        for number in [140_000, 150_018, 180_001, i32::MAX] {
            assert!(supported(number).is_ok(), "{number}");
        }
    }
}
