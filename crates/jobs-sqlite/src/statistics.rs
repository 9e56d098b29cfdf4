//! The planner's statistics, which `ANALYZE` and `PRAGMA optimize` of the application write of our
//! tables too.
//!
//! Every statement here is written for tables without them. Those of a day with ten jobs say that a
//! scan is cheapest, and a year later every call scans ten million; so they are deleted. Rejected:
//! fresh ones, because ready jobs come and go by the million between two of them.

use crate::{db::Db, db::query, error::Fault, row::get};

/// Deletes what the planner was told of our tables, inside a write transaction. Was there any?
pub(crate) async fn forget(db: &mut Db<'_>) -> Result<bool, Fault> {
    let tables = db.all(query(include_str!("op/statistics_tables.sql"))).await?;
    let mut found = 0;
    for table in &tables {
        found += match get::<&str>(table, 0)? {
            "sqlite_stat1" => {
                db.run(query("DELETE FROM sqlite_stat1 WHERE tbl GLOB 'jobs_*'")).await?
            }
            _ => db.run(query("DELETE FROM sqlite_stat4 WHERE tbl GLOB 'jobs_*'")).await?,
        };
    }
    if found == 0 {
        return Ok(false);
    }
    // This connection forgets what it has read, by reading again; every other one does because the
    // schema changed.
    db.run(query("ANALYZE sqlite_schema")).await?;
    db.run(query("CREATE VIEW jobs_schema_changed AS SELECT 1")).await?;
    db.run(query("DROP VIEW jobs_schema_changed")).await?;
    Ok(true)
}
