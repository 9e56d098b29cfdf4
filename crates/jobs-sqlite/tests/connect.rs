//! What is refused at connect, and with what advice.

use jobs_core::{Admin, ErrorKind, grant::grant_without_user};
use jobs_sqlite::{Durability, Options, SCHEMA, Sqlite};
use sqlx::{ConnectOptions, sqlite::SqliteConnectOptions};

#[tokio::test]
async fn urls_that_cannot_work_are_refused_with_advice() {
    let urls = [
        ("sqlite::memory:", "name a file"),
        (":memory:", "name a file"),
        ("sqlite://x.db?mode=memory", "name a file"),
        ("sqlite://", "names no file"),
        ("postgres://localhost/x", "sqlite://path"),
        ("sqlite://x.db?mode=ro", "Options"),
        ("sqlite:///no/such/directory/jobs.db", "directory exists"),
        ("sqlite:///", "directory exists"),
    ];
    for (url, advice) in urls {
        let error = Sqlite::connect(url).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Refused, "{url}: {error}");
        assert!(error.to_string().contains(advice), "{url}: {error}");
        assert!(!error.is_transient());
    }
}

#[tokio::test]
async fn a_release_runs_on_its_own_schema_and_the_next() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("jobs.db");
    let options = || Options::new(&path.display().to_string()).unwrap();
    Sqlite::open(options()).await.unwrap();
    let mut file = SqliteConnectOptions::new().filename(&path).connect().await.unwrap();
    for (version, runs) in [(SCHEMA + 1, true), (SCHEMA + 2, false)] {
        let newer = sqlx::query("INSERT INTO jobs_migration VALUES (?1, 0)").bind(version);
        newer.execute(&mut file).await.unwrap();
        match Sqlite::open(options()).await {
            Ok(_) => assert!(runs),
            Err(error) => assert!(!runs && error.kind() == ErrorKind::Schema, "{error}"),
        }
    }
}

#[tokio::test]
async fn a_file_that_is_no_database_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("jobs.db");
    std::fs::write(&path, vec![b'x'; 8192]).unwrap();
    let error = Sqlite::connect(&path.display().to_string()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
}

#[tokio::test]
async fn weaker_durability_is_a_finding() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("jobs.db");
    let options = Options::new(&path.display().to_string()).unwrap();
    let store = Sqlite::open(options.durability(Durability::Normal)).await.unwrap();
    let grant = grant_without_user("suite", "jobs.read", "acme").unwrap();
    let check = store.check(&grant.permit().unwrap()).await.unwrap();
    assert!(check.findings.len() == 1 && check.findings[0].contains("Durability::Full"));
}
