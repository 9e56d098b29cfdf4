//! Check (A7).

use jobs_core::{Result, time::from_millis, view::Check};
use sqlx::postgres::PgRow;

use crate::{Postgres, db::get, error::Fault, row::small};

/// How long somebody may hold a snapshot before an operator is told, in seconds.
const LONG: i64 = 600;
/// How far behind a replication slot may keep rows, in transactions.
const FAR: i64 = 5_000_000;

/// Schema, safety settings and clock.
pub(crate) async fn health(store: &Postgres) -> Result<Check> {
    let rows = store.db.call("check", include_str!("check.sql"), |_| Ok(())).await?;
    let row = rows.first().ok_or_else(|| Fault::Corrupt("no answer".into()));
    row.and_then(read).map_err(|fault| fault.into_error("check"))
}

fn read(row: &PgRow) -> std::result::Result<Check, Fault> {
    let version: String = get(row, 0)?;
    let mut findings = Vec::new();
    if get::<bool>(row, 3)? {
        findings.push("the server is a standby and only reads: connect to the primary".to_owned());
    }
    if get::<&str>(row, 4)? == "off" {
        findings.push("fsync is off: a power cut may damage everything, turn it on".to_owned());
    }
    let commit: String = get(row, 5)?;
    if commit == "off" {
        let what = "synchronous_commit is off: a crash loses the last pushes, turn it on";
        findings.push(what.to_owned());
    }
    let age: i64 = get(row, 6)?;
    if age > LONG {
        findings.push(format!(
            "a transaction has been open for {age} s and keeps dead rows from being vacuumed: end it \
             (pg_stat_activity, backend_xmin)"
        ));
    }
    let prepared: i64 = get(row, 8)?;
    if prepared > LONG {
        findings.push(format!(
            "a transaction has been prepared for {prepared} s and keeps dead rows from being vacuumed: \
             commit it or roll it back (pg_prepared_xacts)"
        ));
    }
    let behind: i64 = get(row, 9)?;
    if behind > FAR {
        findings.push(format!(
            "a replication slot is {behind} transactions behind and keeps dead rows from being \
             vacuumed: let its reader catch up, or drop it (pg_replication_slots)"
        ));
    }
    if get::<&str>(row, 7)? == "off" {
        findings.push("autovacuum is off: the jobs tables grow, turn it on".to_owned());
    }
    Ok(Check {
        store: format!("PostgreSQL {version}"),
        schema: small(get::<Option<i32>>(row, 1)?.unwrap_or_default()),
        now: from_millis(get(row, 2)?),
        findings,
    })
}
