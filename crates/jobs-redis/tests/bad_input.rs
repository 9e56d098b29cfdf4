//! What callers get wrong is a typed answer before anything is touched.

use std::{process::ExitCode, time::Duration};

use jobs_core::{
    AuthorizedJob, ErrorKind, Job, Payload, Queue, authorized, grant_without_user,
    queue::{Pushed, Reserve},
};
use jobs_redis::{Options, Redis};
use jobs_testkit::kit::{checked, job, take};

mod common;

use common::{
    URL,
    prefixes::{client, command, remove},
    runner::{Test, run},
    variable,
};

const TESTS: &[Test] = &[
    ("urls_and_prefixes_are_checked", || Box::pin(names())),
    ("nobody_there_is_unavailable_within_the_deadline", || Box::pin(nobody())),
    ("nothing_works_before_migrate", || Box::pin(unmigrated())),
    ("a_store_of_a_newer_release_is_refused", || Box::pin(newer())),
    ("large_payloads_are_cut_into_parts_and_come_back", || Box::pin(large())),
    ("two_prefixes_are_two_stores", || Box::pin(prefixes())),
    ("a_damaged_job_is_left_alone_and_told", || Box::pin(damaged())),
    ("a_key_of_somebody_elses_is_damage", || Box::pin(foreign())),
];

fn main() -> ExitCode {
    run(TESTS, variable(URL).err())
}

fn url() -> String {
    variable(URL).expect("the runner asked for it")
}

fn unique(what: &str) -> String {
    format!("t_{what}_{}", std::process::id())
}

fn options(prefix: &str) -> Options {
    Options::new(&url()).expect("a URL").prefix(prefix).expect("a prefix")
}

async fn store(prefix: &str) -> Redis {
    let store = Redis::open(options(prefix)).await.expect("the server answers");
    store.migrate().await.expect("it migrates");
    store
}

async fn pushed(store: &Redis, job: AuthorizedJob) -> jobs_core::Result<Pushed> {
    store.enqueue(&[job]).await.remove(0)
}

async fn forget(prefix: &str) {
    remove(&client(&url()).await, prefix).await;
}

async fn names() {
    for bad in ["", "postgres://localhost", "redis://", "nonsense"] {
        let refused = Options::new(bad).expect_err(bad);
        assert_eq!(refused.kind(), ErrorKind::Refused, "{bad}: {refused}");
        assert!(refused.to_string().contains("redis://"), "{refused}");
    }
    let good = || Options::new("redis://localhost").expect("a URL");
    for bad in ["", "a b", "a:b", "a{b", "a}b", "a/b", "a\0", "ä", &"a".repeat(65)] {
        let refused = good().prefix(bad).expect_err(bad);
        assert_eq!(refused.kind(), ErrorKind::Refused, "{bad:?}");
    }
    assert!(good().prefix("app.jobs-1_A").is_ok());
    for bad in [0, 65, u32::MAX] {
        assert_eq!(good().shards(bad).expect_err("none").kind(), ErrorKind::Refused, "{bad}");
    }
}

async fn nobody() {
    let options = Options::new("redis://127.0.0.1:9").expect("a URL");
    let began = std::time::Instant::now();
    let failed = Redis::open(options.deadline(Duration::from_millis(500))).await;
    let failed = failed.expect_err("nobody is there");
    assert!(failed.is_transient(), "{failed:?}");
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
}

async fn unmigrated() {
    let prefix = unique("unmigrated");
    let store = Redis::open(options(&prefix)).await.expect("the server answers");
    let refused = pushed(&store, checked(job("acme"))).await.expect_err("no store");
    assert_eq!(refused.kind(), ErrorKind::Schema);
    assert!(refused.to_string().contains("migrate()"), "{refused}");
    store.migrate().await.expect("it migrates");
    store.migrate().await.expect("again");
    assert_eq!(pushed(&store, checked(job("acme"))).await.expect("it answers"), Pushed::Stored);
    // Emptied beside it: a script says so, and makes no half of a store.
    forget(&prefix).await;
    let refused = pushed(&store, checked(job("acme"))).await.expect_err("no store");
    assert_eq!(refused.kind(), ErrorKind::Schema, "{refused}");
}

