//! What a person sees and does, in a real browser.

use std::time::Duration;

use jobs_core::{Admin, Job, Payload, QueueExt, RunAt, State, queue::Worker};
use jobs_testkit::kit;
use serde_json::json;

use crate::{
    app::Who,
    browser::{Browser, serve},
    place::{Place, parked, record},
};

crate::tests![
    buttons_filters_and_keys,
    selections_and_refreshing,
    it_works_without_script,
    every_page_is_fit_to_be_seen,
];

const ROWS: &str = "return document.querySelectorAll('#jobs tbody tr').length";

async fn buttons_filters_and_keys(place: &Place) {
    let store = place.store().await;
    let job = parked(&*store, kit::job("acme").on("mail"), "no route").await;
    for _ in 0..3 {
        kit::push(&*store, kit::job("acme")).await;
    }
    let browser = Browser::open(&serve(store.clone(), &Who::Member("acme")).await, true).await;
    browser.goto("/").await;
    browser.until(ROWS, json!(4)).await;
    browser.keys("/").await;
    browser.keys("mail\u{e007}").await;
    browser.until("return location.search.includes('queue=mail')", json!(true)).await;
    browser.until(ROWS, json!(1)).await;
    browser.keys("j").await;
    browser.keys("x").await;
    browser
        .until("return document.getElementById('selected').textContent", json!("1 selected"))
        .await;
    browser.keys("?").await;
    browser.until("return document.getElementById('keys').open", json!(true)).await;
    browser.keys("\u{e00c}").await;
    browser.until("return document.getElementById('keys').open", json!(false)).await;
    browser.keys("j").await;
    browser.keys("\u{e007}").await;
    browser.until("return location.pathname.includes('/jobs/acme/')", json!(true)).await;
    browser.click("#verb-retry").await;
    browser.until("return document.querySelector('h1 .state').textContent", json!("ready")).await;
    let found = record(&*store, &job.job_ref()).await.map(|record| record.view.state);
    assert_eq!(found, Some(State::Ready));
    browser.close().await;
}

async fn selections_and_refreshing(place: &Place) {
    let store = place.store().await;
    let mut jobs = Vec::new();
    for number in 0..4 {
        jobs.push(parked(&*store, kit::job("acme").on(format!("q{number}")), "broken").await);
    }
    let browser = Browser::open(&serve(store.clone(), &Who::Operator).await, true).await;
    browser.goto("/?state=parked").await;
    // By itself, when its time has come.
    jobs.push(parked(&*store, kit::job("acme").on("q4"), "broken").await);
    browser.until(ROWS, json!(5)).await;
    browser.run("document.querySelectorAll('input[name=job]')[0].click()").await;
    let third = "document.querySelectorAll('input[name=job]')[2]";
    browser
        .run(&format!(
            "{third}.dispatchEvent(new MouseEvent('click', {{ shiftKey: true, bubbles: true }}))"
        ))
        .await;
    browser
        .until("return document.getElementById('selected').textContent", json!("3 selected"))
        .await;
    // Nothing is exchanged under a selection.
    parked(&*store, kit::job("acme").on("q5"), "broken").await;
    browser.run("window.before = document.querySelector('[data-live]')").await;
    let refresh = "const done = arguments[0]; const asked = window.fetch;
        window.fetch = async (...all) => { const got = await asked(...all); setTimeout(done, 50); return got; };
        document.body.dispatchEvent(new KeyboardEvent('keydown', { key: 'r', bubbles: true }))";
    browser.client.execute_async(refresh, Vec::new()).await.expect("it asks");
    browser
        .until("return window.before === document.querySelector('[data-live]')", json!(true))
        .await;
    browser.until(ROWS, json!(5)).await;
    browser.click("button.retry").await;
    browser.until("return document.querySelector('h1').textContent", json!("Retry 3 jobs?")).await;
    browser.click("#sure").await;
    browser
        .until(
            "return document.querySelector('h1').textContent",
            json!("Retry: 3 jobs of 3 changed"),
        )
        .await;
    let states = jobs.iter().map(|job| job.job_ref());
    let mut ready = 0;
    for job in states {
        let found = record(&*store, &job).await.map(|record| record.view.state);
        ready += usize::from(found == Some(State::Ready));
    }
    assert_eq!(ready, 3);
    browser.close().await;
}

