//! Somebody else holds the write lock.

use std::{
    future::poll_fn,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    task::Poll,
    time::{Duration, Instant},
};

use jobs_core::{
    ErrorKind, Job, Queue, authorized,
    grant::grant_without_user,
    queue::{Lease, Pushed, Renewed, Reserve},
};
use jobs_sqlite::{Options, Sqlite};
use sqlx::{ConnectOptions, Row, SqliteConnection, query, sqlite::SqliteConnectOptions};

struct Shared {
    _directory: tempfile::TempDir,
    options: Options,
    other: SqliteConnection,
}

async fn shared() -> Shared {
    let directory = tempfile::tempdir().expect("it works");
    let path = directory.path().join("jobs.db");
    let options = Options::new(&path.display().to_string()).expect("it works");
    Sqlite::open(options.clone()).await.expect("it works");
    let other = SqliteConnectOptions::new().filename(&path).connect().await.expect("it works");
    Shared { _directory: directory, options, other }
}

fn jobs(count: usize) -> Vec<jobs_core::AuthorizedJob> {
    let grant = grant_without_user("suite", "work.do", "acme").expect("it works");
    let job =
        |_| authorized(&grant, Job::new(&grant, "n", &1).expect("it works")).expect("it works");
    (0..count).map(job).collect()
}

fn wish() -> Reserve {
    Reserve::new("default", ["n"], "w").expect("it works").slots(10)
}

async fn number(conn: &mut SqliteConnection, sql: &'static str) -> i64 {
    query(sql).fetch_one(conn).await.expect("it works").get(0)
}

#[tokio::test]
async fn a_dropped_reserve_takes_nothing() {
    let mut shared = shared().await;
    let store = Sqlite::open(shared.options.clone()).await.unwrap();
    for pushed in store.enqueue(&jobs(5)).await {
        assert_eq!(pushed.unwrap(), jobs_core::queue::Pushed::Stored);
    }
    query("BEGIN IMMEDIATE").execute(&mut shared.other).await.unwrap();
    let wish = wish();
    let dropped = tokio::time::timeout(Duration::from_millis(200), store.reserve(&wish)).await;
    assert!(dropped.is_err(), "it waits for the lock");
    query("ROLLBACK").execute(&mut shared.other).await.unwrap();
    let held = store.reserve(&self::wish()).await.unwrap().deliveries;
    assert_eq!(held.len(), 5, "the dropped reserve took jobs for nobody");
}

#[tokio::test]
async fn patience_counts_from_the_call() {
    let mut shared = shared().await;
    let options = shared.options.clone().busy(Duration::from_secs(5));
    let store = Sqlite::open(options).await.unwrap();
    query("BEGIN IMMEDIATE").execute(&mut shared.other).await.unwrap();
    let begun = Instant::now();
    let wish = wish();
    let reserve = async { (store.reserve(&wish).await.unwrap_err().kind(), begun.elapsed()) };
    let push = |after| {
        let store = &store;
        async move {
            tokio::time::sleep(Duration::from_millis(after)).await;
            let since = Instant::now();
            let error = store.enqueue(&jobs(1)).await.remove(0).unwrap_err();
            (error.kind(), since.elapsed())
        }
    };
    let (reserve, first, second) = tokio::join!(reserve, push(500), push(1500));
    for (kind, waited) in [first, second] {
        assert_eq!(kind, ErrorKind::Busy);
        let waited = waited.as_secs_f64();
        assert!((1.9..2.5).contains(&waited), "a push waited for {waited} s");
    }
    assert_eq!(reserve.0, ErrorKind::Busy);
    assert!(reserve.1.as_secs_f64() < 5.5, "a reserve waited for {:?}", reserve.1);
}

#[tokio::test]
async fn the_deadline_counts_from_the_call() {
    let mut shared = shared().await;
    let options = shared.options.clone().deadline(Duration::from_millis(700));
    let store = Sqlite::open(options).await.unwrap();
    query("BEGIN IMMEDIATE").execute(&mut shared.other).await.unwrap();
    let call = |after| {
        let store = &store;
        async move {
            tokio::time::sleep(Duration::from_millis(after)).await;
            let since = Instant::now();
            (store.sweep().await.unwrap_err().kind(), since.elapsed().as_secs_f64())
        }
    };
    let (first, second) = tokio::join!(call(0), call(400));
    for (kind, waited) in [first, second] {
        assert_eq!(kind, ErrorKind::Timeout);
        assert!((0.65..1.0).contains(&waited), "it took {waited} s");
    }
}

#[tokio::test]
async fn a_push_inside_a_transaction_is_all_or_nothing() {
    let mut shared = shared().await;
    let store = Sqlite::open(shared.options.clone()).await.unwrap();
    let broken = "CREATE TRIGGER broken BEFORE INSERT ON jobs_ready BEGIN SELECT RAISE(FAIL, 'x'); \
                  END";
    query(broken).execute(&mut shared.other).await.unwrap();
    query("BEGIN IMMEDIATE").execute(&mut shared.other).await.unwrap();
    let jobs = jobs(3);
    store.push_in(&mut shared.other, &jobs).await.unwrap_err();
    query("COMMIT").execute(&mut shared.other).await.unwrap();
    assert_eq!(number(&mut shared.other, "SELECT count(*) FROM jobs_body").await, 0);
    query("DROP TRIGGER broken").execute(&mut shared.other).await.unwrap();
    for pushed in store.enqueue(&jobs).await {
        assert_eq!(pushed.unwrap(), jobs_core::queue::Pushed::Stored);
    }
}

