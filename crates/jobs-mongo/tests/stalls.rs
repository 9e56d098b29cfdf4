//! A server that is slow, answers late or loses its majority for a while, and runtimes that end.

use std::{
    process::ExitCode,
    sync::Arc,
    time::{Duration, Instant},
};

use futures::future::join_all;
use jobs_core::{
    Admin, ErrorKind, Queue,
    permit::Delete,
    queue::{Pushed, Reserve},
};
use jobs_mongo::{Mongo, Options};
use jobs_servers::PrivateMongo;
use jobs_testkit::{
    kit::{NAME, QUEUE, checked, job, permit, push, wants},
    proxy::Proxy,
};
use mongodb::{
    Client, Database,
    bson::{Bson, Document, doc},
};

mod common;

use common::run::{Test, all};

const TESTS: &[Test] = &[
    ("a_majority_that_is_late_is_no_lock", || Box::pin(late())),
    ("locked_jobs_hold_up_others_within_one_deadline", || Box::pin(locked())),
    ("a_delete_that_no_majority_has_is_no_delete", || Box::pin(unacknowledged())),
    ("a_lost_job_comes_into_no_batch_held_ahead", || Box::pin(suspect())),
    ("what_passes_is_tried_again", || Box::pin(passing())),
    ("eight_runtimes_keep_their_connections", || Box::pin(runtimes())),
    ("a_watch_outlives_the_runtime_of_another", || Box::pin(watched())),
];

fn main() -> ExitCode {
    let missing = PrivateMongo::find().is_none().then(|| "there is no mongod".to_owned());
    all(TESTS, missing)
}

struct Failing {
    url: String,
    database: Database,
    _server: PrivateMongo,
}

impl Failing {
    async fn start() -> Self {
        let server = PrivateMongo::start_with_failures().expect("it starts");
        let client = Client::with_uri_str(server.url()).await.expect("a client");
        let store = Mongo::connect(&server.url()).await.expect("the server answers");
        store.migrate().await.expect("it migrates");
        Self { url: server.url(), database: client.database("jobs"), _server: server }
    }

    async fn store(&self) -> Mongo {
        self.open(Options::new(&self.url).await.expect("a URL")).await
    }

    async fn open(&self, options: Options) -> Mongo {
        Mongo::open(options).await.expect("the server answers")
    }

    /// These commands fail so from now on, or so often.
    async fn fail(&self, mode: impl Into<Bson>, commands: &[&str], how: Document) {
        let mut data = doc! { "failCommands": commands, "appName": "jobs" };
        data.extend(how);
        let point = doc! { "configureFailPoint": "failCommand", "mode": mode.into(), "data": data };
        let admin = self.database.client().database("admin");
        admin.run_command(point).await.expect("it is set");
    }

    async fn mend(&self) {
        let point = doc! { "configureFailPoint": "failCommand", "mode": "off" };
        let admin = self.database.client().database("admin");
        admin.run_command(point).await.expect("it is off");
    }

    /// How many commands of this name the server had.
    async fn commands(&self, name: &str) -> i64 {
        let admin = self.database.client().database("admin");
        let status = admin.run_command(doc! { "serverStatus": 1 }).await.expect("it answers");
        let metrics = status.get_document("metrics").expect("metrics");
        let commands = metrics.get_document("commands").expect("commands");
        let of = commands.get_document(name).expect("the command");
        of.get_i64("total").expect("a number")
    }
}

/// The server's time limit is over while it waits for a majority: everything is stored, and nobody
/// knows for how long. That is not one job's trouble, so nobody's push is repeated one by one.
async fn late() {
    const PUSHERS: usize = 100;
    let server = Failing::start().await;
    let store = Arc::new(server.store().await);
    let concern = doc! { "code": 50, "codeName": "MaxTimeMSExpired", "errmsg": "late" };
    server.fail("alwaysOn", &["insert"], doc! { "writeConcernError": concern }).await;
    let before = server.commands("insert").await;
    let pushing: Vec<_> = (0..PUSHERS)
        .map(|_| {
            let store = store.clone();
            tokio::spawn(async move { store.enqueue(&[checked(job("acme"))]).await.remove(0) })
        })
        .collect();
    for push in pushing {
        let error = push.await.expect("no panic").expect_err("nothing is acknowledged");
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    }
    let sent = server.commands("insert").await - before;
    assert!(sent <= 20, "{sent} statements of {PUSHERS} pushes");
    server.mend().await;
}

/// Ten open transactions hold the ids of ten of forty pushes that share statements.
async fn locked() {
    const LOCKED: usize = 10;
    let server = Failing::start().await;
    let options = Options::new(&server.url).await.expect("a URL");
    let options = options.busy(Duration::from_millis(500)).deadline(Duration::from_secs(2));
    let store = server.open(options).await;
    let jobs: Vec<_> = (0..40).map(|_| checked(job("acme"))).collect();
    let mut session = server.database.client().start_session().await.expect("a session");
    session.start_transaction().await.expect("it begins");
    let held: Vec<_> = jobs.iter().skip(3).step_by(4).cloned().collect();
    assert_eq!(held.len(), LOCKED);
    let inside = store.push_in(&mut session, &held).await.expect("it answers");
    let began = Instant::now();
    // In their order: no locked one comes first.
    let pushing = jobs.iter().map(std::slice::from_ref).map(|job| store.enqueue(job));
    let mut stored = 0;
    for (at, mut pushed) in join_all(pushing).await.into_iter().enumerate() {
        match pushed.remove(0) {
            Ok(Pushed::Stored) => stored += 1,
            Err(error) if at % 4 == 3 => {
                assert!(error.is_transient(), "{error}");
            }
            // The statement's deadline passed before its turn came.
            Err(error) => assert_eq!(error.kind(), ErrorKind::Timeout, "{at}: {error}"),
            other => panic!("{at}: {other:?}"),
        }
    }
    // Two statements at once, and those who came meanwhile share two more.
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}, {stored} stored", began.elapsed());
    assert!(stored > 0, "those before the first locked one");
    drop(inside);
    session.abort_transaction().await.expect("it aborts");
    let all = store.enqueue(&jobs).await;
    assert!(all.iter().all(Result::is_ok), "{all:?}");
}

