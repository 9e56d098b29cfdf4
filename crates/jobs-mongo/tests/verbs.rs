//! Verbs that meet work on its way, lost replies and other tenants' crowds.

use std::{process::ExitCode, sync::Arc, time::Duration};

use jobs_core::{
    Admin, Outcome, Queue, Settlement, State,
    admin::{Cancelled, Deleted},
    permit::{Cancel, Delete, Read},
    queue::Pushed,
    retention::Retention,
    view::{Lanes, List},
};
use jobs_mongo::Options;
use jobs_testkit::{
    kit::{QUEUE, checked, job, permit, push, take, wants},
    proxy::Proxy,
};
use mongodb::bson::{DateTime, Document, doc};

mod common;

use common::{
    URL,
    run::{Own, Test, all, url},
    variable,
};

const TESTS: &[Test] = &[
    ("a_cancel_that_was_requested_reaches_a_job_on_its_way", || Box::pin(requested())),
    ("a_delete_whose_reply_is_lost_knows_its_work", || Box::pin(deleted())),
    ("others_ready_jobs_hide_none_of_a_tenants_list", || Box::pin(hidden())),
    ("a_tenant_is_counted_beyond_what_one_reply_holds", || Box::pin(counted())),
    ("a_transaction_repeats_three_thousand_pushes", || Box::pin(repeated())),
    ("what_is_removed_is_one_document_a_minute_and_lane", || Box::pin(minutes())),
    ("a_busy_queue_keeps_no_others_history_from_going", || Box::pin(pruned())),
    ("a_dropped_index_is_made_again_by_migrate", || Box::pin(index())),
];

fn main() -> ExitCode {
    all(TESTS, variable(URL).err())
}

/// While jobs are taken and given back all the time.
async fn requested() {
    const JOBS: usize = 1_500;
    let own = Own::new("requested").await;
    let store = Arc::new(own.store().await);
    let jobs: Vec<_> = (0..JOBS).map(|_| checked(job("acme"))).collect();
    assert!(store.enqueue(&jobs).await.iter().all(Result::is_ok));
    let moving = tokio::spawn({
        let store = store.clone();
        async move {
            loop {
                let held = store.reserve(&wants(100)).await.expect("it answers").deliveries;
                let back = |held: jobs_core::queue::Delivery| Settlement {
                    claim: held.claim,
                    outcome: Outcome::Release,
                };
                let batch: Vec<_> = held.into_iter().map(back).collect();
                store.settle(&batch).await.expect("it answers");
                if batch.is_empty() {
                    return;
                }
            }
        }
    });
    let refs: Vec<_> = jobs.iter().map(|job| job.job_ref()).collect();
    let mut asked = Vec::new();
    for part in refs.chunks(50) {
        let answers = store.cancel(&permit::<Cancel>("acme"), part).await.expect("it answers");
        for (job, answer) in part.iter().zip(answers) {
            assert!(matches!(answer, Cancelled::Cancelled | Cancelled::Requested), "{answer:?}");
            asked.push(job.clone());
        }
    }
    // Each is cancelled at once or when it is given back: so all ends.
    let ended = tokio::time::timeout(Duration::from_secs(20), moving).await;
    let stored = own.database.collection::<Document>("jobs_jobs");
    let left = stored.count_documents(doc! { "state": { "$ne": State::Cancelled as i32 } }).await;
    assert_eq!(left.expect("it answers"), 0, "of {} all were asked to end", asked.len());
    ended.expect("it ends").expect("no panic");
    own.drop().await;
}

