//! Every statement compiles on the migrated schema, and none that runs per call scans the live jobs.

use std::path::Path;

use jobs_sqlite::{Options, Sqlite};
use sqlx::{AssertSqlSafe, ConnectOptions, Row, sqlite::SqliteConnectOptions};

/// Statements that look at all running jobs, by their lease's index.
const BY_LEASE: [&str; 2] = ["list_few_running.sql", "counts_running.sql"];

#[tokio::test]
async fn each_statement_compiles_and_seeks() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("jobs.db");
    Sqlite::open(Options::new(&path.display().to_string()).unwrap()).await.unwrap();
    let mut file = SqliteConnectOptions::new().filename(&path).connect().await.unwrap();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/op");
    let mut count = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "sql") {
            continue;
        }
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let sql = std::fs::read_to_string(&path).unwrap();
        assert!(sql.starts_with("-- "), "{name} begins with why it is so");
        if name == "migration.sql" {
            continue;
        }
        let mut sql =
            sql.lines().filter(|line| !line.starts_with("--")).collect::<Vec<_>>().join("\n");
        if name == "list_shelf.sql" {
            sql = sql.replace("TABLE", "jobs_live").replace("STATE", "state = 3");
            sql = sql.replace("PLACE", "queue");
        }
        let explain = sqlx::query(AssertSqlSafe(format!("EXPLAIN QUERY PLAN {sql}")));
        let plan = explain.fetch_all(&mut file).await.unwrap_or_else(|e| panic!("{name}: {e}"));
        let steps: Vec<String> = plan.iter().map(|row| row.get(3)).collect();
        for step in &steps {
            let alias = ["l", "x", "d", "b", "s", "a"].iter().find(|alias| {
                *step == format!("SCAN {alias}") || step.starts_with(&format!("SCAN {alias} "))
            });
            let bounded = |alias: &&str| steps.contains(&format!("CO-ROUTINE {alias}"));
            let scans =
                alias.is_some_and(|alias| !bounded(alias)) && !step.contains("VIRTUAL TABLE");
            let small = sql.contains("FROM jobs_lane l")
                || BY_LEASE.contains(&name.as_str())
                || step.contains("USING INDEX jobs_lease")
                || step.contains("jobs_reserve")
                || step.contains("COVERING INDEX");
            assert!(!scans || small, "{name}: {step}");
            for table in ["jobs_live", "jobs_body", "jobs_done", "jobs_attempt"] {
                assert!(!step.starts_with(&format!("SCAN {table}")), "{name}: {step}");
            }
        }
        count += 1;
    }
    assert!(count > 50, "{count} statements");
}
