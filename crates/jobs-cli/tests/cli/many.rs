//! `retry`, `cancel` and `delete`: by id, by filter, asked and not.

use jobs_core::{Outcome, QueueExt, State};
use jobs_testkit::kit;
use serde_json::json;

use crate::place::{Place, fields, parked, push, settle, state, take, unknown};

crate::tests![crate::ALL;
    retry_by_id,
    retry_by_filter_is_asked,
    retry_leaves_cancelled_jobs_unless_said,
    retry_meets_a_held_key,
    cancel_by_id_is_asked,
    cancel_by_filter,
    delete_by_filter_in_batches,
    a_terminal_is_asked,
    changes_in_json,
    a_filter_or_ids,
    a_grant_for_looking_changes_nothing,
];

async fn retry_by_id(place: &Place) {
    let store = place.store().await;
    let job = parked(&*store, "acme", "why").await;
    let ran = place.run(&format!("jobs retry {} --tenant acme", job.id));
    ran.says(0, &["1 retried."]);
    assert_eq!(state(&*store, &job.job_ref()).await, Some(State::Ready));
    let again = place.run(&format!("jobs retry {} {} --tenant acme", job.id, unknown()));
    again.says(1, &["1 not retryable, 1 unknown.", "is ready", "no such job"]);
    place.run("jobs retry 7 --tenant acme").says(2, &["7 is no job's id", "jobs list"]);
    let bare = place.run(&format!("jobs retry {} --operator", job.id));
    bare.says(2, &["is a job of which tenant", "write <TENANT>/"]);
}

/// Without a terminal it says what it would have touched, and touches nothing.
async fn retry_by_filter_is_asked(place: &Place) {
    let store = place.store().await;
    let mut jobs = Vec::new();
    for _ in 0..3 {
        jobs.push(parked(&*store, "acme", "why").await);
    }
    let foreign = parked(&*store, "globex", "why").await;
    let fresh = push(&*store, "acme").await;
    let asked = place.run("jobs retry --queue work --tenant acme");
    asked
        .says(2, &["3 parked jobs of noop in queue work", "Retry 3 jobs in tenant acme?", "--yes"]);
    assert_eq!(asked.out, "");
    for job in &jobs {
        assert_eq!(state(&*store, &job.job_ref()).await, Some(State::Parked));
    }
    let done = place.run("jobs retry --queue work --tenant acme --yes");
    done.says(0, &["3 retried."]).hides(&["?"]);
    for job in &jobs {
        assert_eq!(state(&*store, &job.job_ref()).await, Some(State::Ready));
    }
    assert_eq!(state(&*store, &foreign.job_ref()).await, Some(State::Parked));
    assert_eq!(state(&*store, &fresh.job_ref()).await, Some(State::Ready));
    place
        .run("jobs retry --queue work --tenant acme")
        .says(0, &["No job in tenant acme matches that is parked."]);
}

async fn retry_leaves_cancelled_jobs_unless_said(place: &Place) {
    let store = place.store().await;
    let job = push(&*store, "acme").await;
    place.run(&format!("jobs cancel {} --tenant acme --yes", job.id)).says(0, &["1 cancelled."]);
    place.run("jobs retry --name noop --tenant acme --yes").says(0, &["matches that is parked."]);
    assert_eq!(state(&*store, &job.job_ref()).await, Some(State::Cancelled));
    place.run("jobs retry --state cancelled --tenant acme --yes").says(0, &["1 retried."]);
    let done = place.run("jobs retry --state done --tenant acme --yes");
    done.says(2, &["there is no retry of done jobs, only of those that are parked, cancelled"]);
}

async fn retry_meets_a_held_key(place: &Place) {
    let store = place.store().await;
    let job = kit::push(&*store, kit::job("acme").key("k")).await;
    place.run(&format!("jobs cancel {} --tenant acme --yes", job.id)).says(0, &["1 cancelled."]);
    let holder = kit::push(&*store, kit::job("acme").key("k")).await;
    let ran = place.run(&format!("jobs retry {} --tenant acme", job.id));
    let held = format!("its key is held by acme/{}, which is ready and does its work", holder.id);
    ran.says(1, &["1 key held.", &held]);
    let taken = take(&*store, &holder).await;
    settle(&*store, &taken, Outcome::Park { cause: "why".into() }).await;
    let ran = place.run(&format!("jobs retry {} --tenant acme", job.id));
    let held = format!("is held by acme/{}, which is parked: see to that one", holder.id);
    ran.says(1, &[&held]);
}

async fn cancel_by_id_is_asked(place: &Place) {
    let store = place.store().await;
    let running = push(&*store, "acme").await;
    take(&*store, &running).await;
    let waiting = push(&*store, "acme").await;
    let words = format!("jobs cancel {} {} --tenant acme", running.id, waiting.id);
    let asked = place.run(&words);
    asked.says(2, &["noop, running", "noop, ready", "Cancel 2 jobs?", "nothing was changed"]);
    assert_eq!(state(&*store, &waiting.job_ref()).await, Some(State::Ready));
    place.run(&format!("{words} --yes")).says(0, &["1 cancelled, 1 requested."]);
    assert_eq!(state(&*store, &waiting.job_ref()).await, Some(State::Cancelled));
    let shown = place.run("jobs list --tenant acme --state running");
    shown.says(0, &["running, asked to stop"]);
    place.run(&format!("{words} -y")).says(1, &["1 not live, 1 requested.", "is cancelled"]);
}

