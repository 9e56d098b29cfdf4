//! What users write, in every field that takes text.

use axum::http::StatusCode;
use jobs_core::{
    Cause, Grant, Job, Payload, QueueExt, grant_without_user,
    queue::{Pushed, Worker},
};
use jobs_testkit::kit;

use crate::{
    app::{Who, app, get, post},
    place::{Place, parked},
};

crate::tests![every_text_field_takes_everything, every_parameter_takes_everything];

/// As it would run, and what it must not become.
const MARKUP: [&str; 7] = [
    "<script>alert(1)</script>",
    "\"><img src=x onerror=alert(1)>",
    "'><svg/onload=alert(1)>",
    "</pre></code></td><h1>owned",
    "<!-- ",
    "javascript:alert(1)",
    "&lt;script&gt;",
];
/// Turned around, unseen, controls.
const MARKS: &str = "\u{202e}evil\u{2066}\u{200f}\u{feff}\u{1b}[2J\u{7}\u{85}";

fn corpus() -> String {
    format!("{}{MARKS} שלום مرحبا 日本 👩‍👩‍👧 {}", MARKUP.join(" "), "é".repeat(40))
}

/// No text became markup, and nothing in it is a control or a mark.
#[track_caller]
fn is_harmless(body: &str) {
    for markup in &MARKUP[..5] {
        assert!(!body.contains(markup), "{markup} stands in {body}");
    }
    assert_eq!(body.matches("<script").count(), 1, "the page's own");
    for text in ["<img", "<svg/", "<h1>owned", "onload=alert(1)>", "<!--"] {
        assert!(!body.contains(text), "{text} in {body}");
    }
    let bad = |char: &char| {
        char.is_control() && *char != '\n' || MARKS.contains(*char) && !char.is_ascii_graphic()
    };
    // A field shows what was typed into it as it is; controls are not among that.
    let outside = body.split("value=\"").enumerate().map(|(place, text)| match place {
        0 => text,
        _ => text.split_once('"').map_or("", |(_, rest)| rest),
    });
    let found: Vec<_> = outside.flat_map(str::chars).filter(bad).collect();
    assert!(found.is_empty(), "{found:?}");
}

fn subject(text: &str) -> Grant {
    let text = &text[..text.floor_char_boundary(180)].replace('\0', "");
    grant_without_user(text, kit::ACTION, "acme").expect("a subject")
}

async fn every_text_field_takes_everything(place: &Place) {
    let store = place.store().await;
    let app = app(store.clone());
    let text = corpus();
    let grant = subject(&text);
    let mut job =
        Job::new(&grant, "hostile", &serde_json::json!({ &text: [&text, "\0"] })).expect("JSON");
    job = job.on("mail").key(&text[..text.floor_char_boundary(250)]);
    job = job.meta("<b>name", &text[..text.floor_char_boundary(500)]);
    let pushed = store.push(&grant, job.clone()).await.expect("the store answers");
    assert_eq!(pushed, Pushed::Stored);
    let request =
        jobs_core::queue::Reserve::new("mail", ["hostile"], &text[..text.floor_char_boundary(120)]);
    let request = request.expect("legal").slots(1);
    let held = store.reserve(&request).await.expect("the store answers").deliveries.remove(0);
    let cause = Cause::new(format!("{text}\0{}", "<b>".repeat(400_000)));
    store.park(&held.claim, cause).await.expect("it parks");
    let worker = Worker {
        id: uuid::Uuid::new_v4(),
        label: text[..text.floor_char_boundary(120)].to_owned(),
        queues: vec!["mail".into()],
        names: vec!["hostile".into()],
        slots: 1,
        busy: 0,
        stuck: 0,
        leaving: false,
    };
    store.announce(&worker).await.expect("it is told");
    let named = job.job_ref();
    for path in
        ["/", "/?state=parked", &format!("/jobs/{named}"), "/queues", "/tenants", "/workers"]
    {
        let answer = get(&app, &Who::Operator, path).await;
        assert_eq!(answer.status, StatusCode::OK, "{path}");
        is_harmless(&answer.body);
    }
    let page = get(&app, &Who::Operator, &format!("/jobs/{named}")).await;
    page.says(&["&lt;script&gt;alert(1)", "שלום", "\\u{202e}", "👩"]);
    let json = get(&app, &Who::Operator, &format!("/api/jobs/{named}")).await.json();
    assert_eq!(json["payload"][&text][0], text, "the value is the same");
    assert_eq!(json["payload"][&text][1], "\0");
    // As large as a payload may be, and as deep.
    let deep = "[".repeat(30_000) + &"]".repeat(30_000);
    let wide = format!("\"{}\"", "<b>".repeat(21_000));
    for payload in [deep, wide] {
        let payload = Payload::from_json(payload).expect("JSON");
        let job = kit::push(&*store, Job { payload, ..kit::job("acme") }).await;
        let answer = get(&app, &Who::Operator, &format!("/jobs/{}", job.job_ref())).await;
        assert_eq!(answer.status, StatusCode::OK);
        assert!(!answer.body.contains("<b>") && answer.body.len() < 4_000_000);
    }
}

