//! Eight processes on one file, some killed in the middle: each job done once on record and held by
//! one at a time, the file sound, and nobody told that it is busy.

use std::{
    collections::{BTreeMap, HashMap},
    fs::{self, OpenOptions},
    io::Write,
    path::Path,
    process::{Child, Command, Stdio},
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use jobs_core::{
    Claim, Job, Outcome, Queue, Settled, Settlement, authorized,
    grant::grant_without_user,
    queue::{Lease, Pushed, Reserve},
};
use jobs_sqlite::{Options, Sqlite};
use sqlx::{ConnectOptions, Row, sqlite::SqliteConnectOptions};

const FILE: &str = "JOBS_SQLITE_PROCESS_FILE";
const JOBS: usize = 3000;
const PROCESSES: usize = 8;
const DEADLINE: Duration = Duration::from_secs(120);
const LEASE: Duration = Duration::from_secs(1);
/// Leases end in whole milliseconds.
const ROUNDED: u128 = 2_000;

/// What a process saw of one delivery: taken, or settled as done. Times are microseconds of the
/// machine's clock: sent, and answered.
#[derive(Clone, Debug, PartialEq)]
struct Seen {
    job: String,
    fence: i64,
    done: bool,
    sent: u128,
    at: u128,
}

impl Seen {
    fn new(claim: &Claim, done: bool, (sent, at): (u128, u128)) -> Self {
        Self { job: claim.job.to_string(), fence: claim.fence, done, sent, at }
    }

    fn line(&self) -> String {
        let Self { job, fence, done, sent, at } = self;
        format!("{job} {fence} {done} {sent} {at}\n")
    }

    /// `None` for half a line, of a process that was killed.
    fn read(line: &str) -> Option<Self> {
        let mut words = line.split(' ');
        Some(Self {
            job: words.next()?.to_owned(),
            fence: words.next()?.parse().ok()?,
            done: words.next()?.parse().ok()?,
            sent: words.next()?.parse().ok()?,
            at: words.next()?.strip_suffix('\n')?.parse().ok()?,
        })
    }
}

fn now() -> u128 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_micros()
}

/// What all processes saw.
fn seen(directory: &Path) -> Vec<Seen> {
    let entries = fs::read_dir(directory).expect("the test's own directory");
    let files = entries.map(|entry| entry.expect("a readable one").path());
    let files = files.filter(|path| path.extension().is_some_and(|is| is == "seen"));
    let text: Vec<String> =
        files.map(|path| fs::read_to_string(path).expect("a whole file")).collect();
    text.iter().flat_map(|text| text.split_inclusive('\n')).filter_map(Seen::read).collect()
}

/// Where two had one job at once, or one had it when it was done.
fn two_holders(seen: &[Seen]) -> Vec<String> {
    let mut jobs: BTreeMap<&str, Vec<&Seen>> = BTreeMap::new();
    for one in seen {
        jobs.entry(&one.job).or_default().push(one);
    }
    let mut found = Vec::new();
    for mut events in jobs.into_values() {
        events.sort_by_key(|event| (event.fence, event.done, event.at));
        for (at, one) in events.iter().enumerate() {
            for next in &events[at + 1..] {
                let what = match (one.done, next.done) {
                    (false, false) if one.fence == next.fence => "one claim was delivered twice",
                    // Whoever takes it from a holder that is silent waits for its lease's end.
                    (false, false) if next.at + ROUNDED < one.sent + LEASE.as_micros() => {
                        "it was taken from a lease that was not over"
                    }
                    (true, false) => "it was delivered after it was done",
                    (true, true) => "it was done twice",
                    _ => continue,
                };
                found.push(format!("{what}: {one:?}, {next:?}"));
            }
        }
    }
    found
}

#[test]
fn two_holders_are_seen() {
    let seen = |fence, done, sent| {
        let line = format!("acme/1 {fence} {done} {sent} {}\n", sent + 1000);
        Seen::read(&line).filter(|seen| seen.line() == line).unwrap()
    };
    let found = |events: &[Seen]| two_holders(events);
    let (first, again) = (seen(1, false, 0), seen(2, false, 1_000_000));
    let done = seen(2, true, 1_100_000);
    assert_eq!(found(&[first.clone(), again.clone(), done.clone()]), [""; 0]);
    for (events, what) in [
        (vec![first.clone(), seen(1, false, 5)], "one claim was delivered twice"),
        (vec![first.clone(), seen(2, false, 990_000)], "a lease that was not over"),
        (vec![first.clone(), again, done.clone(), seen(3, false, 9_000_000)], "after it was done"),
        (vec![first, seen(1, true, 9_000), done], "done twice"),
    ] {
        let found = found(&events);
        assert!(found.iter().any(|found| found.contains(what)), "{what}: {found:?}");
    }
    assert_eq!(Seen::read("acme/1 1 false 12"), None);
}

/// One worker process: not a test of its own, but what the test below starts.
#[tokio::test]
async fn worker_process() {
    let Ok(path) = std::env::var(FILE) else { return };
    let store = Sqlite::open(Options::new(&path).unwrap()).await.unwrap();
    let lease = Lease::new(LEASE).unwrap();
    let witness = Path::new(&path).with_file_name(format!("{}.seen", std::process::id()));
    let mut witness = OpenOptions::new().create_new(true).append(true).open(witness).unwrap();
    // One write for all, so that what was seen outlives the process.
    let mut see = |seen: Vec<Seen>| {
        let text: String = seen.iter().map(Seen::line).collect();
        witness.write_all(text.as_bytes()).unwrap();
    };
    let start = Instant::now();
    while start.elapsed() < DEADLINE {
        store.sweep().await.unwrap();
        let wish = Reserve::new("default", ["n"], "p").unwrap().slots(16).lease(lease);
        let sent = now();
        let held = store.reserve(&wish).await.unwrap().deliveries;
        let when = (sent, now());
        see(held.iter().map(|held| Seen::new(&held.claim, false, when)).collect());
        if held.is_empty() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let settle = |claim| Settlement { claim, outcome: Outcome::Done };
        let settlements: Vec<_> = held.into_iter().map(|held| settle(held.claim)).collect();
        let sent = now();
        let settled = store.settle(&settlements).await.unwrap();
        let when = (sent, now());
        let done =
            settlements.iter().zip(settled).filter(|(_, told)| matches!(told, Settled::Applied(_)));
        see(done.map(|(settled, _)| Seen::new(&settled.claim, true, when)).collect());
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
    let seen = seen(directory.path());
    assert!(seen.iter().filter(|seen| seen.done).count() > JOBS / 2, "the witnesses saw it");
    assert_eq!(two_holders(&seen), [""; 0]);
    let left = sqlx::query("SELECT count(*) FROM jobs_live").fetch_one(&mut file).await.unwrap();
    assert_eq!(left.get::<i64, _>(0), 0, "each job is done once and nowhere else");
    let sound = sqlx::query("PRAGMA integrity_check").fetch_one(&mut file).await.unwrap();
    assert_eq!(sound.get::<String, _>(0), "ok");
}
