//! `list` and `show`, and whose jobs they show.

use jobs_core::{Outcome, Policy};
use jobs_testkit::kit::{self, Open};
use serde_json::json;

use crate::place::{Place, fields, ids, is_time, parked, push, take, unknown};

crate::tests![crate::ALL;
    list_is_of_one_tenant_or_all,
    list_filters,
    list_walks_by_its_cursor,
    list_in_json,
    show_in_words,
    show_in_json,
    a_foreign_id_is_an_unknown_one,
];

async fn list_is_of_one_tenant_or_all(place: &Place) {
    let store = place.store().await;
    let own = push(&*store, "acme").await.id.to_string();
    let foreign = push(&*store, "globex").await.id.to_string();
    place.run("jobs list --tenant acme").says(0, &[&own, "ready", "noop"]).hides(&[&foreign]);
    let both = [format!("acme/{own}"), format!("globex/{foreign}")];
    place.run("jobs --operator list").says(0, &[&both[0], &both[1]]);
    let narrowed = place.run("jobs list --operator --tenant globex");
    narrowed.says(0, &[&foreign]).hides(&[&own]);
}

async fn list_filters(place: &Place) {
    let store = place.store().await;
    let sick = parked(&*store, "acme", "the mail server said 451").await.id.to_string();
    let other = kit::push(&*store, kit::job("acme").on("other")).await.id.to_string();
    let named = jobs_core::Job { name: "mail.send".into(), ..kit::job("acme") };
    let named = kit::push(&*store, named).await.id.to_string();
    let only = |filter: &str, wanted: &str| {
        let list = place.json(&format!("jobs list --tenant acme {filter}"));
        assert_eq!(ids(&list), [wanted], "{filter}");
    };
    only("--state parked", &sick);
    only("--cause 451", &sick);
    only("--queue other", &other);
    only("--name mail.send", &named);
    only("--queue work --state ready", &named);
    let none = place.run("jobs list --tenant acme --queue other --state parked");
    assert_eq!(none.says(0, &["No job in tenant acme matches"]).out, "");
    place.run("jobs list --tenant acme --state asleep").says(2, &["possible values", "parked"]);
    place.run("jobs list --tenant ACME").says(2, &["a tenant is [a-z0-9]"]);
}

async fn list_walks_by_its_cursor(place: &Place) {
    let store = place.store().await;
    let mut pushed = Vec::new();
    for _ in 0..5 {
        pushed.insert(0, push(&*store, "acme").await.id.to_string());
    }
    let (mut seen, mut after) = (Vec::new(), String::new());
    loop {
        let words = format!("jobs list --tenant acme --limit 2{after}");
        let ran = place.run(&words);
        let list = place.json(&words);
        seen.extend(ids(&list));
        match list["next"].as_str() {
            Some(next) => {
                assert_eq!(list["complete"], false);
                ran.says(0, &["There may be more: go on with --after", next]);
                after = format!(" --after {next}");
            }
            None => {
                assert_eq!(list["complete"], true);
                ran.hides(&["--after"]);
                break;
            }
        }
    }
    assert_eq!(seen, pushed, "newest first, each once");
    place.run("jobs list --tenant acme --after nonsense").says(2, &["no cursor"]);
}

/// What scripts rely on: a field that is renamed or gone is a broken script.
const JOB: [&str; 17] = [
    "action",
    "attempt",
    "authorized_by",
    "cancel_requested",
    "finished_at",
    "id",
    "key",
    "last_cause",
    "max_attempts",
    "metadata",
    "name",
    "priority",
    "pushed_at",
    "queue",
    "run_at",
    "state",
    "tenant",
];

async fn list_in_json(place: &Place) {
    let store = place.store().await;
    let job = kit::job("acme").key("k1").meta("colour", "red").priority(7).max_attempts(3);
    let job = kit::push(&*store, job).await;
    let list = place.json("jobs list --tenant acme");
    assert_eq!(fields(&list), ["complete", "jobs", "next", "now"]);
    is_time(&list["now"]);
    let shown = &list["jobs"][0];
    assert_eq!(fields(shown), JOB);
    is_time(&shown["pushed_at"]);
    is_time(&shown["run_at"]);
    let same = json!({
        "id": job.id.to_string(), "tenant": "acme", "queue": "work", "name": "noop",
        "state": "ready", "attempt": 0, "max_attempts": 3, "priority": 7, "action": "work.do",
        "authorized_by": "system:suite", "finished_at": null, "last_cause": null,
        "cancel_requested": false, "key": "k1", "metadata": {"colour": "red"},
        "pushed_at": shown["pushed_at"], "run_at": shown["run_at"],
    });
    assert_eq!(*shown, same);
}