async fn every_parameter_takes_everything(place: &Place) {
    let store = place.store().await;
    let app = app(store.clone());
    let job = parked(&*store, kit::job("acme"), "broken").await;
    let megabyte = "%3Cb%3E".repeat(150_000);
    let encoded: String = corpus().bytes().map(|byte| format!("%{byte:02x}")).collect();
    for value in [encoded.as_str(), "%00", "%FF%FE", "%", "%zz", "%F0%9F", &megabyte] {
        for name in ["state", "queue", "tenant", "name", "id", "cause", "after", "page"] {
            for path in
                ["/", "/queues", "/tenants", "/workers", "/api/jobs", "/api/queues", "/health"]
            {
                // No server takes a line of a megabyte; a form's body may have one.
                let short = &value[..value.len().min(60_000)];
                let answer = get(&app, &Who::Operator, &format!("{path}?{name}={short}")).await;
                let ok =
                    answer.status == StatusCode::OK || answer.status == StatusCode::BAD_REQUEST;
                assert!(ok, "{path} {name} {}: {}", &short[..short.len().min(40)], answer.status);
                if answer.header("content-type").starts_with("text/html") {
                    is_harmless(&answer.body);
                }
            }
        }
        for (path, name) in
            [("/retry", "job"), ("/pause", "queue"), ("/pause", "tenant"), ("/delete", "back")]
        {
            let body = format!("{name}={value}&minutes={value}&x={value}");
            let answer = post(&app, &Who::Operator, path, &body).await;
            assert!(answer.status.is_client_error(), "{path} {name}: {}", answer.status);
            is_harmless(&answer.body);
        }
        let back = format!("job={}&back={}", job.job_ref(), &value[..value.len().min(9000)]);
        let answer = post(&app, &Who::Operator, "/delete", &back).await;
        assert_eq!(answer.status, StatusCode::OK);
        is_harmless(&answer.body);
    }
    for path in [
        "/jobs/a/b",
        "/jobs/%00/x",
        "/jobs/acme/%FF",
        "/jobs/../x",
        "/jobs/acme/00000000-0000-0000-0000-000000000000",
    ] {
        let answer = get(&app, &Who::Operator, path).await;
        assert_eq!(answer.status, StatusCode::NOT_FOUND, "{path}");
        is_harmless(&answer.body);
    }
    for body in [
        "{",
        "{}",
        r#"{"jobs":[1]}"#,
        r#"{"jobs":["\u0000"]}"#,
        r#"{"jobs":[],"x":1}"#,
        r#"{"queue":"\u0000"}"#,
    ] {
        for path in ["/api/retry", "/api/delete", "/api/pause", "/api/resume"] {
            let answer = post(&app, &Who::Operator, path, body).await;
            assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{path} {body}");
        }
    }
}