async fn it_works_without_script(place: &Place) {
    let store = place.store().await;
    let job = parked(&*store, kit::job("acme"), "broken").await;
    let browser = Browser::open(&serve(store.clone(), &Who::Member("acme")).await, false).await;
    browser.goto("/").await;
    assert_eq!(browser.find("#refreshing").await.text().await.expect("text"), "", "no script ran");
    browser.click("input[name=job]").await;
    browser.click("button.delete").await;
    browser.click("#sure").await;
    browser.find(".empty").await;
    assert!(record(&*store, &job.job_ref()).await.is_none());
    browser.close().await;
}

/// Jobs in every state, with every kind of text.
async fn furnish(store: &dyn Admin) -> Job {
    let hostile = "<script>alert(1)</script><img src=x onerror=alert(1)> \u{202e}evil שלום مرحبا";
    let payload =
        json!({ "invoice": 7, "to": ["ada@example.com", hostile], "note": "x".repeat(300) });
    let payload = Payload::encode(&payload).expect("JSON");
    let shown = Job { name: "invoice.send".into(), payload, ..kit::job("acme") };
    let shown =
        shown.on("mail").key(hostile).meta("traceparent", "00-0af7651916cd43dd8448eb211c80319c-1");
    for number in 0..12 {
        let tenant = ["acme", "globex", "initech"][number % 3];
        let job = kit::push(store, kit::job(tenant)).await;
        let held = kit::take_one(store).await;
        assert_eq!(held.job.id, job.id);
        let failed = number % 4 == 3;
        let settled = match failed {
            true => store.park(&held.claim, "550 mailbox unavailable".into()).await,
            false => store.ack(&held.claim).await,
        };
        settled.expect("it settles");
    }
    kit::push(store, kit::job("acme")).await;
    kit::take_one(store).await;
    kit::push(store, kit::job("globex")).await;
    let later = RunAt::After(Duration::from_secs(5400));
    kit::push(store, Job { run_at: later, ..kit::job("initech") }).await;
    let shown =
        parked(store, shown, format!("thread panicked: {hostile}\n  at src/mail.rs:17")).await;
    let worker = Worker {
        id: uuid::Uuid::new_v4(),
        label: "web-1".into(),
        queues: vec![kit::QUEUE.into(), "mail".into()],
        names: ["a", "b", "c", "d", "e", "noop"].map(str::to_owned).to_vec(),
        slots: 8,
        busy: 5,
        stuck: 1,
        leaving: false,
    };
    store.announce(&worker).await.expect("it is told");
    shown
}

async fn every_page_is_fit_to_be_seen(place: &Place) {
    let store = place.store().await;
    let job = furnish(&*store).await;
    let browser = Browser::open(&serve(store, &Who::Operator).await, true).await;
    let path = format!("/jobs/{}", job.job_ref());
    let mut found = Vec::new();
    for (name, path) in [
        ("jobs", "/"),
        ("nothing", "/?queue=nothing"),
        ("job", &path),
        ("queues", "/queues"),
        ("tenants", "/tenants"),
        ("workers", "/workers"),
    ] {
        browser.goto(path).await;
        for scheme in ["light", "dark"] {
            for (size, width) in [("wide", 1280), ("narrow", 390)] {
                browser.dress(scheme, width).await;
                browser.picture(&format!("{name}-{scheme}-{size}")).await;
                let over = "return document.documentElement.scrollWidth - document.documentElement.clientWidth";
                assert_eq!(browser.run(over).await, json!(0), "{name} is wider than {width}");
            }
            found.extend(
                browser.barriers().await.into_iter().map(|why| format!("{name} {scheme}: {why}")),
            );
        }
        assert_eq!(browser.run("return document.querySelectorAll('h1').length").await, json!(1));
    }
    assert!(found.is_empty(), "{found:#?}");
    browser.close().await;
}
