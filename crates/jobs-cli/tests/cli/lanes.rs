//! `pause`, `resume`, `stats`, `workers` and `migrate`.

use jobs_core::{Admin, QueueExt, queue::Worker};
use jobs_testkit::kit;
use serde_json::json;

use crate::{
    app::WITHOUT,
    place::{Kind, Place, fields, is_time, parked, push, take},
};

pub const TESTS: &[crate::Test] = &[
    ("pause_and_resume_of_a_lane", crate::ALL, |p| Box::pin(pause_and_resume_of_a_lane(p))),
    ("pause_and_resume_of_a_queue", crate::ALL, |p| Box::pin(pause_and_resume_of_a_queue(p))),
    ("what_another_pause_holds_is_told", crate::ALL, |p| {
        Box::pin(what_another_pause_holds_is_told(p))
    }),
    ("stats_count_by_lane", crate::ALL, |p| Box::pin(stats_count_by_lane(p))),
    ("workers_are_listed", crate::ALL, |p| Box::pin(workers_are_listed(p))),
    ("migrate_needs_no_grant", crate::ALL, |p| Box::pin(migrate_needs_no_grant(p))),
    ("migrate_makes_the_schema", &[Kind::Postgres], |p| Box::pin(migrate_makes_the_schema(p))),
];

/// Is anything taken from the lane?
async fn delivers(store: &dyn Admin, tenant: &str) -> bool {
    let job = push(store, tenant).await;
    let taken = kit::take(store, 100).await;
    let found = taken.iter().any(|delivery| delivery.job.id == job.id);
    for delivery in taken {
        store.ack(&delivery.claim).await.expect("it settles");
    }
    found
}

async fn pause_and_resume_of_a_lane(place: &Place) {
    let store = place.store().await;
    let paused = place.run("jobs pause work --tenant acme");
    paused.says(0, &["Paused queue work of tenant acme until it is resumed."]);
    assert!(!delivers(&*store, "acme").await && delivers(&*store, "globex").await);
    let stats = place.json("jobs stats --tenant acme");
    assert_eq!(
        (&stats["lanes"][0]["paused"], &stats["lanes"][0]["changed"]["by"]),
        (&json!(true), &json!("ada"))
    );
    let resumed = place.run("jobs resume work --tenant acme");
    assert_eq!(resumed.says(0, &["Resumed queue work of tenant acme."]).err, "");
    assert!(delivers(&*store, "acme").await);
    // An operator reaches one tenant's lane as well.
    place.run("jobs pause work --operator --tenant acme").says(0, &["of tenant acme until"]);
    assert!(!delivers(&*store, "acme").await && delivers(&*store, "globex").await);
    let bob = place.run_with("JOBS_CLI_TEST_USER", "bob", "jobs resume work --tenant acme");
    bob.says(2, &["refused: bob may not jobs.tune in acme"]);
    place.run("jobs pause work --tenant acme --for never").says(2, &["write 30s, 10m or 1h30m"]);
    place.run("jobs pause WORK --tenant acme").says(2, &["a name is [a-z0-9]"]);
}

async fn pause_and_resume_of_a_queue(place: &Place) {
    let store = place.store().await;
    let tuned = place.json("jobs pause work --operator --for 10m");
    assert_eq!(fields(&tuned), ["for_seconds", "queue", "still_paused", "tenant", "verb"]);
    let same = json!({
        "verb": "pause", "queue": "work", "tenant": null, "for_seconds": 600.0, "still_paused": [],
    });
    assert_eq!(tuned, same);
    // Also for tenants that come later.
    assert!(!delivers(&*store, "acme").await && !delivers(&*store, "globex").await);
    let stats = place.json("jobs stats --operator");
    for lane in stats["lanes"].as_array().expect("lanes") {
        is_time(&lane["paused_until"]);
    }
    place.run("jobs stats --operator").says(0, &["until 20", "(in 9m 5"]);
    place.run("jobs resume work --operator").says(0, &["Resumed queue work of every tenant."]);
    assert!(delivers(&*store, "acme").await && delivers(&*store, "globex").await);
}

async fn what_another_pause_holds_is_told(place: &Place) {
    let store = place.store().await;
    push(&*store, "acme").await;
    place.run("jobs pause work --operator").says(0, &[]);
    place.run("jobs pause work --tenant acme").says(0, &[]);
    let own = place.run("jobs resume work --tenant acme");
    own.says(0, &["The queue work itself is still paused until it is resumed: an operator"]);
    place.run("jobs pause work --tenant acme").says(0, &[]);
    let queue = place.run("jobs resume work --operator");
    queue.says(0, &["1 lane is still paused by itself, first that of tenant acme"]);
    let tuned = place.json("jobs resume work --operator");
    assert_eq!(tuned["still_paused"], json!([{"tenant": "acme", "until": null}]));
}

