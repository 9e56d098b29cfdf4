//! Every page: what it shows, where its links lead, and what is sent with it.

use std::{collections::BTreeSet, time::Duration};

use axum::{Router, http::StatusCode};
use jobs_core::{Job, Payload, QueueExt, queue::Worker};
use jobs_testkit::kit;
use jobs_web::{QueuePage, ROUTES};

use crate::{
    app::{BASE, Who, app, get, grant, post},
    place::{Place, parked},
};

crate::tests![
    every_link_leads_somewhere,
    a_job_is_shown_with_all_that_is_known,
    why_a_job_is_not_running,
    queues_are_paused_and_resumed,
    health_fails_where_jobs_wait,
    numbers_above_2_to_the_53_are_exact,
    the_description_is_of_these_routes,
];

async fn every_link_leads_somewhere(place: &Place) {
    let store = place.store().await;
    let app = app(store.clone());
    parked(&*store, kit::job("acme").on("mail"), "broken").await;
    kit::push(&*store, kit::job("globex")).await;
    kit::take_one(&*store).await;
    for who in [Who::Operator, Who::Member("acme")] {
        let (mut seen, mut open) = (BTreeSet::new(), vec![BASE.to_owned()]);
        while let Some(path) = open.pop() {
            let path = path.split('#').next().unwrap_or_default().to_owned();
            // Forms that post.
            let tail = path.trim_start_matches(BASE);
            let posted = ROUTES.iter().any(|route| route.path == tail && route.method == "POST");
            if path.is_empty() || path.starts_with("data:") || posted || !seen.insert(path.clone())
            {
                continue;
            }
            assert!(path.starts_with(BASE), "{path} leads away");
            assert!(!path.starts_with(&format!("{BASE}/?")), "{path} is nested without a slash");
            let answer = get(&app, &who, &path).await;
            assert_eq!(answer.status, StatusCode::OK, "{who:?} {path}: {}", answer.body);
            let policy = answer.header("content-security-policy");
            assert!(
                policy.starts_with("default-src 'none';") && !policy.contains("unsafe"),
                "{policy}"
            );
            assert_eq!(answer.header("x-content-type-options"), "nosniff");
            if answer.header("content-type").starts_with("text/html") {
                assert_eq!(answer.header("cache-control"), "no-store");
                answer.hides(&[" style=\"", " onclick=", "<style", "javascript:"]);
                assert_eq!(answer.body.matches("<script").count(), 1, "{path}");
                open.extend(answer.links());
            } else {
                assert!(answer.header("cache-control").contains("immutable"), "{path}");
            }
        }
        let pages = if who == Who::Operator { 40 } else { 20 };
        assert!(seen.len() >= pages, "{seen:?}");
    }
    let nothing = get(&app, &Who::Operator, "/nothing").await;
    assert_eq!(nothing.status, StatusCode::NOT_FOUND);
    assert!(!nothing.header("content-security-policy").is_empty());
}

