//! `doctor`: each reason, with what to do about it.

use jobs_core::QueueExt;
use jobs_testkit::kit;
use serde_json::Value;

use crate::{
    app::CLOCK,
    lanes::announce,
    place::{Kind, Place, fields, is_time, parked, push, take},
};

pub const TESTS: &[crate::Test] = &[
    ("nothing_is_wrong", crate::ALL, |p| Box::pin(nothing_is_wrong(p))),
    ("no_worker_is_alive", crate::ALL, |p| Box::pin(no_worker_is_alive(p))),
    ("nobody_knows_the_name", crate::ALL, |p| Box::pin(nobody_knows_the_name(p))),
    ("nobody_works_the_queue", crate::ALL, |p| Box::pin(nobody_works_the_queue(p))),
    ("a_pause_is_told", crate::ALL, |p| Box::pin(a_pause_is_told(p))),
    ("all_is_scheduled", crate::ALL, |p| Box::pin(all_is_scheduled(p))),
    ("slots_are_stuck", crate::ALL, |p| Box::pin(slots_are_stuck(p))),
    ("jobs_are_parked", crate::ALL, |p| Box::pin(jobs_are_parked(p))),
    ("clocks_are_apart", &[Kind::Sqlite], |p| Box::pin(clocks_are_apart(p))),
    ("the_stores_own_findings", &[Kind::Sqlite], |p| Box::pin(the_stores_own_findings(p))),
    ("a_tenants_doctor_sees_its_own", crate::ALL, |p| Box::pin(a_tenants_doctor_sees_its_own(p))),
];

/// The kinds of what it found, and whether it was healthy.
fn found(place: &Place, words: &str) -> (bool, Vec<String>) {
    let ran = place.run(&format!("{words} --json"));
    let doctor = ran.json();
    let findings = doctor["findings"].as_array().expect("findings");
    let text = |value: &Value| value.as_str().expect("text").to_owned();
    let kinds = findings.iter().map(|finding| text(&finding["kind"])).collect();
    let healthy = doctor["healthy"].as_bool().expect("a bool");
    assert_eq!(ran.status, i32::from(!healthy), "the exit status says the same: {ran:?}");
    (healthy, kinds)
}

const DOCTOR: &str = "jobs doctor --operator";

#[track_caller]
fn finds(place: &Place, healthy: bool, kinds: &[&str]) {
    let kinds: Vec<String> = kinds.iter().map(|kind| (*kind).to_owned()).collect();
    assert_eq!(found(place, DOCTOR), (healthy, kinds), "{:?}", place.run(DOCTOR));
}

async fn nothing_is_wrong(place: &Place) {
    let store = place.store().await;
    announce(&*store, &[kit::NAME], 0, 0).await;
    push(&*store, "acme").await;
    let ran = place.run(DOCTOR);
    ran.says(0, &["Nothing is wrong.", "1 worker alive, 0 of 4 slots busy", "1 waiting"]);
    finds(place, true, &[]);
    let doctor = place.json(DOCTOR);
    assert_eq!(
        fields(&doctor),
        [
            "clock_ahead_seconds",
            "findings",
            "healthy",
            "now",
            "parked",
            "running",
            "scheduled",
            "schema",
            "store",
            "waiting",
            "workers"
        ]
    );
    is_time(&doctor["now"]);
}

async fn no_worker_is_alive(place: &Place) {
    let store = place.store().await;
    finds(place, true, &["no_worker"]);
    push(&*store, "acme").await;
    finds(place, false, &["no_worker"]);
    let ran = place.run(DOCTOR);
    ran.says(
        1,
        &["PROBLEM: no worker is alive, and 1 job waits", "Start one: the `worker` command"],
    );
    let doctor = place.run(&format!("{DOCTOR} --json")).json();
    assert_eq!(fields(&doctor["findings"][0]), ["kind", "level", "remedy", "what"]);
}