async fn show_in_words(place: &Place) {
    let store = place.store().await;
    let job = jobs_core::Job { payload: payload(r#"{"invoice": 7}"#), ..kit::job("acme") };
    let job = kit::push(&*store, job).await;
    let held = take(&*store, &job).await;
    let id = job.id.to_string();
    let running = place.run(&format!("jobs show {id} --tenant acme"));
    running.says(0, &[&format!("noop acme/{id}"), "state        running", "held by      suite"]);
    running.says(0, &["last renewed 20", "its lease ends 20", "(in ", r#"{"invoice": 7}"#]);
    running.says(0, &["pushed by    system:suite, to do work.do, 20", " ago)"]);
    let cause = "first line\nsecond line";
    let again = Outcome::Retry { after: std::time::Duration::ZERO, cause: cause.into() };
    crate::place::settle(&*store, &held, again).await;
    let held = take(&*store, &job).await;
    crate::place::settle(&*store, &held, Outcome::Park { cause: "no such invoice".into() }).await;
    let retry = Open.authorize("grace", "jobs.retry", "acme").await.expect("the policy is open");
    let permit = retry.permit().expect("a Grant for it");
    store.retry(&permit, &[job.job_ref()]).await.expect("it is retried");
    let ran = place.run(&format!("jobs show acme/{id} --operator"));
    ran.says(0, &["changed      retry by grace, 20", "2 attempts on record", "1. retry after"]);
    ran.says(0, &["     first line\n     second line\n", "2. park after", "no such invoice"]);
}

async fn show_in_json(place: &Place) {
    let store = place.store().await;
    // More than any number type holds, and deeper than a reader's stack.
    let text = format!(
        r#"{{"big": 9223372036854775808123, "deep": {}{}}}"#,
        "[".repeat(90),
        "]".repeat(90)
    );
    let job = jobs_core::Job { payload: payload(&text), ..kit::job("acme") };
    let job = kit::push(&*store, job).await;
    let held = take(&*store, &job).await;
    let words = format!("jobs show {} --tenant acme", job.id);
    let shown = place.json(&words);
    assert_eq!(
        fields(&shown),
        [
            "attempts",
            "fence",
            "holder",
            "job",
            "last_verb",
            "now",
            "payload",
            "releases",
            "snoozes",
            "timeout_seconds"
        ]
    );
    assert_eq!(fields(&shown["job"]), JOB);
    let raw = place.run(&format!("{words} --json")).out;
    assert!(raw.contains(&text), "the payload is not read and written again: {raw}");
    let holder = &shown["holder"];
    assert_eq!(fields(holder), ["expired", "lease_until", "renewed_at", "started_at", "worker"]);
    assert_eq!((&holder["worker"], &holder["expired"]), (&json!("suite"), &json!(false)));
    is_time(&holder["lease_until"]);
    crate::place::settle(&*store, &held, Outcome::Park { cause: "why".into() }).await;
    let shown = place.json(&words);
    let attempt = &shown["attempts"][0];
    assert_eq!(fields(attempt), ["cause", "ended_at", "number", "outcome", "started_at", "worker"]);
    assert_eq!((&attempt["outcome"], &attempt["cause"]), (&json!("park"), &json!("why")));
    is_time(&attempt["ended_at"]);
    assert_eq!((&shown["holder"], &shown["last_verb"]), (&json!(null), &json!(null)));
}

fn payload(json: &str) -> jobs_core::Payload {
    jobs_core::Payload::from_json(json).expect("JSON")
}

/// Whatever the verb, a tenant learns nothing of another's job, not even that it is there.
async fn a_foreign_id_is_an_unknown_one(place: &Place) {
    let store = place.store().await;
    let foreign = parked(&*store, "globex", "secret").await;
    for verb in ["show", "retry", "cancel --yes", "delete --yes", "cancel", "delete"] {
        // As it would be typed by who saw the id, and by who knows the tenant too.
        for tenant in ["", "globex/"] {
            let said = |id: &str| {
                let ran = place.run(&format!("jobs {verb} {tenant}{id} --tenant acme"));
                assert_ne!(ran.status, 0, "{ran:?}");
                let hide = |text: &str| text.replace(id, "ID");
                (ran.status, hide(&ran.out), hide(&ran.err))
            };
            let (known, unknown) = (said(&foreign.id.to_string()), said(&unknown().to_string()));
            assert_eq!(known, unknown, "{verb} {tenant}");
        }
    }
    let record = store.get(&kit::operator().await, &foreign.job_ref()).await.expect("answers");
    let record = record.expect("nobody deleted it");
    assert_eq!(record.view.state, jobs_core::State::Parked);
    assert_eq!(record.last_verb, None, "nobody touched it");
}