async fn unacknowledged() {
    let server = Failing::start().await;
    let store = server.store().await;
    let job = push(&store, job("acme")).await;
    let concern = doc! { "code": 64, "codeName": "WriteConcernFailed", "errmsg": "no majority" };
    let commands = ["findAndModify", "delete", "update"];
    server.fail("alwaysOn", &commands, doc! { "writeConcernError": concern }).await;
    let answer = store.delete(&permit::<Delete>("acme"), &[job.job_ref()]).await;
    let error = answer.expect_err("no majority has it");
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    server.mend().await;
}

/// Both are seen as fresh ones; before they are claimed one is taken, lost and back in line.
async fn suspect() {
    let server = Failing::start().await;
    let store = server.store().await;
    let first = push(&store, job("acme")).await;
    let second = push(&store, job("acme").max_attempts(1)).await;
    let slow = doc! { "blockConnection": true, "blockTimeMS": 1_500 };
    server.fail(doc! { "times": 1 }, &["update"], slow).await;
    let request = Reserve::new(QUEUE, [NAME], "test").expect("legal");
    let request = request.slots(0).ahead(8, [NAME]);
    let reserving = tokio::spawn({
        let store = store.clone();
        async move { store.reserve(&request).await }
    });
    tokio::time::sleep(Duration::from_millis(500)).await;
    let stored = server.database.collection::<Document>("jobs_jobs");
    let lost = doc! { "$set": {
        "suspect": true, "line": format!("r/{QUEUE}/{NAME}/1/acme/100"),
    } };
    let of = doc! { "_id": format!("{}/acme", second.id) };
    assert_eq!(stored.update_one(of, lost).await.expect("it answers").modified_count, 1);
    let reserved = reserving.await.expect("no panic").expect("it answers").deliveries;
    let ids: Vec<_> = reserved.iter().map(|held| held.job.id).collect();
    assert_eq!(ids, [first.id], "no slot is free, and the lost one waits for one");
    server.mend().await;
}

/// Snapshots that are gone, plans that were killed, a server that is too busy: soon they pass.
async fn passing() {
    let server = Failing::start().await;
    let store = server.store().await;
    for code in [246, 239, 262, 134, 175] {
        let failing = doc! { "errorCode": code };
        let commands = ["insert", "aggregate", "find", "update"];
        server.fail(doc! { "times": 2 }, &commands, failing).await;
        let answer = store.enqueue(&[checked(job("acme"))]).await.remove(0);
        assert_eq!(answer.expect("it passes"), Pushed::Stored, "{code}");
        server.fail(doc! { "times": 2 }, &commands, doc! { "errorCode": code }).await;
        let taken = store.reserve(&wants(9)).await.expect("it passes").deliveries;
        assert_eq!(taken.len(), 1, "{code}");
    }
    server.mend().await;
}

/// As many as a web server has, each with a thread of its own, in turn.
async fn runtimes() {
    let server = Failing::start().await;
    let proxy = Proxy::before(&server.url).expect("a proxy");
    let url = format!("mongodb://127.0.0.1:{}/?directConnection=true", proxy.address().port());
    let connections = tokio::task::spawn_blocking(move || {
        let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtimes: Vec<_> = (0..8).map(|_| runtime().expect("a runtime")).collect();
        let options = runtimes[0].block_on(Options::new(&url)).expect("a URL");
        let store = runtimes[0].block_on(Mongo::open(options)).expect("the server answers");
        let round = || {
            for runtime in &runtimes {
                let pushed = runtime.block_on(store.enqueue(&[checked(job("acme"))])).remove(0);
                assert_eq!(pushed.expect("it answers"), Pushed::Stored);
            }
        };
        // Whoever pushes sends a note about it as well, by a connection more.
        (0..4).for_each(|_| round());
        let before = proxy.seen().connections;
        (0..4).for_each(|_| round());
        proxy.seen().connections - before
    });
    let made = connections.await.expect("no panic");
    assert!(made <= 8, "{made} connections made by runtimes that had theirs");
}

/// Two workers of one process; the first one ends.
async fn watched() {
    let server = Failing::start().await;
    let store = server.store().await;
    let first = std::thread::spawn({
        let store = store.clone();
        move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let runtime = runtime.expect("a runtime");
            let own = runtime.block_on(store.open_own()).expect("a handle");
            let watch = runtime.block_on(own.watch(&[QUEUE.to_owned()])).expect("a watch");
            (runtime, watch)
        }
    });
    let (runtime, other) =
        tokio::task::spawn_blocking(|| first.join().expect("no panic")).await.expect("no panic");
    let own = store.open_own().await.expect("a handle");
    let mut watch = own.watch(&[QUEUE.to_owned()]).await.expect("a watch");
    tokio::task::spawn_blocking(move || {
        drop(runtime);
        drop(other);
    })
    .await
    .expect("no panic");
    // What is said while streams open and close is over.
    while tokio::time::timeout(Duration::from_millis(300), watch.woken()).await.is_ok() {}
    push(&server.store().await, job("acme")).await;
    let heard = tokio::time::timeout(Duration::from_secs(2), watch.woken()).await;
    heard.expect("another process's push is heard of");
}