/// The connection breaks in earnest after each of its round trips.
async fn deleted() {
    let own = Own::new("deleted").await;
    let first = own.store().await;
    let proxy = Proxy::before(&url()).expect("a proxy");
    let through = format!("mongodb://127.0.0.1:{}/?directConnection=true", proxy.address().port());
    let options = Options::new(&through).await.expect("a URL");
    let options = options.database(&own.name).expect("a name");
    let store = own.open(options).await;
    for round_trip in 1..8 {
        let job = push(&first, job("acme")).await;
        proxy.cut_after(round_trip);
        let answer = store.delete(&permit::<Delete>("acme"), &[job.job_ref()]).await;
        assert_eq!(answer.expect("it answers"), [Deleted::Deleted], "cut at {round_trip}");
        proxy.disarm();
        let again = store.delete(&permit::<Delete>("acme"), &[job.job_ref()]).await;
        assert_eq!(again.expect("it answers"), [Deleted::Unknown]);
    }
    own.drop().await;
}

async fn hidden() {
    let own = Own::new("hidden").await;
    let store = own.store().await;
    let old: Vec<_> = (0..3).map(|_| checked(job("acme"))).collect();
    assert!(store.enqueue(&old).await.iter().all(Result::is_ok));
    let more = (0..1_100).map(|_| checked(job("acme").on("ended")));
    let more = more.chain((0..1_100).map(|_| checked(job("other"))));
    assert!(store.enqueue(&more.collect::<Vec<_>>()).await.iter().all(Result::is_ok));
    let stored = own.database.collection::<Document>("jobs_jobs");
    let done = doc! {
        "$set": { "state": 4, "ended_at": DateTime::now() }, "$unset": { "line": "" },
    };
    stored.update_many(doc! { "queue": "ended" }, done).await.expect("it answers");
    let list = List { state: Some(State::Ready), ..List::default() };
    let page = store.list(&permit::<Read>("acme"), &list).await.expect("it answers");
    let mut found: Vec<_> = page.jobs.iter().map(|view| view.job.id).collect();
    found.reverse();
    assert_eq!(found, old.iter().map(|job| job.id).collect::<Vec<_>>());
    assert!(page.complete);
    own.drop().await;
}

/// One reply has 16 MiB: lines of 131 bytes each, of other tenants, come before this one's.
async fn counted() {
    const OTHERS: usize = 130_000;
    let own = Own::new("counted").await;
    let store = own.store().await;
    push(&store, job("zzz")).await;
    let stored = own.database.collection::<Document>("jobs_jobs");
    let (long, due) = ("n".repeat(64), DateTime::from_millis(0));
    let mut documents = Vec::new();
    for at in 0..OTHERS {
        let tenant = format!("{at:064}");
        let line = format!("r/{QUEUE}/{long}/0/{tenant}/100");
        documents.push(doc! { "_id": format!("{at}/{tenant}"), "line": line, "run_at": due });
        if documents.len() == 10_000 {
            let all = std::mem::take(&mut documents);
            stored.insert_many(all).await.expect("stores");
        }
    }
    let counts = store.counts(&permit::<Read>("zzz"), &Lanes::default()).await;
    let counts = counts.expect("it answers");
    assert_eq!(counts.lanes.iter().map(|lane| lane.waiting.number).sum::<u64>(), 1);
    own.drop().await;
}

async fn repeated() {
    let own = Own::new("repeated").await;
    let store = own.store().await;
    let jobs: Vec<_> = (0..3_000).map(|_| checked(job("acme"))).collect();
    let client = own.database.client().clone();
    let mut session = client.start_session().await.expect("a session");
    for (round, expected) in [Pushed::Stored, Pushed::Duplicate(State::Ready)].iter().enumerate() {
        session.start_transaction().await.expect("it begins");
        let inside = store.push_in(&mut session, &jobs).await.expect("it answers");
        session.commit_transaction().await.expect("it commits");
        let pushed = inside.wake();
        assert_eq!(pushed.len(), 3_000);
        assert!(pushed.iter().all(|pushed| pushed == expected), "round {round}");
    }
    own.drop().await;
}

fn none() -> Retention {
    Retention { done: Duration::ZERO, done_per_queue: 0, cancelled: Duration::ZERO }
}