#[tokio::test]
async fn a_clock_that_was_ahead_goes_on() {
    let mut shared = shared().await;
    let store = Sqlite::open(shared.options.clone()).await.unwrap();
    let ahead = jobs_core::Timestamp::now().as_millisecond() + 3_600_000;
    query("UPDATE jobs_meta SET clock = ?1").bind(ahead).execute(&mut shared.other).await.unwrap();
    store.sweep().await.unwrap();
    let before = number(&mut shared.other, "SELECT clock FROM jobs_meta").await;
    assert!(store.enqueue(&jobs(1)).await.remove(0).is_ok());
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(store.enqueue(&jobs(1)).await.remove(0).is_ok());
    let after = number(&mut shared.other, "SELECT clock FROM jobs_meta").await;
    assert!(after >= before.max(ahead) + 300, "{before} to {after}: time stood still");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_does_not_wait_behind_pushes() {
    let mut shared = shared().await;
    let store = Sqlite::open(shared.options.clone()).await.unwrap();
    assert_eq!(store.enqueue(&jobs(1)).await.remove(0).unwrap(), Pushed::Stored);
    let own = store.open_own().await.unwrap();
    let held = own.reserve(&wish()).await.unwrap().deliveries;
    let claims: Vec<_> = held.into_iter().map(|held| held.claim).collect();
    let (asked, done) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let lists: Vec<_> = (0..60).map(|_| jobs(1000)).collect();
    let push = |jobs: Vec<_>| {
        let (store, asked, done) = (store.clone(), asked.clone(), done.clone());
        tokio::spawn(async move {
            let mut push = store.enqueue(&jobs);
            // The first poll puts it into the line.
            let first =
                poll_fn(|context| Poll::Ready(push.as_mut().poll(context).is_ready())).await;
            assert!(!first, "nobody can write yet");
            asked.fetch_add(1, Relaxed);
            let stored = push.await.into_iter().all(|pushed| pushed.is_ok());
            done.fetch_add(1, Relaxed);
            stored
        })
    };
    query("BEGIN IMMEDIATE").execute(&mut shared.other).await.unwrap();
    let pushes: Vec<_> = lists.into_iter().map(push).collect();
    while asked.load(Relaxed) < 60 {
        tokio::task::yield_now().await;
    }
    let lease = Lease::new(Duration::from_secs(20)).unwrap();
    let mut renewal = Box::pin(own.renew(lease, &claims));
    assert!(!polled(&mut renewal, 1).await, "nobody can write yet");
    query("ROLLBACK").execute(&mut shared.other).await.unwrap();
    assert_eq!(renewal.await.unwrap(), [Renewed::Held]);
    let before = done.load(Relaxed);
    assert!(before < 30, "{before} of 60 pushes were done before the renewal");
    for push in pushes {
        assert!(push.await.unwrap());
    }
}

/// Polls a few times. Did it end?
async fn polled(work: &mut (impl Future + Unpin), times: usize) -> bool {
    for _ in 0..times {
        if poll_fn(|context| Poll::Ready(Pin::new(&mut *work).poll(context).is_ready())).await {
            return true;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    false
}

#[tokio::test]
async fn a_push_dropped_inside_a_transaction_is_whole_or_pushed_again() {
    let mut shared = shared().await;
    let store = Sqlite::open(shared.options.clone()).await.unwrap();
    let grant = grant_without_user("suite", "work.do", "acme").unwrap();
    // A name of its own each time, so that its line is in nobody's ring yet.
    let keyed = |key: &str| {
        let job = Job::new(&grant, key, &1).unwrap().key(key);
        authorized(&grant, job).unwrap()
    };
    let mut ended = false;
    for times in 0.. {
        let key = format!("k{times}");
        let job = [keyed(&key)];
        query("BEGIN IMMEDIATE").execute(&mut shared.other).await.unwrap();
        ended = polled(&mut Box::pin(store.push_in(&mut shared.other, &job)), times).await;
        query("COMMIT").execute(&mut shared.other).await.unwrap();
        let again = store.enqueue(&job).await.remove(0).unwrap();
        let wish = Reserve::new("default", [key.as_str()], "w").unwrap();
        let held = store.reserve(&wish).await.unwrap().deliveries;
        assert_eq!(held.len(), 1, "dropped after {times} polls, then {again:?}");
        assert_eq!(held[0].claim.job.id, job[0].id);
        let other = store.enqueue(&[keyed(&key)]).await.remove(0).unwrap();
        assert!(matches!(other, Pushed::KeyHeld(..)), "after {times} polls: {other:?}");
        if ended {
            break;
        }
        assert!(times < 500, "it never ends");
    }
    assert!(ended);
}
