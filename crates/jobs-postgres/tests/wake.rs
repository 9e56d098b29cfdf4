//! Wake-ups behind a pooler: heard on a connection of its own past it, or else found by polling.

use std::{process::ExitCode, time::Duration};

use jobs_core::{Outcome, Queue, Settled, Settlement, State, wake::Watch};
use jobs_postgres::{Mode, Options, Postgres};
use jobs_testkit::{
    kit::{job, push, take},
    proxy::{self, Proxy},
};
use tokio::time::{Instant, sleep, timeout};

mod common;

use common::{POOLED_URL, Test, drop_schema, number, unique, url, variable, works};

const TESTS: &[Test] = tests![
    past_the_pooler,
    by_polling_only,
    while_it_still_connects,
    what_is_due_later_wakes_nobody
];

fn main() -> ExitCode {
    common::run(&[common::URL, POOLED_URL], TESTS)
}

fn pooled(schema: &str) -> Options {
    let options = Options::new(&variable(POOLED_URL).expect("the runner asked for it"));
    options.expect("a URL").mode(Mode::Pooled).schema(schema).expect("a name")
}

async fn open(options: Options) -> Postgres {
    let store = Postgres::open(options).await.expect("the server answers");
    store.migrate().await.expect("it migrates");
    store
}

async fn listeners(schema: &str) -> i64 {
    number(&format!("SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'LISTEN%{schema}%'"))
        .await
}

async fn past_the_pooler() {
    let schema = unique("past");
    let listens = open(pooled(&schema).listen_on(&url()).expect("a URL")).await;
    let other = open(pooled(&schema)).await;
    let mut watch = listens.watch(&["work".to_owned()]).await.expect("it watches");
    assert_eq!(listeners(&schema).await, 1);
    let pushed = push(&other, job("acme")).await;
    timeout(Duration::from_secs(10), watch.woken()).await.expect("it is told");
    assert_eq!(take(&listens, 1).await[0].job.id, pushed.id, "at once, after a wake-up");
    drop_schema(&schema).await;
}

async fn by_polling_only() {
    for options in [pooled, |schema: &str| pooled(schema).poll_only()] {
        let schema = unique("poll");
        let (polls, other) = (open(options(&schema)).await, open(pooled(&schema)).await);
        let watch = polls.watch(&["work".to_owned()]).await.expect("it watches");
        assert_eq!(listeners(&schema).await, 0, "nothing to hear it on");
        assert_eq!(take(&polls, 1).await.len(), 0, "it knows the queue");
        let pushed = push(&other, job("acme")).await;
        let since = Instant::now();
        let found = loop {
            if let Some(found) = take(&polls, 1).await.pop() {
                break found;
            }
            assert!(since.elapsed() < Duration::from_secs(10), "it is found by looking again");
            sleep(Duration::from_millis(20)).await;
        };
        assert_eq!(found.job.id, pushed.id);
        drop(watch);
        works(&other).await;
        drop_schema(&schema).await;
    }
}

/// The listener's way to the server is silent at first: whoever watches is answered, is woken by this
/// handle's pushes, and once it listens by others' too.
async fn while_it_still_connects() {
    let schema = unique("late");
    let proxy = Proxy::before(&url()).expect("a proxy");
    proxy.set(proxy::Mode::Silent);
    let options = common::options(&schema).listen_on(&proxy.url(&url())).expect("a URL");
    let (late, other) = (open(options).await, common::store(&schema).await);
    let since = Instant::now();
    let mut watch = late.watch(&["work".to_owned()]).await.expect("it watches");
    let took = since.elapsed();
    // A worker gives up after two seconds.
    assert!(took < Duration::from_millis(1900), "it was answered after {took:?}");
    push(&late, job("acme")).await;
    timeout(Duration::from_secs(5), watch.woken()).await.expect("its own push wakes it");
    let pushed = push(&other, job("acme")).await;
    assert!(timeout(Duration::from_millis(500), watch.woken()).await.is_err(), "it hears nothing");
    proxy.set(proxy::Mode::Pass);
    // Because something may have been said before it listened.
    timeout(Duration::from_secs(20), watch.woken()).await.expect("it listens now");
    let found = take(&late, 2).await;
    assert!(found.iter().any(|found| found.job.id == pushed.id), "at once, after a wake-up");
    push(&other, job("acme")).await;
    timeout(Duration::from_secs(10), watch.woken()).await.expect("it is told");
    drop_schema(&schema).await;
}

/// A retry, a snooze or a push that is due in a minute wakes nobody elsewhere; one that is due in seconds
/// does.
async fn what_is_due_later_wakes_nobody() {
    let schema = unique("later");
    let (says, hears) = (common::store(&schema).await, common::store(&schema).await);
    let watch = |queue: &str| vec![queue.to_owned()];
    let mut work = hears.watch(&watch("work")).await.expect("it watches");
    // What one handle says is heard in its order, so nothing is waited for that is not to come.
    let mut last = hears.watch(&watch("zzz")).await.expect("it watches");
    let woken =
        async |watch: &mut Watch| timeout(Duration::from_secs(10), watch.woken()).await.is_ok();
    for (what, after, wakes) in [
        ("retry", 60, false),
        ("retry", 4, true),
        ("snooze", 60, false),
        ("snooze", 4, true),
        ("push", 60, false),
        ("push", 4, true),
    ] {
        let delay = Duration::from_secs(after);
        if what == "push" {
            push(&says, job("acme").after(delay)).await;
        } else {
            push(&says, job("acme")).await;
            assert!(woken(&mut work).await, "the push is due now");
            let claim = take(&says, 1).await.remove(0).claim;
            let outcome = match what {
                "retry" => Outcome::Retry { after: delay, cause: "by design".into() },
                _ => Outcome::Snooze { after: delay },
            };
            let settled = says.settle(&[Settlement { claim, outcome }]).await;
            assert_eq!(settled.expect("it answers"), [Settled::Applied(State::Scheduled)]);
        }
        push(&says, job("acme").on("zzz")).await;
        assert!(woken(&mut last).await, "and so is this one");
        let told = timeout(Duration::ZERO, work.woken()).await.is_ok();
        assert_eq!(told, wakes, "{what} after {after} s");
    }
    drop_schema(&schema).await;
}
