//! The list of jobs: what it finds, page by page.

use std::{collections::BTreeSet, time::Duration};

use axum::http::StatusCode;
use jobs_core::{Job, RunAt};
use jobs_testkit::kit;

use crate::{
    app::{Answer, BASE, Who, app, get, post},
    place::{Place, parked},
};

crate::tests![
    filters_filter,
    a_walk_sees_each_job_once,
    numbers_are_clamped,
    a_selection_is_counted_first
];

/// The ids of the jobs that are listed.
fn ids(answer: &Answer) -> Vec<String> {
    let links = answer.links().into_iter();
    let prefix = format!("{BASE}/jobs/");
    links.filter_map(|link| link.strip_prefix(&prefix).map(str::to_owned)).collect()
}

async fn filters_filter(place: &Place) {
    let store = place.store().await;
    let app = app(store.clone());
    let later = RunAt::After(Duration::from_secs(86_400));
    let mail = kit::job("acme").on("mail");
    let mail =
        parked(&*store, Job { name: "mail.send".into(), ..mail }, "550 <no such user>").await;
    let ready = kit::push(&*store, kit::job("acme")).await;
    let scheduled = kit::push(&*store, Job { run_at: later, ..kit::job("acme") }).await;
    let other = kit::push(&*store, kit::job("globex")).await;
    let [mail, ready, scheduled, other] = [mail, ready, scheduled, other].map(|job| job.job_ref());
    let (all, acme, ops) = (Who::Operator, Who::Member("acme"), Who::Operator);
    for (who, query, found) in [
        (&all, String::new(), vec![&other, &scheduled, &ready, &mail]),
        (&acme, String::new(), vec![&scheduled, &ready, &mail]),
        (&acme, "?state=parked".into(), vec![&mail]),
        (&acme, "?state=scheduled".into(), vec![&scheduled]),
        (&acme, "?queue=mail".into(), vec![&mail]),
        (&acme, "?name=mail.send".into(), vec![&mail]),
        (&acme, "?cause=%3Cno+such".into(), vec![&mail]),
        (&acme, "?cause=nothing".into(), vec![]),
        (&acme, "?queue=mail&state=ready".into(), vec![]),
        // A tenant's user is of its own tenant, whatever is typed.
        (&acme, "?tenant=globex".into(), vec![&scheduled, &ready, &mail]),
        (&ops, "?tenant=globex".into(), vec![&other]),
        (&ops, format!("?id={}", ready.id), vec![&ready]),
    ] {
        let answer = get(&app, who, &format!("/{query}")).await;
        let found: Vec<_> = found.into_iter().map(ToString::to_string).collect();
        assert_eq!((answer.status, ids(&answer)), (StatusCode::OK, found), "{who:?} {query}");
    }
    let answer = get(&app, &acme, &format!("/?id={}", mail.id)).await;
    assert_eq!(answer.header("location"), format!("{BASE}/jobs/{mail}"), "it is looked up");
    let answer = get(&app, &ops, &format!("/?id={mail}")).await;
    assert_eq!(answer.header("location"), format!("{BASE}/jobs/{mail}"));
    get(&app, &acme, "/?queue=A").await.says(&["Nothing can match", "given as queue"]);
    get(&app, &acme, "/?cause=nothing").await.says(&["Nothing matches."]);
    get(&app, &Who::Member("initech"), "/").await.says(&["There are no jobs yet."]);
}

async fn a_walk_sees_each_job_once(place: &Place) {
    let store = place.store().await;
    let app = app(store.clone());
    let mut pushed = BTreeSet::new();
    for number in 0..25 {
        let tenant = if number % 5 == 0 { "globex" } else { "acme" };
        pushed.insert(kit::push(&*store, kit::job(tenant)).await.job_ref().to_string());
    }
    for (who, most) in [(Who::Operator, 25), (Who::Member("acme"), 20)] {
        let (mut path, mut seen) = ("/?page=7".to_owned(), Vec::new());
        loop {
            let answer = get(&app, &who, &path).await;
            assert_eq!(answer.status, StatusCode::OK);
            seen.extend(ids(&answer));
            let next = answer.body.split("rel=\"next\" href=\"").nth(1);
            let Some(next) = next.and_then(|rest| rest.split('"').next()) else { break };
            path = next.replace("&amp;", "&");
        }
        let once: BTreeSet<_> = seen.iter().cloned().collect();
        assert_eq!((seen.len(), once.len()), (most, most), "{who:?}");
        assert!(once.is_subset(&pushed));
    }
}

async fn numbers_are_clamped(place: &Place) {
    let store = place.store().await;
    let app = app(store.clone());
    for _ in 0..3 {
        kit::push(&*store, kit::job("acme")).await;
    }
    for (typed, shown) in [("2", 2), ("0", 1), ("-5", 1), ("99999999999999999999999", 3), ("x", 3)]
    {
        let answer = get(&app, &Who::Operator, &format!("/?page={typed}")).await;
        assert_eq!(ids(&answer).len(), shown, "{typed}");
        let answer = get(&app, &Who::Operator, &format!("/api/jobs?page={typed}")).await;
        assert_eq!(answer.json()["jobs"].as_array().map(Vec::len), Some(shown), "{typed}");
    }
}

async fn a_selection_is_counted_first(place: &Place) {
    let store = place.store().await;
    let app = app(store.clone());
    let mut body = "back=%3Fstate%3Dparked%26x%3Dhttps://evil.example".to_owned();
    for number in 0..3 {
        let job = parked(&*store, kit::job("acme").on(format!("q{number}")), "broken").await;
        body.push_str(&format!("&job={}", job.job_ref()));
    }
    let who = Who::Member("acme");
    let asks = post(&app, &who, "/retry", &body).await;
    asks.says(&["Retry 3 jobs?", "state=parked"]).hides(&["evil.example/"]);
    let links = asks.links();
    assert!(links.iter().all(|link| link.starts_with(BASE) || link == "#main"), "{links:?}");
    let parked = get(&app, &who, "/?state=parked").await;
    assert_eq!(ids(&parked).len(), 3, "nothing happened yet");
    let unknown = jobs_core::JobId::new();
    let told = post(&app, &who, "/retry", &format!("{body}&sure=yes&job=acme/{unknown}")).await;
    told.says(&["Retry: 3 jobs of 4 changed", "no such job", &unknown.to_string()]);
    assert_eq!(ids(&get(&app, &who, "/?state=ready").await).len(), 3);
    for (body, words) in [("", "No job was selected."), ("job=x", "tenant/id")] {
        let answer = post(&app, &who, "/retry", body).await;
        assert_eq!(answer.status, StatusCode::BAD_REQUEST);
        answer.says(&[words]);
    }
    let many: String =
        (0..1001).map(|_| format!("job=acme/{}&", jobs_core::JobId::new())).collect();
    let answer = post(&app, &who, "/delete", &many).await;
    assert_eq!(answer.status, StatusCode::BAD_REQUEST);
    answer.says(&["At most 1,000"]);
    let answer = post(&app, &who, "/delete", &"x".repeat(300 * 1024)).await;
    assert_eq!(answer.status, StatusCode::PAYLOAD_TOO_LARGE);
}
