//! What callers get wrong is a typed answer before anything is touched.

use std::{future::Future, pin::Pin, process::ExitCode, time::Duration};

use jobs_core::{
    AuthorizedJob, ErrorKind, Job, Payload, Queue, authorized, grant_without_user, queue::Pushed,
};
use jobs_mongo::{Mongo, Options};
use jobs_testkit::{
    harness::REQUIRE,
    kit::{checked, job, take},
};
use libtest_mimic::{Arguments, Failed, Trial};
use mongodb::{
    Client,
    bson::{Document, doc},
};

mod common;

use common::{URL, variable};

type Test = (&'static str, fn() -> Pin<Box<dyn Future<Output = ()>>>);

const TESTS: &[Test] = &[
    ("urls_and_names_are_checked", || Box::pin(names())),
    ("nobody_there_is_unavailable_within_the_deadline", || Box::pin(nobody())),
    ("a_payload_beyond_a_document_is_refused", || Box::pin(large())),
    ("two_prefixes_are_two_stores", || Box::pin(prefixes())),
    ("a_borrowed_database_pushes_and_makes_no_worker", || Box::pin(borrowed())),
    ("a_session_without_a_transaction_stores_as_it_says", || Box::pin(aborted())),
    ("a_damaged_document_is_left_alone_and_told", || Box::pin(damaged())),
];

fn main() -> ExitCode {
    let missing = variable(URL).err();
    let required = std::env::var_os(REQUIRE).is_some();
    if let Some(why) = missing.as_ref().filter(|_| !required) {
        eprintln!("{} tests are skipped: {why}", TESTS.len());
    }
    let trials = TESTS.iter().map(|(name, test)| {
        let (missing, skip) = (missing.clone(), missing.is_some() && !required);
        let trial = Trial::test(*name, move || {
            if let Some(why) = missing {
                return Err(Failed::from(why));
            }
            let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
            runtime.map_err(|error| Failed::from(error.to_string()))?.block_on(test());
            Ok(())
        });
        trial.with_ignored_flag(skip)
    });
    libtest_mimic::run(&Arguments::from_args(), trials.collect()).exit_code()
}

fn url() -> String {
    variable(URL).expect("the runner asked for it")
}

fn unique(what: &str) -> String {
    format!("t_{what}_{}", std::process::id())
}

async fn options(database: &str) -> Options {
    Options::new(&url()).await.expect("a URL").database(database).expect("a name")
}

async fn store(options: Options) -> Mongo {
    let store = Mongo::open(options).await.expect("the server answers");
    store.migrate().await.expect("it migrates");
    store
}

async fn database(name: &str) -> mongodb::Database {
    Client::with_uri_str(url()).await.expect("a client").database(name)
}

async fn pushed(store: &Mongo, job: AuthorizedJob) -> jobs_core::Result<Pushed> {
    store.enqueue(&[job]).await.remove(0)
}

async fn names() {
    for bad in ["", "postgres://localhost", "mongodb://", "mongodb://a:b:c/", "nonsense"] {
        let refused = Options::new(bad).await.expect_err(bad);
        assert_eq!(refused.kind(), ErrorKind::Refused, "{bad}: {refused}");
        assert!(refused.to_string().contains("mongodb://"), "{refused}");
    }
    let good = || async { Options::new("mongodb://localhost/app").await.expect("a URL") };
    for bad in ["", "a b", "a.b", "a$", "a\0", &"a".repeat(64)] {
        let refused = good().await.database(bad).expect_err(bad);
        assert_eq!(refused.kind(), ErrorKind::Refused, "{bad:?}");
    }
    for bad in ["", "system.", ".a", "a b", "a$", "a\0", "ä", &"a".repeat(65)] {
        let refused = good().await.prefix(bad).expect_err(bad);
        assert_eq!(refused.kind(), ErrorKind::Refused, "{bad:?}");
    }
    assert!(good().await.prefix("app.jobs-").is_ok());
}

async fn nobody() {
    let options = Options::new("mongodb://127.0.0.1:9/?replicaSet=none").await.expect("a URL");
    let began = std::time::Instant::now();
    let failed = Mongo::open(options.deadline(Duration::from_millis(500))).await;
    let failed = failed.expect_err("nobody is there");
    assert!(failed.is_transient(), "{failed:?}");
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
}

async fn large() {
    let name = unique("large");
    let store = store(options(&name).await).await;
    let grant = grant_without_user("test", "jobs.push", "acme").expect("a grant");
    let grant = grant.with_payload_limit(64 * 1024 * 1024);
    let text = |bytes: usize| Payload::from_json(format!("\"{}\"", "x".repeat(bytes)));
    let of = |bytes: usize| {
        let mut job = Job::new(&grant, "a", &()).expect("a payload");
        job.payload = text(bytes).expect("JSON");
        authorized(&grant, job).expect("covered")
    };
    let refused = pushed(&store, of(17 * 1024 * 1024)).await.expect_err("too large");
    assert_eq!(refused.kind(), ErrorKind::Refused);
    assert!(refused.to_string().contains("push its id instead"), "{refused}");
    // Large ones are cut into statements that fit a message, and come back.
    let many: Vec<_> = (0..12).map(|_| of(5 * 1024 * 1024)).collect();
    let answers = store.enqueue(&many).await;
    assert!(answers.iter().all(|answer| matches!(answer, Ok(Pushed::Stored))), "{answers:?}");
    let request =
        jobs_core::queue::Reserve::new("default", ["a"], "test").expect("legal").slots(12);
    let taken = store.reserve(&request).await.expect("it answers").deliveries;
    assert_eq!(taken.len(), 12, "more than one message holds");
    database(&name).await.drop().await.expect("drops");
}

async fn prefixes() {
    let name = unique("prefixes");
    let one = store(options(&name).await.prefix("one.").expect("a prefix")).await;
    let two = store(options(&name).await.prefix("two-").expect("a prefix")).await;
    assert_eq!(pushed(&one, checked(job("acme"))).await.expect("it answers"), Pushed::Stored);
    assert!(take(&two, 9).await.is_empty(), "another store's");
    assert_eq!(take(&one, 9).await.len(), 1);
    database(&name).await.drop().await.expect("drops");
}

async fn borrowed() {
    let name = unique("borrowed");
    let application = database(&name).await;
    let store = store(Options::of_database(&application)).await;
    let mut session = application.client().start_session().await.expect("a session");
    session.start_transaction().await.expect("it begins");
    let orders = application.collection::<Document>("orders");
    orders.insert_one(doc! { "paid": true }).session(&mut session).await.expect("inserts");
    let job = checked(job("acme"));
    let inside = store.push_in(&mut session, std::slice::from_ref(&job)).await.expect("it answers");
    session.commit_transaction().await.expect("it commits");
    assert_eq!(inside.wake(), [Pushed::Stored]);
    assert_eq!(take(&store, 9).await.len(), 1);
    let refused = store.open_own().await.expect_err("bound to its runtime");
    assert_eq!(refused.kind(), ErrorKind::Refused);
    assert!(refused.to_string().contains("by a URL"), "{refused}");
    application.drop().await.expect("drops");
}

async fn aborted() {
    let name = unique("aborted");
    let store = store(options(&name).await).await;
    let client = database(&name).await.client().clone();
    let mut session = client.start_session().await.expect("a session");
    session.start_transaction().await.expect("it begins");
    let job = checked(job("acme").key("k"));
    let _ = store.push_in(&mut session, std::slice::from_ref(&job)).await.expect("it answers");
    session.abort_transaction().await.expect("it aborts");
    assert!(take(&store, 9).await.is_empty(), "nothing is left of it");
    assert_eq!(pushed(&store, job).await.expect("it answers"), Pushed::Stored, "nor of its key");
    database(&name).await.drop().await.expect("drops");
}

async fn damaged() {
    let name = unique("damaged");
    let store = store(options(&name).await).await;
    let [bad, good] = [checked(job("acme")), checked(job("acme"))];
    for job in [&bad, &good] {
        assert_eq!(pushed(&store, job.clone()).await.expect("it answers"), Pushed::Stored);
    }
    let jobs = database(&name).await.collection::<Document>("jobs_jobs");
    let filter = doc! { "_id": format!("{}/acme", bad.id) };
    let damage = doc! { "$set": { "payload": { "no": "text" } } };
    jobs.update_one(filter, damage).await.expect("it answers");
    let taken = take(&store, 9).await;
    assert_eq!(taken.iter().map(|held| held.job.id).collect::<Vec<_>>(), [good.id]);
    database(&name).await.drop().await.expect("drops");
}