async fn a_job_is_shown_with_all_that_is_known(place: &Place) {
    let store = place.store().await;
    let app = app(store.clone());
    let payload = Payload::from_json(r#"{"invoice":7}"#).expect("JSON");
    let job = Job { payload, ..kit::job("acme") }.key("invoice 7").meta("traceparent", "00-1");
    let job = kit::push(&*store, job).await;
    let held = kit::take_one(&*store).await;
    store.fail(&held.claim, Duration::ZERO, "first: no route".into()).await.expect("it fails");
    kit::take_one(&*store).await;
    let path = format!("/jobs/{}", job.job_ref());
    let running = get(&app, &Who::Member("acme"), &path).await;
    running.says(&[
        "It is running.",
        "first: no route",
        "\"invoice\"".replace('"', "&quot;").as_str(),
    ]);
    running.says(&[
        "invoice 7",
        "traceparent",
        "system:suite",
        "work.do",
        "Retry</strong>, attempt 1",
        "Running",
    ]);
    running
        .says(&["if it is silent until", "suite (fence 1)", "Cancel…"])
        .hides(&["Delete…", "Why is"]);
    let asked =
        post(&app, &Who::Member("acme"), "/cancel", &format!("job={}&sure=yes", job.job_ref()))
            .await;
    assert_eq!(asked.status, StatusCode::SEE_OTHER);
    get(&app, &Who::Member("acme"), &path)
        .await
        .says(&["It was asked to stop."])
        .hides(&["Cancel…"]);
    // Who may only look sees no buttons.
    let bob = Who::Only("jobs.read", "acme");
    get(&app, &bob, &path).await.hides(&["<button"]);
    get(&app, &bob, "/").await.hides(&["selected…", "type=\"checkbox\""]);
}

async fn why_a_job_is_not_running(place: &Place) {
    let store = place.store().await;
    let app = app(store.clone());
    let job = kit::push(&*store, kit::job("acme")).await;
    let path = format!("/jobs/{}", job.job_ref());
    let (who, mut worker) = (Who::Member("acme"), a_worker());
    get(&app, &who, &path).await.says(&["Why is this job not running?", "No worker is alive"]);
    worker.names = vec!["other".into()];
    store.announce(&worker).await.expect("it is told");
    get(&app, &who, &path).await.says(&["knows the name noop"]);
    worker.queues = vec!["other".into()];
    store.announce(&worker).await.expect("it is told");
    get(&app, &who, &path)
        .await
        .says(&["no live worker works the queue work".replace("no live", "No live").as_str()]);
    store.announce(&a_worker()).await.expect("it is told");
    get(&app, &who, &path).await.says(&["It is in line", "one of 1 job of its tenant"]);
    post(&app, &who, "/pause", "queue=work&minutes=5").await;
    get(&app, &who, &path).await.says(&["is paused until", "by ada"]);
    let later = jobs_core::RunAt::After(Duration::from_secs(7230));
    let later = kit::push(&*store, Job { run_at: later, ..kit::job("globex") }).await;
    let path = format!("/jobs/{}", later.job_ref());
    get(&app, &Who::Operator, &path).await.says(&["It is due ", "(in 2h)"]);
    let gone = parked(&*store, kit::job("globex").on("mail"), "no route\nat all").await;
    let path = format!("/jobs/{}", gone.job_ref());
    get(&app, &Who::Operator, &path).await.says(&["It gave up after attempt 1 of 5: no route."]);
}

fn a_worker() -> Worker {
    Worker {
        id: uuid::Uuid::new_v4(),
        label: "alpha".into(),
        queues: vec![kit::QUEUE.into()],
        names: vec![kit::NAME.into()],
        slots: 4,
        busy: 1,
        stuck: 0,
        leaving: false,
    }
}

async fn queues_are_paused_and_resumed(place: &Place) {
    let store = place.store().await;
    let app = app(store.clone());
    for tenant in ["acme", "globex"] {
        kit::push(&*store, kit::job(tenant)).await;
    }
    let (ada, ops) = (Who::Member("acme"), Who::Operator);
    let done = post(&app, &ada, "/pause", "queue=work&tenant=globex").await;
    assert_eq!(done.header("location"), format!("{BASE}/queues"));
    get(&app, &ada, "/queues").await.says(&["paused until it is resumed"]);
    get(&app, &Who::Member("globex"), "/queues").await.hides(&["paused"]);
    get(&app, &ops, "/queues").await.says(&["for 1 of 2 tenants"]);
    post(&app, &ada, "/resume", "queue=work").await;
    get(&app, &ada, "/queues").await.hides(&["paused"]);
    for minutes in ["1", "99999999999999999999999"] {
        post(&app, &ops, "/pause", &format!("queue=work&minutes={minutes}")).await;
        get(&app, &ada, "/queues").await.says(&["paused until 20"]);
    }
    let answer = post(&app, &ops, "/pause", "queue=work&minutes=soon").await;
    assert_eq!(answer.status, StatusCode::BAD_REQUEST);
    for queue in ["", "A", "%00", "a%2Fb"] {
        let answer = post(&app, &ops, "/pause", &format!("queue={queue}")).await;
        assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{queue}");
    }
    post(&app, &ops, "/resume", "queue=work").await;
    get(&app, &ops, "/queues").await.hides(&["paused"]);
    // What ended in the last hour is drawn and told.
    let held = kit::take_one(&*store).await;
    store.ack(&held.claim).await.expect("it is done");
    get(&app, &ops, "/queues").await.says(&["1 finished, 0 failed", "<rect class=\"finished\""]);
    get(&app, &ops, "/tenants").await.says(&["100 %", "acme", "globex"]);
    store.announce(&a_worker()).await.expect("it is told");
    get(&app, &ops, "/workers").await.says(&["alpha", "1 of 4", "noop"]);
    get(&app, &ada, "/workers").await.says(&["1 of 4"]).hides(&["alpha"]);
    get(&app, &ops, "/metrics").await.says(&["jobs_waiting{queue=\"work\"} 1", "jobs_workers 1"]);
}

async fn health_fails_where_jobs_wait(place: &Place) {
    let store = place.store().await;
    kit::push(&*store, kit::job("acme")).await;
    let on = |page: QueuePage| Router::new().nest(BASE, page.into_router());
    let fine = get(&on(QueuePage::new(store.clone(), grant)), &Who::Operator, "/health").await;
    assert_eq!((fine.status, &fine.json()["healthy"]), (StatusCode::OK, &true.into()));
    tokio::time::sleep(Duration::from_millis(20)).await;
    let page = QueuePage::new(store.clone(), grant).watch(kit::QUEUE, Duration::from_millis(1));
    let late = get(&on(page), &Who::Operator, "/health").await;
    assert_eq!(late.status, StatusCode::SERVICE_UNAVAILABLE, "{late:?}");
    assert_eq!(late.json()["queues"][0]["queue"], kit::QUEUE);
    let page = QueuePage::new(store, grant).watch("other", Duration::from_millis(1));
    let other = get(&on(page), &Who::Operator, "/health").await;
    assert_eq!(
        (other.status, &other.json()["queues"][0]["queue"]),
        (StatusCode::OK, &"other".into())
    );
}

async fn numbers_above_2_to_the_53_are_exact(place: &Place) {
    let store = place.store().await;
    let app = app(store.clone());
    let text =
        r#"{"n":[9007199254740993,18446744073709551615,0.1000000000000000055511151231257827]}"#;
    let payload = Payload::from_json(text).expect("JSON");
    let job = kit::push(&*store, Job { payload, ..kit::job("acme") }).await;
    let page = get(&app, &Who::Operator, &format!("/jobs/{}", job.job_ref())).await;
    page.says(&[
        "9007199254740993,",
        "18446744073709551615,",
        "0.1000000000000000055511151231257827",
    ]);
    let answer = get(&app, &Who::Operator, &format!("/api/jobs/{}", job.job_ref())).await;
    answer.says(&[&format!("\"payload\":{text}")]);
    let json = answer.json();
    assert_eq!(json["payload_text"], text);
    assert_eq!(json["job"]["id"], job.id.to_string());
    assert!(json["fence_text"].is_string());
}

async fn the_description_is_of_these_routes(place: &Place) {
    let app = app(place.store().await);
    let description = get(&app, &Who::Operator, "/api/openapi.json").await.json();
    let paths = description["paths"].as_object().expect("paths");
    let described = paths.iter().flat_map(|(path, methods)| {
        let methods = methods.as_object().expect("methods").iter();
        methods.map(move |(method, what)| {
            format!(
                "{} {path} {}",
                method.to_uppercase(),
                what["x-action"].as_str().expect("an action")
            )
        })
    });
    let described: BTreeSet<_> = described.collect();
    let routes =
        ROUTES.iter().filter(|route| route.path.starts_with("/api/") || route.path == "/health");
    let routes: BTreeSet<_> =
        routes.map(|route| format!("{} {} {}", route.method, route.path, route.action)).collect();
    assert_eq!(described, routes);
}