async fn nobody_knows_the_name(place: &Place) {
    let store = place.store().await;
    announce(&*store, &["other"], 0, 0).await;
    for tenant in ["acme", "globex"] {
        push(&*store, tenant).await;
    }
    finds(place, false, &["name_not_known"]);
    let ran = place.run(DOCTOR);
    let what = "no live worker of queue work knows the name noop, and 2 jobs wait for one";
    ran.says(1, &[what, "Deploy workers whose release has a handler for noop."]);
    announce(&*store, &[kit::NAME], 0, 0).await;
    finds(place, true, &[]);
}

async fn nobody_works_the_queue(place: &Place) {
    let store = place.store().await;
    announce(&*store, &[kit::NAME], 0, 0).await;
    kit::push(&*store, kit::job("acme").on("other")).await;
    finds(place, false, &["queue_not_worked"]);
    let ran = place.run(DOCTOR);
    ran.says(1, &["no live worker works the queue other, and 1 job waits there", "--queue other"]);
}

async fn a_pause_is_told(place: &Place) {
    let store = place.store().await;
    announce(&*store, &[kit::NAME], 0, 0).await;
    push(&*store, "acme").await;
    place.run("jobs pause work --tenant acme --for 1h").says(0, &[]);
    finds(place, true, &["paused"]);
    let ran = place.run(DOCTOR);
    ran.says(0, &["queue work of tenant acme is paused until 20", "(in 59m", ", by ada 20"]);
    ran.says(0, &["1 job waits there", "It ends by itself. `jobs resume work` ends it now"]);
}

async fn all_is_scheduled(place: &Place) {
    let store = place.store().await;
    announce(&*store, &[kit::NAME], 0, 0).await;
    for hours in [2, 1, 3] {
        let later = kit::job("acme").after(std::time::Duration::from_secs(hours * 3600));
        kit::push(&*store, later).await;
    }
    finds(place, true, &["scheduled"]);
    let ran = place.run(DOCTOR);
    ran.says(0, &["nothing is due: 3 jobs scheduled for later; the next is due 20", "(in 59m"]);
}

async fn slots_are_stuck(place: &Place) {
    let store = place.store().await;
    announce(&*store, &[kit::NAME], 2, 1).await;
    finds(place, false, &["stuck"]);
    let ran = place.run(DOCTOR);
    ran.says(1, &["1 of 4 slots of worker here (", "ignored its timeout", "Restart that worker."]);
}

async fn jobs_are_parked(place: &Place) {
    let store = place.store().await;
    announce(&*store, &[kit::NAME], 0, 0).await;
    parked(&*store, "acme", "why").await;
    finds(place, true, &["parked"]);
    place.run(DOCTOR).says(0, &["NOTE: 1 job waits for a person", "jobs list --state parked"]);
}

async fn clocks_are_apart(place: &Place) {
    place.store().await;
    let ran = place.run_with(CLOCK, "90000", DOCTOR);
    ran.says(1, &["the store's clock is 1m", "ahead of this machine's", "by NTP"]);
}

async fn the_stores_own_findings(place: &Place) {
    place.store().await;
    finds(place, true, &["no_worker"]);
    let ran = place.run_with(crate::app::DURABILITY, "normal", DOCTOR);
    ran.says(1, &["PROBLEM: a power cut may lose the last commits: use Durability::Full"]);
}

async fn a_tenants_doctor_sees_its_own(place: &Place) {
    let store = place.store().await;
    announce(&*store, &["other"], 0, 0).await;
    let job = push(&*store, "globex").await;
    let acme = "jobs doctor --tenant acme";
    assert_eq!(found(place, acme), (true, Vec::new()));
    store.release(&take(&*store, &job).await.claim).await.expect("it settles");
    place.run(acme).says(0, &["Jobs in tenant acme: 0 waiting"]).hides(&["globex", "noop", "here"]);
}