async fn newer() {
    let prefix = unique("newer");
    store(&prefix).await;
    let key = format!("{{{prefix}:0}}:meta");
    let client = client(&url()).await;
    for (version, opens) in [("2 1", true), ("3 1", false)] {
        command(&client, None, "SET", vec![key.as_str().into(), version.into()]).await;
        let opened = Redis::open(options(&prefix)).await;
        assert_eq!(opened.is_ok(), opens, "{version}");
        if let Err(refused) = opened {
            assert_eq!(refused.kind(), ErrorKind::Schema);
            assert!(refused.to_string().contains("upgrade the application"), "{refused}");
        }
    }
    forget(&prefix).await;
}

async fn large() {
    let prefix = unique("large");
    let store = store(&prefix).await;
    let grant = grant_without_user("test", "jobs.push", "acme").expect("a grant");
    let grant = grant.with_payload_limit(64 * 1024 * 1024);
    let of = |bytes: usize| {
        let mut job = Job::new(&grant, "a", &()).expect("a payload");
        job.payload = Payload::from_json(format!("\"{}\"", "x".repeat(bytes))).expect("JSON");
        authorized(&grant, job).expect("covered")
    };
    let many: Vec<_> = (0..6).map(|_| of(5 * 1024 * 1024)).collect();
    let answers = store.enqueue(&many).await;
    assert!(answers.iter().all(|answer| matches!(answer, Ok(Pushed::Stored))), "{answers:?}");
    let request = Reserve::new("default", ["a"], "test").expect("legal").slots(12);
    let taken = store.reserve(&request).await.expect("it answers").deliveries;
    assert_eq!(taken.len(), 6);
    assert!(taken.iter().zip(&many).all(|(held, pushed)| held.job.payload == pushed.payload));
    forget(&prefix).await;
}

async fn prefixes() {
    let names = [unique("one."), unique("one-")];
    let (one, two) = (store(&names[0]).await, store(&names[1]).await);
    assert_eq!(pushed(&one, checked(job("acme"))).await.expect("it answers"), Pushed::Stored);
    assert!(take(&two, 9).await.is_empty(), "another store's");
    assert_eq!(take(&one, 9).await.len(), 1);
    for name in names {
        forget(&name).await;
    }
}

async fn damaged() {
    let prefix = unique("damaged");
    let store = store(&prefix).await;
    let jobs = [checked(job("acme")), checked(job("acme")), checked(job("acme"))];
    for job in &jobs {
        assert_eq!(pushed(&store, job.clone()).await.expect("it answers"), Pushed::Stored);
    }
    let key =
        |kind: &str, at: usize| format!("{{{prefix}:0}}:{kind}/acme/{}", jobs[at].id.0.simple());
    let client = client(&url()).await;
    command(&client, None, "SET", vec![key("b", 0).into(), "no body".into()]).await;
    // As if its hash had been deleted by hand: its id is in sets still.
    command(&client, None, "DEL", vec![key("j", 1).into()]).await;
    let taken = take(&store, 9).await;
    assert_eq!(taken.iter().map(|held| held.job.id).collect::<Vec<_>>(), [jobs[2].id]);
    assert!(take(&store, 9).await.is_empty(), "and what is not there is not met again");
    forget(&prefix).await;
}

async fn foreign() {
    let prefix = unique("foreign");
    let store = store(&prefix).await;
    let pushed_first = checked(job("acme"));
    let key = format!("{{{prefix}:0}}:j/acme/{}", pushed_first.id.0.simple());
    let client = client(&url()).await;
    command(&client, None, "SET", vec![key.into(), "a text".into()]).await;
    let refused = pushed(&store, pushed_first).await.expect_err("no hash");
    assert_eq!(refused.kind(), ErrorKind::Corrupt, "{refused}");
    assert_eq!(pushed(&store, checked(job("acme"))).await.expect("it answers"), Pushed::Stored);
    assert_eq!(take(&store, 9).await.len(), 1);
    forget(&prefix).await;
}
