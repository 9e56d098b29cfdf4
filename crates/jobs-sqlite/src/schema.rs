//! Opening the file: version of SQLite, migrations, versions of the schema.

use std::{
    thread::sleep,
    time::{Duration, Instant},
};

use crate::{
    clock::system_now, db::query, error::Fault, options::Options, own::Own, row::get, statistics,
};
use jobs_core::{Error, ErrorKind, Result};

/// The migrations, from version 1.
const MIGRATIONS: &[&str] = &[include_str!("../migrations/0001_jobs.sql")];

/// The schema that this release makes. It also runs on the next one, because migrations only add.
pub const SCHEMA: u32 = MIGRATIONS.len() as u32;

/// Is this version of SQLite safe with more than one connection on a WAL file?
///
/// 3.7.0 to 3.51.2 can damage it (the WAL-reset race, sqlite.org/wal.html), but for the corrected
/// 3.50.7 and 3.44.6 and later of their lines.
///
/// # Errors
/// A sentence that says what to do.
pub fn check_version(version: &str) -> std::result::Result<(), String> {
    let mut parts = version.split('.').map(|part| part.parse::<u32>().ok());
    let mut next = || parts.next().flatten();
    let (Some(major), Some(minor)) = (next(), next()) else {
        return Err(format!("{version} is no version of SQLite"));
    };
    let patch = next().unwrap_or(0);
    let safe = match (major, minor) {
        (3, 44) => patch >= 6,
        (3, 50) => patch >= 7,
        (3, 51) => patch >= 3,
        (3, minor) => minor > 51,
        (major, _) => major > 3,
    };
    if safe {
        return Ok(());
    }
    Err(format!(
        "SQLite {version} can damage a WAL file that two connections use: build with the bundled \
         SQLite, or link 3.51.3, 3.50.7, 3.44.6 or later of those lines"
    ))
}

/// Opens, checks and migrates, at the start of a handle.
pub(crate) async fn open(options: &Options) -> Result<Own> {
    let refused = |fault: Fault| {
        let error = fault.into_error("connect");
        let what = format!("{}: {error}", options.path.display());
        Error::with_source(error.kind(), "connect", what, error)
    };
    // Before the file is touched: WAL mode is what an unsafe version damages.
    check_version(rusqlite::version())
        .map_err(|what| Error::new(ErrorKind::Unsafe, "connect", what))?;
    let own = patient(options, || Own::writing(options, true));
    let mut own = own.map_err(|fault| match fault.is_closed() {
        true => {
            let what = "cannot be opened: check that its directory exists and is writable";
            let what = format!("{} {what}", options.path.display());
            Error::with_source(ErrorKind::Refused, "connect", what, fault.into_error("connect"))
        }
        false => refused(fault),
    })?;
    migrate(&mut own, options).await?;
    Ok(own)
}

/// Another connection for a handle that lost its own. It does not make the file again, and does
/// not wait: who waits for it does. Meanwhile a newer release may have migrated the file.
pub(crate) async fn reopen(options: &Options) -> std::result::Result<Own, Fault> {
    let mut own = Own::writing(options, false)?;
    let mut db = own.db(None);
    let gone = "the file has no jobs tables any more: restore it, or connect again to make them";
    let found = db.first(query(include_str!("op/schema_version.sql"))).await;
    let found = found.map_err(|fault| match fault.code() {
        Some(1) => Fault::Broken(ErrorKind::Schema, gone),
        _ => fault,
    })?;
    let found: i64 = found.map_or(Ok(0), |row| get(&row, 0))?;
    if found == 0 {
        return Err(Fault::Broken(ErrorKind::Schema, gone));
    }
    if found > i64::from(SCHEMA) + 1 {
        let newer = "a newer release migrated the file meanwhile: deploy it here";
        return Err(Fault::Broken(ErrorKind::Schema, newer));
    }
    db.run(query("BEGIN IMMEDIATE")).await?;
    statistics::forget(&mut db).await?;
    db.run(query("COMMIT")).await?;
    Ok(own)
}

/// Opens as soon as nobody else turns the file to WAL mode.
fn patient(
    options: &Options,
    open: impl Fn() -> std::result::Result<Own, Fault>,
) -> std::result::Result<Own, Fault> {
    let since = Instant::now();
    loop {
        match open() {
            Err(fault) if fault.is_busy() && since.elapsed() < options.busy => {
                sleep(Duration::from_millis(20));
            }
            outcome => return outcome,
        }
    }
}

/// Brings the schema to this release's version, under the file's write lock.
async fn migrate(own: &mut Own, options: &Options) -> Result<()> {
    let refused = |fault: Fault| fault.into_error("connect");
    let since = Instant::now();
    let found = loop {
        match migrate_once(own).await {
            Ok(found) => break found,
            Err(fault) => {
                own.batch("ROLLBACK").ok();
                if !fault.is_busy() || since.elapsed() > options.busy {
                    return Err(refused(fault));
                }
            }
        }
    };
    if found > i64::from(SCHEMA) + 1 {
        let what = format!(
            "the schema is version {found}, this release runs on {SCHEMA} and the next: deploy a \
             newer release"
        );
        return Err(Error::new(ErrorKind::Schema, "connect", what));
    }
    Ok(())
}

async fn migrate_once(own: &mut Own) -> std::result::Result<i64, Fault> {
    let mut db = own.db(None);
    db.run(query("BEGIN IMMEDIATE")).await?;
    db.run(query(include_str!("op/migration.sql"))).await?;
    let row = db.first(query(include_str!("op/schema_version.sql"))).await?;
    let found: i64 = row.map_or(Ok(0), |row| get(&row, 0))?;
    for (version, migration) in (1..).zip(MIGRATIONS).filter(|(version, _)| *version > found) {
        own.batch(migration)?;
        let mut db = own.db(None);
        let done = query("INSERT INTO jobs_migration VALUES (?1, ?2)");
        db.run(done.bind(version).bind(system_now())).await?;
    }
    let mut db = own.db(None);
    statistics::forget(&mut db).await?;
    db.run(query("COMMIT")).await?;
    Ok(found.max(i64::from(SCHEMA)))
}

/// A connection that only reads, with no part in the writer's group.
pub(crate) fn reader(options: &Options) -> std::result::Result<Own, Fault> {
    patient(options, || Own::reading(options))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unsafe_versions_are_refused() {
        for good in ["3.44.6", "3.44.9", "3.50.7", "3.51.3", "3.52.0", "3.53", "4.0.0"] {
            assert_eq!(check_version(good), Ok(()), "{good}");
        }
        for bad in ["3.7.0", "3.44.5", "3.45.3", "3.50.6", "3.51.2", "3.51", "", "x.y"] {
            assert!(check_version(bad).is_err(), "{bad}");
        }
    }
}
