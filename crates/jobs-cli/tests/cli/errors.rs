//! What a newcomer meets: each message says what to do.

use jobs_core::State;

use crate::{
    app::{STORE, WITHOUT},
    place::{Kind, Place, parked, state},
};

pub const TESTS: &[crate::Test] = &[
    ("neither_tenant_nor_operator", crate::ALL, |p| Box::pin(neither_tenant_nor_operator(p))),
    ("no_function_for_grants", crate::ALL, |p| Box::pin(no_function_for_grants(p))),
    ("a_policy_that_refuses", crate::ALL, |p| Box::pin(a_policy_that_refuses(p))),
    ("a_refusal_touches_no_store", &[Kind::Sqlite], |p| Box::pin(a_refusal_touches_no_store(p))),
    ("a_grant_function_that_fails", crate::ALL, |p| Box::pin(a_grant_function_that_fails(p))),
    ("a_grant_of_another_scope", crate::ALL, |p| Box::pin(a_grant_of_another_scope(p))),
    ("a_store_that_is_not_there", crate::ALL, |p| Box::pin(a_store_that_is_not_there(p))),
    ("a_schema_that_is_not_there", &[Kind::Postgres], |p| Box::pin(a_schema_that_is_not_there(p))),
];

const VERBS: &[&str] = &[
    "list",
    "show ID",
    "retry ID",
    "cancel ID --yes",
    "delete --state done --yes",
    "pause work",
    "resume work",
    "stats",
    "workers",
    "doctor",
];

fn verbs() -> impl Iterator<Item = String> {
    let id = crate::place::unknown();
    VERBS.iter().map(move |verb| format!("jobs {}", verb.replace("ID", &format!("acme/{id}"))))
}

async fn neither_tenant_nor_operator(place: &Place) {
    for words in verbs() {
        let ran = place.run(&words);
        ran.says(2, &["whose jobs? Pick one", "--tenant <TENANT>", "--operator"]);
        assert_eq!(ran.out, "");
    }
}

async fn no_function_for_grants(place: &Place) {
    for words in verbs() {
        let ran = place.run_with(WITHOUT, "grants", &format!("{words} --tenant acme"));
        ran.says(
            2,
            &["gave jobs-cli no function that makes Grants", ".grants(async |action, scope|"],
        );
        assert_eq!(ran.out, "");
    }
}

async fn a_policy_that_refuses(place: &Place) {
    place.store().await;
    for words in verbs() {
        let ran = place.run_with("JOBS_CLI_TEST_USER", "ada", &format!("{words} --operator"));
        ran.says(2, &["refused: ada may not jobs.", "in every tenant: no operator"]);
    }
    let ran = place.run("jobs list --tenant globex");
    ran.says(2, &["refused: ada may not jobs.read in globex: not on the staff there"]);
}

/// Opening a store may make it, or migrate it.
async fn a_refusal_touches_no_store(place: &Place) {
    for words in verbs() {
        let ran = place.run_with("JOBS_CLI_TEST_USER", "ada", &format!("{words} --operator"));
        ran.says(2, &["refused: ada may not jobs.", "in every tenant: no operator"]);
    }
    let file = place.url();
    let file = file.trim_start_matches("sqlite://");
    assert!(!std::path::Path::new(file).exists(), "{file} was made");
    place.run("jobs list --tenant acme").says(0, &[]);
    assert!(std::path::Path::new(file).exists(), "{file} is where it is made");
}

/// It is nobody's refusal.
async fn a_grant_function_that_fails(place: &Place) {
    let ran = place.run_with(WITHOUT, "users", "jobs list --tenant acme");
    ran.says(1, &["who may do this cannot be told: no users today"]);
}

/// The application's function has a mistake; it must not open a door.
async fn a_grant_of_another_scope(place: &Place) {
    let store = place.store().await;
    let job = parked(&*store, "acme", "why").await;
    for words in verbs() {
        let ran = place.run_with(WITHOUT, "scope", &format!("{words} --tenant acme"));
        ran.says(2, &["a Grant for tenant acme was asked for", "gave one for all tenants"]);
    }
    assert_eq!(state(&*store, &job.job_ref()).await, Some(State::Parked));
}

async fn a_store_that_is_not_there(place: &Place) {
    let (url, what) = match place.kind {
        Kind::Sqlite => ("/nowhere/at/all/app.db", "check that its directory exists"),
        // Nothing listens at the discard port.
        Kind::Postgres => ("postgres://app@127.0.0.1:9/app", "Check that the URL is right"),
    };
    let ran = place.run_with(STORE, url, "jobs list --tenant acme");
    ran.says(1, &["the store cannot be opened", what]);
    let ran = place.run_with(STORE, url, "worker");
    // A server may be there later: 1, so that a process manager starts the worker again.
    let (status, told) = match place.kind {
        Kind::Sqlite => (2, "(exit status 2)"),
        Kind::Postgres => (1, "(exit status 1)"),
    };
    ran.says(status, &["worker: it did not start: the store cannot be opened", what, told]);
    let ran = place.run_with(STORE, "mysql://somewhere", "worker");
    ran.says(2, &["worker: it did not start", "is no URL of a file", "status 2"]);
    let ran = place.run_with(STORE, "mysql://somewhere", "jobs list --tenant acme");
    ran.says(1, &["is no URL of a file: write sqlite://"]);
}

async fn a_schema_that_is_not_there(place: &Place) {
    let ran = place.run("jobs list --tenant acme");
    ran.says(1, &["jobs migrate"]);
    let ran = place.run("worker");
    ran.says(2, &["worker: it did not start", "migrate"]);
}