async fn minutes() {
    let own = Own::new("minutes").await;
    let stores = [
        Arc::new(own.open(own.options().await.retention(none())).await),
        Arc::new(own.open(own.options().await.retention(none())).await),
    ];
    let jobs: Vec<_> = (0..2_000).map(|at| checked(job(&format!("t{}", at % 4)))).collect();
    assert!(stores[0].enqueue(&jobs).await.iter().all(Result::is_ok));
    loop {
        let held = take(&*stores[0], 500).await;
        let done = |held: jobs_core::queue::Delivery| Settlement {
            claim: held.claim,
            outcome: Outcome::Done,
        };
        let batch: Vec<_> = held.into_iter().map(done).collect();
        if batch.is_empty() {
            break;
        }
        stores[0].settle(&batch).await.expect("it answers");
    }
    // Four minutes ago, in one minute: what leaves history now is removed at once.
    let stored = own.database.collection::<Document>("jobs_jobs");
    let minute =
        DateTime::from_millis(DateTime::now().timestamp_millis() / 60_000 * 60_000 - 240_000);
    let ended = doc! { "$set": { "ended_at": minute } };
    stored.update_many(doc! {}, ended).await.expect("it answers");
    // Two sweepers at once, as two workers' timers go.
    let sweeping = stores.clone().map(|store| {
        tokio::spawn(async move {
            for _ in 0..12 {
                store.sweep().await.expect("it answers");
            }
        })
    });
    for sweeping in sweeping {
        sweeping.await.expect("no panic");
    }
    let left = stored.count_documents(doc! { "stub": { "$exists": false } }).await;
    assert_eq!(left.expect("it answers"), 0, "nothing is kept");
    let counts = own.database.collection::<Document>("jobs_minutes");
    let counts = counts.count_documents(doc! {}).await.expect("it answers");
    assert!(counts <= 4, "{counts} documents of four lanes in one minute");
    let counts = stores[0].counts(&permit::<Read>("t0"), &Lanes::default()).await;
    let finished: u64 = counts.expect("it answers").minutes.iter().map(|at| at.finished).sum();
    assert_eq!(finished, 500, "each once");
    own.drop().await;
}

async fn pruned() {
    let own = Own::new("pruned").await;
    let store = own.open(own.options().await.retention(none())).await;
    let stored = own.database.collection::<Document>("jobs_jobs");
    let history = |queue: &str, count: usize| {
        let of = |at: usize| {
            doc! { "_id": format!("{queue}{at}/t"), "tenant": "t", "queue": queue, "state": 4,
            "ended_at": DateTime::from_millis(0) }
        };
        (0..count).map(of).collect::<Vec<_>>()
    };
    stored.insert_many(history("a", 3_000)).await.expect("stores");
    stored.insert_many(history("b", 10)).await.expect("stores");
    for _ in 0..3 {
        store.sweep().await.expect("it answers");
        // It ends faster than one sweep removes.
        let again = doc! { "$set": { "ended_at": DateTime::from_millis(0), "state": 4 } };
        stored.update_many(doc! { "queue": "a" }, again).await.expect("it answers");
    }
    let left = stored.count_documents(doc! { "queue": "b", "stub": { "$exists": false } }).await;
    assert_eq!(left.expect("it answers"), 0, "after three sweeps");
    own.drop().await;
}

async fn index() {
    let own = Own::new("index").await;
    let store = own.store().await;
    let stored = own.database.collection::<Document>("jobs_jobs");
    stored.drop_index("held").await.expect("drops");
    let health = store.check(&permit::<Read>("acme")).await.expect("it answers");
    assert!(health.findings.iter().any(|said| said.contains("held")), "{:?}", health.findings);
    store.migrate().await.expect("it migrates");
    let health = store.check(&permit::<Read>("acme")).await.expect("it answers");
    assert!(health.findings.is_empty(), "{:?}", health.findings);
    own.drop().await;
}