async fn stats_count_by_lane(place: &Place) {
    let store = place.store().await;
    let none = place.run("jobs stats --tenant acme");
    none.says(0, &["There are no live jobs in tenant acme.", "In the last hour 0 jobs done"]);
    parked(&*store, "acme", "why").await;
    let done = push(&*store, "acme").await;
    store.ack(&take(&*store, &done).await.claim).await.expect("it settles");
    let running = push(&*store, "acme").await;
    take(&*store, &running).await;
    push(&*store, "acme").await;
    let later = kit::job("acme").after(std::time::Duration::from_secs(3600));
    kit::push(&*store, later).await;
    kit::push(&*store, kit::job("globex").on("other")).await;
    let stats = place.json("jobs stats --tenant acme");
    assert_eq!(fields(&stats), ["complete", "lanes", "minutes"]);
    let lane = &stats["lanes"][0];
    assert_eq!(stats["lanes"].as_array().map(Vec::len), Some(1), "no other tenant's: {stats}");
    assert_eq!(
        fields(lane),
        [
            "changed",
            "oldest_seconds",
            "parked",
            "paused",
            "paused_until",
            "queue",
            "running",
            "scheduled",
            "tenant",
            "waiting",
            "weight"
        ]
    );
    for state in ["waiting", "running", "scheduled", "parked"] {
        assert_eq!(lane[state], json!({"number": 1, "or_more": false}), "{state}: {lane}");
    }
    assert!(lane["oldest_seconds"].as_f64().expect("seconds") > 0.0);
    let minute = &stats["minutes"][0];
    assert_eq!(fields(minute), ["at", "failed", "finished", "queue", "tenant"]);
    is_time(&minute["at"]);
    let sum = |field: &str| -> u64 {
        let minutes = stats["minutes"].as_array().expect("minutes").iter();
        minutes.map(|minute| minute[field].as_u64().expect("a number")).sum()
    };
    assert_eq!((sum("finished"), sum("failed")), (1, 1));
    let words = place.run("jobs stats --tenant acme");
    words.says(0, &["WAITING", "OLDEST", "In the last hour 1 job done, and 1 attempt failed."]);
    words.hides(&["globex"]);
    let other = place.run("jobs stats --operator --queue other");
    other.says(0, &["globex"]).hides(&["acme"]);
}

/// As a worker says it.
pub async fn announce(store: &dyn Admin, names: &[&str], busy: u32, stuck: u32) {
    let worker = Worker {
        id: uuid::Uuid::new_v4(),
        label: "here".into(),
        queues: vec![kit::QUEUE.into()],
        names: names.iter().map(|name| (*name).to_owned()).collect(),
        slots: 4,
        busy,
        stuck,
        leaving: false,
    };
    store.announce(&worker).await.expect("the store answers");
}

async fn workers_are_listed(place: &Place) {
    let store = place.store().await;
    place.run("jobs workers --operator").says(0, &["No worker is alive."]);
    announce(&*store, &["mail.send", "noop"], 3, 1).await;
    place.run("jobs workers --operator").says(0, &["here", "mail.send,noop", "3 of 4", "ago)"]);
    place.run("jobs workers --tenant acme").says(0, &["mail.send,noop"]).hides(&["here"]);
    let workers = place.json("jobs workers --operator");
    assert_eq!(fields(&workers), ["now", "workers"]);
    let worker = &workers["workers"][0];
    assert_eq!(
        fields(worker),
        ["busy", "id", "label", "names", "queues", "seen", "since", "slots", "stuck"]
    );
    is_time(&worker["seen"]);
    assert_eq!((&worker["slots"], &worker["stuck"]), (&json!(4), &json!(1)));
}

async fn migrate_needs_no_grant(place: &Place) {
    place.run_with(WITHOUT, "grants", "jobs migrate").says(0, &["The store is migrated."]);
    assert_eq!(place.json("jobs migrate"), json!({"migrated": true}));
    let without = place.run_with(WITHOUT, "migrate", "jobs migrate");
    without.says(
        2,
        &[
            "does not say how its store is migrated",
            ".migrate(async |store",
            ".migrated_by_opening()",
        ],
    );
}

async fn migrate_makes_the_schema(place: &Place) {
    place.run("jobs list --tenant acme").says(1, &["jobs migrate"]);
    place.run("jobs migrate").says(0, &["The store is migrated."]);
    place.run("jobs list --tenant acme").says(0, &["There are no jobs in tenant acme."]);
}
