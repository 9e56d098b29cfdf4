//! Eight processes on one file, some killed in the middle: each job done once on record, the file
//! sound, and nobody told that it is busy.

use std::{
    collections::HashMap,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use jobs_core::{
    Job, Outcome, Queue, Settlement, authorized,
    grant::grant_without_user,
    queue::{Lease, Pushed, Reserve},
};
use jobs_sqlite::{Options, Sqlite};
use sqlx::{ConnectOptions, Row, sqlite::SqliteConnectOptions};

const FILE: &str = "JOBS_SQLITE_PROCESS_FILE";
const JOBS: usize = 3000;
const PROCESSES: usize = 8;
const DEADLINE: Duration = Duration::from_secs(120);

/// One worker process: not a test of its own, but what the test below starts.
#[tokio::test]
async fn worker_process() {
    let Ok(path) = std::env::var(FILE) else { return };
    let store = Sqlite::open(Options::new(&path).unwrap()).await.unwrap();
    let lease = Lease::new(Duration::from_secs(1)).unwrap();
    let start = Instant::now();
    while start.elapsed() < DEADLINE {
        store.sweep().await.unwrap();
        let wish = Reserve::new("default", ["n"], "p").unwrap().slots(16).lease(lease);
        let held = store.reserve(&wish).await.unwrap().deliveries;
        if held.is_empty() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let settle = |claim| Settlement { claim, outcome: Outcome::Done };
        let settlements: Vec<_> = held.into_iter().map(|held| settle(held.claim)).collect();
        store.settle(&settlements).await.unwrap();
    }
}

fn start(path: &str) -> Child {
    Command::new(std::env::current_exe().expect("this test has a file"))
        .args(["--exact", "worker_process", "--nocapture"])
        .env(FILE, path)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("a process starts")
}

#[tokio::test]
async fn eight_processes_some_killed_do_each_job_once() {
    if std::env::var_os(FILE).is_some() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("jobs.db").display().to_string();
    let store = Sqlite::open(Options::new(&path).unwrap()).await.unwrap();
    let mut processes: Vec<Child> = (0..PROCESSES).map(|_| start(&path)).collect();
    let (begun, mut killed) = (Instant::now(), 0);
    for batch in 0..JOBS / 100 {
        let grant = grant_without_user("suite", "work.do", &format!("t{}", batch % 5)).unwrap();
        let job = |_| {
            let job = Job::new(&grant, "n", &()).unwrap().max_attempts(1000);
            authorized(&grant, job).unwrap()
        };
        let jobs: Vec<_> = (0..100).map(job).collect();
        for pushed in store.enqueue(&jobs).await {
            assert_eq!(pushed.unwrap(), Pushed::Stored);
        }
        if batch % 5 == 4 {
            let victim = fastrand::usize(..processes.len());
            processes[victim].kill().unwrap();
            processes[victim].wait().unwrap();
            processes[victim] = start(&path);
            killed += 1;
        }
    }
    let mut file = SqliteConnectOptions::new().filename(&path).connect().await.unwrap();
    let done = loop {
        let count = sqlx::query("SELECT count(*) FROM jobs_done WHERE state = 4 AND stub = 0");
        let done: i64 = count.fetch_one(&mut file).await.unwrap().get(0);
        if done as usize == JOBS || begun.elapsed() > DEADLINE {
            break done;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    let mut broken = HashMap::new();
    for (number, mut process) in processes.into_iter().enumerate() {
        if let Some(status) = process.try_wait().unwrap() {
            let output = process.wait_with_output().unwrap();
            broken.insert(number, (status, String::from_utf8_lossy(&output.stderr).into_owned()));
            continue;
        }
        process.kill().unwrap();
        process.wait().unwrap();
    }
    assert!(broken.is_empty(), "a process failed: {broken:?}");
    assert_eq!(done as usize, JOBS, "after {:?}", begun.elapsed());
    assert!(killed > 0);
    let left = sqlx::query("SELECT count(*) FROM jobs_live").fetch_one(&mut file).await.unwrap();
    assert_eq!(left.get::<i64, _>(0), 0, "each job is done once and nowhere else");
    let sound = sqlx::query("PRAGMA integrity_check").fetch_one(&mut file).await.unwrap();
    assert_eq!(sound.get::<String, _>(0), "ok");
}
