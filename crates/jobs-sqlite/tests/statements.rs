//! Every statement compiles on the migrated schema, and none that runs per call scans the live jobs.

use std::{collections::BTreeSet, path::Path};

use jobs_core::{Job, Queue, authorized, grant::grant_without_user, queue::Reserve};
use jobs_sqlite::{Options, Sqlite};
use sqlx::{AssertSqlSafe, ConnectOptions, Row, SqliteConnection, sqlite::SqliteConnectOptions};

/// Statements that look at all running jobs, which are few, by their own index, at lanes, or at no
/// more entries than a limit says.
const WHOLE: [(&str, &str); 8] = [
    ("sweep_reserves.sql", "SCAN x USING COVERING INDEX jobs_reserve_until"),
    ("counts_running.sql", "INDEX jobs_lease"),
    ("counts_tenant.sql", "SCAN r USING INDEX jobs_lease"),
    ("counts_lanes.sql", "SCAN x USING INDEX jobs_lease"),
    ("counts_lanes.sql", "SCAN l USING INDEX jobs_lane_changed"),
    ("list_few_running.sql", "INDEX jobs_lease"),
    ("list_few_ready.sql", "SCAN r"),
    ("list_shelf.sql", "SCAN l USING COVERING INDEX sqlite_autoindex_jobs_lane_1"),
];

/// The tables that grow with the backlog or the history.
const LARGE: [&str; 9] = [
    "jobs_live",
    "jobs_ready",
    "jobs_body",
    "jobs_done",
    "jobs_attempt",
    "jobs_key",
    "jobs_sublane",
    "jobs_lane",
    "jobs_reserve",
];

/// A file as a release makes it.
#[tokio::test]
async fn each_statement_compiles_and_seeks() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("jobs.db");
    Sqlite::open(Options::new(&path.display().to_string()).unwrap()).await.unwrap();
    plan(&mut SqliteConnectOptions::new().filename(&path).connect().await.unwrap()).await;
}

/// A file whose application ran ANALYZE while there were a few jobs, before a handle opens it and
/// while one is open.
#[tokio::test]
async fn each_statement_seeks_after_statistics_of_small_tables() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("jobs.db");
    let options = Options::new(&path.display().to_string()).unwrap();
    let store = Sqlite::open(options.clone()).await.unwrap();
    let mut file = SqliteConnectOptions::new().filename(&path).connect().await.unwrap();
    for _ in 0..2 {
        let grant = grant_without_user("suite", "work.do", "acme").unwrap();
        let job = authorized(&grant, Job::new(&grant, "n", &1).unwrap()).unwrap();
        assert!(store.enqueue(&[job]).await.remove(0).is_ok());
        let wish = Reserve::new("default", ["n"], "w").unwrap();
        store.reserve(&wish).await.unwrap();
    }
    sqlx::query("CREATE TABLE other AS SELECT 1 AS x").execute(&mut file).await.unwrap();
    for open_again in [true, false] {
        sqlx::query("ANALYZE").execute(&mut file).await.unwrap();
        if open_again {
            Sqlite::open(options.clone()).await.unwrap();
        } else {
            store.sweep().await.unwrap();
        }
        // This connection knew the statistics: it has to forget them too.
        plan(&mut file).await;
        let left = sqlx::query("SELECT count(*) FROM sqlite_stat1");
        let left: i64 = left.fetch_one(&mut file).await.unwrap().get(0);
        assert_eq!(left, 1, "what is the application's stays");
    }
}

async fn plan(file: &mut SqliteConnection) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/op");
    let (mut count, mut found) = (0, Vec::new());
    // EXPLAIN does not look whether the schema changed; a statement that runs does.
    sqlx::query("SELECT count(*) FROM jobs_live").fetch_one(&mut *file).await.expect("it counts");
    for entry in std::fs::read_dir(folder).expect("the statements") {
        let path = entry.expect("a file").path();
        if path.extension().is_none_or(|extension| extension != "sql") {
            continue;
        }
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        let sql = std::fs::read_to_string(&path).expect("text");
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
        let plan = explain.fetch_all(&mut *file).await.unwrap_or_else(|e| panic!("{name}: {e}"));
        let steps: Vec<String> = plan.iter().map(|row| row.get(3)).collect();
        // The tables that grow with the backlog, by whatever name the statement gives them.
        let words: Vec<&str> = sql.split_whitespace().collect();
        let mut large = BTreeSet::new();
        for (at, word) in words.iter().enumerate() {
            let table = word.trim_matches(|c: char| !c.is_ascii_alphanumeric() && c != '_');
            if LARGE.contains(&table) {
                large.insert(table);
                let alias = words.get(at + 1).copied().unwrap_or_default();
                let alias = alias.trim_matches(|c: char| !c.is_ascii_alphanumeric());
                large.insert(alias);
            }
        }
        for step in &steps {
            let scanned = step.strip_prefix("SCAN ").and_then(|rest| rest.split(' ').next());
            let subquery = |name: &str| {
                let made = [format!("CO-ROUTINE {name}"), format!("MATERIALIZE {name}")];
                steps.iter().any(|step| made.contains(step))
            };
            let scans = scanned.is_some_and(|name| large.contains(name) && !subquery(name));
            let excused = WHOLE.iter().any(|(file, index)| name == *file && step.contains(index));
            if scans && !excused {
                found.push(format!("{name}: {step} of {steps:?}"));
            }
        }
        count += 1;
    }
    assert!(found.is_empty(), "{found:#?}");
    assert!(count > 50, "{count} statements");
}