async fn cancel_by_filter(place: &Place) {
    let store = place.store().await;
    let sick = parked(&*store, "acme", "why").await;
    let later = kit::job("acme").after(std::time::Duration::from_secs(3600));
    let later = kit::push(&*store, later).await;
    let done = push(&*store, "acme").await;
    store.ack(&take(&*store, &done).await.claim).await.expect("it settles");
    let asked = place.run("jobs cancel --name noop --tenant acme");
    asked.says(2, &["1 scheduled job of noop", "1 parked job of noop", "Cancel 2 jobs in tenant"]);
    place.run("jobs cancel --name noop --tenant acme --yes").says(0, &["2 cancelled."]);
    for job in [&sick, &later] {
        assert_eq!(state(&*store, &job.job_ref()).await, Some(State::Cancelled));
    }
    assert_eq!(state(&*store, &done.job_ref()).await, Some(State::Done));
}

/// More than a page and several batches; what runs, and what is another's, stays.
async fn delete_by_filter_in_batches(place: &Place) {
    let store = place.store().await;
    let running = push(&*store, "acme").await;
    take(&*store, &running).await;
    let jobs: Vec<_> = (0..1100).map(|_| kit::job("acme")).collect();
    for answer in store.push_many(&kit::grant("acme"), jobs).await {
        assert_eq!(answer.expect("it is stored"), jobs_core::Pushed::Stored);
    }
    let foreign = push(&*store, "globex").await;
    // Work that is yet to run is meant only where that is said.
    let none = place.run("jobs delete --queue work --tenant acme --yes");
    none.says(0, &["No job in tenant acme matches that is parked, done, cancelled."]);
    let asked = place.run("jobs delete --queue work --state ready --tenant acme");
    asked.says(2, &["1,100 ready jobs of noop in queue work", "Delete 1,100 jobs in tenant acme"]);
    asked.says(2, &["with all history, for good?"]);
    let ran = place.run("jobs delete --queue work --state ready --tenant acme --yes");
    assert_eq!(ran.says(0, &["1,100 deleted."]).err, "", "no bar where there is no terminal");
    let left = place.json("jobs list --operator");
    assert_eq!(crate::place::ids(&left), [foreign.id.to_string(), running.id.to_string()]);
    let by_id = place.run(&format!("jobs delete {} --tenant acme --yes", running.id));
    by_id.says(1, &["1 running.", "runs: cancel it first"]);
    place.run("jobs delete --state running --tenant acme -y").says(2, &["no delete of running"]);
}

async fn a_terminal_is_asked(place: &Place) {
    let store = place.store().await;
    let job = parked(&*store, "acme", "why").await;
    let words = "jobs delete --queue work --tenant acme";
    for no in ["n\n", "\n", "what?\n"] {
        let ran = place.answer(words, no);
        ran.says(2, &["  1 parked job of noop", "Delete 1 job in tenant acme", "good? [y/N]"]);
        ran.says(2, &["Nothing was changed."]);
        assert_eq!(state(&*store, &job.job_ref()).await, Some(State::Parked));
    }
    let ran = place.answer(words, "y\n");
    assert_eq!(ran.says(0, &["[y/N]"]).out, "1 deleted.\n", "questions are no answers");
    assert_eq!(state(&*store, &job.job_ref()).await, None);
}

async fn changes_in_json(place: &Place) {
    let store = place.store().await;
    let job = parked(&*store, "acme", "why").await;
    let nobody = unknown().to_string();
    let ran = place.run(&format!("jobs retry {} {nobody} --tenant acme --json", job.id));
    let changed = ran.says(1, &[]).json();
    assert_eq!(fields(&changed), ["answers", "asked", "changed", "unchanged", "verb"]);
    let same = json!({
        "verb": "retry", "asked": 2, "changed": 1, "answers": {"retried": 1, "unknown": 1},
        "unchanged": [{
            "tenant": "acme", "id": nobody, "answer": "unknown", "state": null, "held_by": null,
        }],
    });
    assert_eq!(changed, same);
    let none = place.json("jobs delete --queue nowhere --tenant acme --yes");
    assert_eq!((&none["asked"], &none["changed"]), (&json!(0), &json!(0)));
}

async fn a_filter_or_ids(place: &Place) {
    place.store().await;
    for verb in ["retry", "cancel", "delete"] {
        let ran = place.run(&format!("jobs {verb} --tenant acme --yes"));
        ran.says(2, &[&format!("{verb} which jobs?"), "--queue"]);
        let ran = place.run(&format!("jobs {verb} {} --queue work --tenant acme", unknown()));
        ran.says(2, &["two different things"]);
        // As of a script's variable that is not set.
        let ran = place.run(&format!("jobs {verb} --cause= --tenant acme --yes"));
        ran.says(2, &["which text? an empty one is in every cause"]);
    }
}

async fn a_grant_for_looking_changes_nothing(place: &Place) {
    let store = place.store().await;
    let job = parked(&*store, "acme", "why").await;
    for verb in ["retry", "cancel --yes", "delete --yes"] {
        let words = format!("jobs {verb} {} --tenant acme", job.id);
        let ran = place.run_with("JOBS_CLI_TEST_USER", "bob", &words);
        ran.says(2, &["refused: bob may not jobs.", "in acme: not on the staff there"]);
    }
    assert_eq!(state(&*store, &job.job_ref()).await, Some(State::Parked));
    let ran = place.run_with("JOBS_CLI_TEST_USER", "bob", "jobs list --tenant acme");
    ran.says(0, &["parked"]);
}
