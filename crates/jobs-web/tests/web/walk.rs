//! Every route, by everybody. The routes are the crate's own table: a new one that this walk does not
//! know fails it.

use axum::{Router, http::StatusCode};
use jobs_core::{
    Admin, Job, JobId, JobRef, State,
    admin::{LaneChange, LaneRef, Pause},
    permit::{Cancel, Delete, Read, Retry, Tune, Verb},
    view::Lanes,
};
use jobs_testkit::kit;
use jobs_web::{ROUTES, Route};

use crate::{
    app::{Answer, Who, app, get, post, post_from},
    place::{Place, parked, record},
};

crate::tests![every_route_by_everybody, posts_of_other_sites_change_nothing];

const ACTIONS: [&str; 5] =
    [Read::ACTION, Retry::ACTION, Cancel::ACTION, Delete::ACTION, Tune::ACTION];

/// What a request is about, in acme. Everything that is not in the request itself is `covert`.
struct Target {
    job: JobRef,
    queue: String,
}

impl Target {
    /// A parked job in a queue of its own, which is paused where that is to be lifted.
    async fn new(store: &dyn Admin, route: &Route) -> Self {
        let queue = format!("q{}", JobId::new());
        let job = Job {
            name: "covert.job".into(),
            payload: jobs_core::Payload::from_json(r#""covert payload""#).expect("JSON"),
            ..kit::job("acme")
        };
        let job = job.on(&queue).key(format!("covert {queue}")).meta("note", "covert");
        let job = parked(store, job, "covert cause").await.job_ref();
        if route.path.ends_with("/resume") {
            let lane = LaneRef { queue: queue.clone(), tenant: Some("acme".into()) };
            let change = LaneChange { pause: Some(Pause::On), ..LaneChange::default() };
            store.set_lane(&kit::operator().await, &lane, change).await.expect("it pauses");
        }
        Self { job, queue }
    }

    /// Sends the route's request about it, or about an id that nobody has.
    async fn ask(&self, app: &Router, who: &Who, route: &Route, site: Option<&str>) -> Answer {
        let JobRef { tenant, id } = &self.job;
        let path_of_job = route.path.replace("{tenant}", tenant).replace("{id}", &id.to_string());
        let queue = &self.queue;
        let body = match route.path {
            "/retry" | "/cancel" | "/delete" => format!("sure=yes&job={tenant}/{id}"),
            "/pause" | "/resume" => format!("queue={queue}&tenant={tenant}"),
            "/api/retry" | "/api/cancel" | "/api/delete" => {
                format!(r#"{{"jobs":["{tenant}/{id}"]}}"#)
            }
            "/api/pause" | "/api/resume" => format!(r#"{{"queue":"{queue}","tenant":"{tenant}"}}"#),
            path if route.method == "GET" => {
                assert!(
                    !path.contains('{') || path.contains("/jobs/"),
                    "{path}: say what it is about"
                );
                return get(app, who, &path_of_job).await;
            }
            path => panic!("{path}: say what is sent to it"),
        };
        post_from(app, who, route.path, &body, site).await
    }

    /// What there is to see of it in the store.
    async fn seen(&self, store: &dyn Admin) -> (Option<State>, bool) {
        let state = record(store, &self.job).await.map(|record| record.view.state);
        let lanes = Lanes { queue: Some(self.queue.clone()), tenant: Some("acme".into()) };
        let counts = store.counts(&kit::operator().await, &lanes).await.expect("it counts");
        let paused = counts.lanes.iter().any(|lane| lane.settings.paused_until.is_some());
        (state, paused)
    }
}

/// What the route does to a parked job in a lane that is on, or to be resumed.
fn effect(route: &Route, before: (Option<State>, bool)) -> (Option<State>, bool) {
    match route.path.trim_start_matches("/api") {
        "/retry" => (Some(State::Ready), before.1),
        "/cancel" => (Some(State::Cancelled), before.1),
        "/delete" => (None, before.1),
        "/pause" => (before.0, true),
        "/resume" => (before.0, false),
        _ if route.method == "GET" => before,
        path => panic!("{path}: say what it does"),
    }
}

/// Is it of all tenants, so that no tenant's user sees it?
fn is_operators(route: &Route) -> bool {
    route.path.ends_with("/tenants")
}

/// Does it tell of jobs, rather than of the store and its workers?
fn tells(route: &Route) -> bool {
    !matches!(
        route.path,
        "/workers" | "/api/workers" | "/health" | "/metrics" | "/api/openapi.json"
    ) && route.method == "GET"
}

async fn every_route_by_everybody(place: &Place) {
    let store = place.store().await;
    let app = app(store.clone());
    let mut requests = 0;
    for route in ROUTES {
        assert!(ACTIONS.contains(&route.action), "{route:?}");
        let mut everybody = vec![
            Who::Nobody,
            Who::Broken,
            Who::Member("globex"),
            Who::Member("acme"),
            Who::Operator,
        ];
        everybody.extend(ACTIONS.map(|action| Who::Only(action, "acme")));
        everybody.extend(ACTIONS.map(|action| Who::Mistaken(action, "acme")));
        for who in everybody {
            let target = Target::new(&*store, route).await;
            let before = target.seen(&*store).await;
            let answer = target.ask(&app, &who, route, Some("same-origin")).await;
            let what = format!("{who:?} {} {}: {answer:?}", route.method, route.path);
            let may = match &who {
                Who::Nobody | Who::Broken => false,
                Who::Only(action, _) | Who::Mistaken(action, _) => *action == route.action,
                Who::Member(_) | Who::Operator => true,
            } && (who == Who::Operator || !is_operators(route));
            let own = who != Who::Member("globex");
            let after = target.seen(&*store).await;
            let changes = may && own;
            let expected = if changes { effect(route, before) } else { before };
            assert_eq!(after, expected, "{what}");
            if !may {
                let status = match who {
                    Who::Broken => StatusCode::SERVICE_UNAVAILABLE,
                    _ => StatusCode::FORBIDDEN,
                };
                assert_eq!(answer.status, status, "{what}");
            } else if own {
                assert!(answer.status.is_success() || answer.status.is_redirection(), "{what}");
                let operators = if is_operators(route) { "acme" } else { "covert" };
                let words = ["covert", &target.queue, operators];
                let shows = words.iter().any(|word| answer.body.contains(word));
                assert!(shows || !tells(route), "it shows nothing: {what}");
            } else {
                // Byte for byte what an id that nobody has gets, but for the id that was sent.
                let foreign = answer.body.replace(&target.job.id.to_string(), "ID");
                let job = JobRef { id: JobId::new(), ..target.job.clone() };
                let unknown = Target { job, ..target };
                let other = unknown.ask(&app, &who, route, Some("same-origin")).await;
                assert_eq!(answer.status, other.status, "{what}");
                if route.path.contains("{id}") || route.method == "POST" {
                    let other = other.body.replace(&unknown.job.id.to_string(), "ID");
                    assert_eq!(foreign, other, "{what}");
                }
            }
            if !changes {
                answer.hides(&["covert", "secret-host"]);
            }
            requests += 1;
        }
    }
    assert_eq!(requests, ROUTES.len() * 15);
}

async fn posts_of_other_sites_change_nothing(place: &Place) {
    let store = place.store().await;
    let app = app(store.clone());
    for route in ROUTES.iter().filter(|route| route.method == "POST") {
        for site in ["cross-site", "same-site", "", "nonsense"] {
            let target = Target::new(&*store, route).await;
            let before = target.seen(&*store).await;
            let answer = target.ask(&app, &Who::Operator, route, Some(site)).await;
            assert_eq!(answer.status, StatusCode::FORBIDDEN, "{site} {answer:?}");
            assert_eq!(target.seen(&*store).await, before, "{site} {route:?}");
        }
        // A program, which has no cookies of a browser's.
        let target = Target::new(&*store, route).await;
        let before = target.seen(&*store).await;
        let answer = target.ask(&app, &Who::Operator, route, None).await;
        assert!(answer.status.is_success() || answer.status.is_redirection(), "{answer:?}");
        assert_eq!(target.seen(&*store).await, effect(route, before), "{route:?}");
    }
    // A form cannot say that it is JSON.
    let target = Target::new(&*store, &ROUTES[0]).await;
    let body = format!("job={}", target.job);
    let answer = post(&app, &Who::Operator, "/api/delete", &body).await;
    assert_eq!(answer.status, StatusCode::UNSUPPORTED_MEDIA_TYPE);
    assert!(record(&*store, &target.job).await.is_some());
}
