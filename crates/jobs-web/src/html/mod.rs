//! The pages: what they share. One file for each page.

use std::time::Duration;

use axum::{
    http::StatusCode,
    response::{Html, IntoResponse, Response},
};
use jobs_core::{
    JobRef, State, Timestamp,
    view::Count,
    words::{between, grouped, line, printable, span, when},
};
use maud::{DOCTYPE, Markup, html};

use crate::{answer::Refused, app::Asked, assets};

pub(crate) mod change;
mod chart;
pub(crate) mod job;
pub(crate) mod jobs;
pub(crate) mod queues;
pub(crate) mod tenants;
pub(crate) mod workers;

/// Where in the page one is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum At {
    Jobs,
    Queues,
    Tenants,
    Workers,
    Elsewhere,
}

fn page(asked: &Asked<'_>, at: At, title: &str, body: &Markup) -> Response {
    let whose = match asked.grant.tenant() {
        Some(tenant) => format!("tenant {tenant}"),
        None => "all tenants".to_owned(),
    };
    let links = [
        (At::Jobs, home(asked.base).to_owned(), "Jobs"),
        (At::Queues, format!("{}/queues", asked.base), "Queues"),
        (At::Tenants, format!("{}/tenants", asked.base), "Tenants"),
        (At::Workers, format!("{}/workers", asked.base), "Workers"),
    ];
    let nav = html! {
        nav aria-label="Pages" {
            @for (to, path, words) in links {
                @if to != At::Tenants || asked.is_operator() {
                    a href=(path) aria-current=[(to == at).then_some("page")] { (words) }
                }
            }
        }
        p.who { (whose) span.by { " · " (txt(asked.grant.subject())) } }
    };
    Html(document(asked.base, title, &nav, body).into_string()).into_response()
}

/// Says what went wrong, and nothing else.
pub(crate) fn refused(base: &str, refused: &Refused) -> Response {
    let title = refused.status.canonical_reason().unwrap_or("Refused");
    let nav = html! { nav aria-label="Pages" { a href=(home(base)) { "Jobs" } } };
    let body = html! {
        h1 { (title) }
        p.banner.bad role="alert" { (txt(&refused.words)) }
        p { a href=(home(base)) { "To the list of jobs" } }
    };
    (refused.status, Html(document(base, title, &nav, &body).into_string())).into_response()
}

fn document(base: &str, title: &str, nav: &Markup, body: &Markup) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title) " · jobs" }
                link rel="icon" type="image/svg+xml" href={ (base) (assets::icon_path()) };
                link rel="stylesheet" href={ (base) (assets::style_path()) };
                script src={ (base) (assets::script_path()) } defer {}
            }
            body {
                a.skip href="#main" { "To the content" }
                header { (nav) }
                main #main tabindex="-1" { (body) }
                footer {
                    p { "Times are UTC, by the store's clock." }
                    p #refreshing {}
                }
            }
        }
    }
}

/// What a user wrote, with what would not be seen, or turn the writing around, written out.
fn txt(text: &str) -> String {
    line(text).into_owned()
}

/// The same over several lines.
fn lines(text: &str) -> String {
    printable(text).into_owned()
}

/// How long ago or hence, and when.
fn time(at: Timestamp, now: Timestamp) -> Markup {
    let relative = match at > now {
        true => format!("in {}", span(between(now, at))),
        false => format!("{} ago", span(between(at, now))),
    };
    html! { time datetime=(at) title=(when(at, now)) { (relative) } }
}

/// The same, both to be read.
fn full_time(at: Timestamp, now: Timestamp) -> Markup {
    html! { time datetime=(at) { (when(at, now)) } }
}

fn length(of: Duration) -> String {
    if of.is_zero() { "–".to_owned() } else { span(of) }
}

fn number(of: Count) -> String {
    format!("{}{}", grouped(of.number), if of.or_more { "+" } else { "" })
}

fn state(of: State) -> Markup {
    html! { span class={ "state " (of.as_str()) } { (of.as_str()) } }
}

/// The list of jobs: a nested router has its first page without a slash at the end.
fn home(base: &str) -> &str {
    if base.is_empty() { "/" } else { base }
}

fn job_path(base: &str, job: &JobRef) -> String {
    format!("{base}/jobs/{}/{}", job.tenant, job.id)
}

/// A worker calls itself by its label, a colon and its identity; the label may be empty.
fn called(worker: &str) -> String {
    txt(worker.trim_start_matches(':'))
}

/// Not `Html`, which says 200.
fn see_other(path: &str) -> Response {
    (StatusCode::SEE_OTHER, [(axum::http::header::LOCATION, path)]).into_response()
}
