//! Queues: what is in them, for how long, what an hour brought; pause and resume.

use std::time::Duration;

use axum::response::Response;
use jobs_core::{Timestamp, admin::Pause, permit::Tune, view::Lanes, words::until};
use maud::{Markup, html};

use super::{At, chart::chart, home, length, number, page as whole, see_other};
use crate::{
    answer::Refused,
    app::Asked,
    fields::pause_of,
    sums::{Sum, by_queue},
    verbs::{deadline, tune},
};

/// Minutes of a pause: to a year.
const MOST_MINUTES: u64 = 525_600;

pub(crate) async fn page(asked: &Asked<'_>) -> Result<Response, Refused> {
    let permit = asked.permit()?;
    let tenant = asked.tenant()?;
    let now = asked.store().check(&permit).await?.now;
    let lanes = Lanes { queue: None, tenant: tenant.clone() };
    let counts = asked.store().counts(&permit, &lanes).await?;
    let queues = by_queue(&counts, now);
    let may_tune = asked.may::<Tune>().await;
    let body = html! {
        h1 { "Queues" }
        @if asked.is_operator() { (narrow(asked, "/queues")) }
        div #live data-live {
            @if !counts.complete { (too_many()) }
            @if queues.is_empty() {
                div.empty { p { strong { "No queue has jobs or settings." } } p { "A queue is there when a job is pushed into it." } }
            } @else {
                div.wide tabindex="0" role="region" aria-label="Queues" {
                    table {
                        caption.unseen { "Queues" }
                        thead { tr {
                            th scope="col" { "Queue" }
                            th.n scope="col" { "Waiting" } th.n scope="col" { "Oldest" }
                            th.n scope="col" { "Running" } th.n scope="col" { "Scheduled" }
                            th.n scope="col" { "Parked" } th scope="col" { "Last hour" }
                            th scope="col" { "Deliveries" }
                        } }
                        tbody {
                            @for (queue, sum) in &queues {
                                tr {
                                    th scope="row" { a href=(list(asked, queue, None)) { (queue) } }
                                    (counts_of(asked, queue, sum))
                                    td { (chart(sum, queue)) }
                                    td { (paused(sum, now)) @if may_tune { (tuning(asked, queue, tenant.as_deref(), sum)) } }
                                }
                            }
                        }
                    }
                }
            }
        }
    };
    Ok(whole(asked, At::Queues, "Queues", &body))
}

/// Of a queue or of a tenant, in the order of the headings.
fn counts_of(asked: &Asked<'_>, queue: &str, sum: &Sum) -> Markup {
    html! {
        td.n { a href=(list(asked, queue, Some("ready"))) { (number(sum.waiting)) } }
        td.n { (length(sum.oldest)) }
        td.n { a href=(list(asked, queue, Some("running"))) { (number(sum.running)) } }
        td.n { a href=(list(asked, queue, Some("scheduled"))) { (number(sum.scheduled)) } }
        td.n { a.some[sum.parked.number > 0] href=(list(asked, queue, Some("parked"))) { (number(sum.parked)) } }
    }
}

/// Names of queues and tenants stand in a URL as they are.
fn list(asked: &Asked<'_>, queue: &str, state: Option<&str>) -> String {
    let state = state.map(|state| format!("&state={state}")).unwrap_or_default();
    let tenant = asked.fields.text("tenant").filter(|_| asked.is_operator());
    let tenant = tenant.map(|tenant| format!("&tenant={tenant}")).unwrap_or_default();
    format!("{}?queue={queue}{tenant}{state}", home(asked.base))
}

pub(super) fn too_many() -> Markup {
    html! {
        p.banner role="status" {
            "There are more lanes than are counted one by one (1,000): these are the ones where jobs wait first."
        }
    }
}

pub(super) fn narrow(asked: &Asked<'_>, path: &str) -> Markup {
    let tenant = asked.fields.search("tenant");
    html! {
        form.filter #filter method="get" action={ (asked.base) (path) } role="search" aria-label="Filter" {
            label { span { "Tenant" } input name="tenant" value=[tenant.as_deref()] autocomplete="off" spellcheck="false"; }
            button { "Filter" }
            @if tenant.is_some() { a href={ (asked.base) (path) } { "Clear" } }
        }
    }
}

fn paused(sum: &Sum, now: Timestamp) -> Markup {
    html! {
        @match sum.paused_until {
            None => { span.on { "on" } }
            Some(at) => {
                span.paused {
                    "paused "
                    @if sum.paused < sum.lanes { "for " (sum.paused) " of " (sum.lanes) " tenants, " }
                    (until(at, now))
                }
                @if deadline(Some(at)).is_none() { " " small { "no deadline" } }
            }
        }
    }
}

fn tuning(asked: &Asked<'_>, queue: &str, tenant: Option<&str>, sum: &Sum) -> Markup {
    let hidden = html! {
        input type="hidden" name="queue" value=(queue);
        @if asked.is_operator() { input type="hidden" name="tenant" value=[tenant]; }
    };
    html! {
        div.tune {
            @if sum.paused < sum.lanes || sum.lanes == 0 {
                form method="post" action={ (asked.base) "/pause" } {
                    (hidden)
                    label { span.unseen { "Pause " (queue) " for minutes; empty is until resumed" }
                        input.short name="minutes" inputmode="numeric" placeholder="min" autocomplete="off"; }
                    button { "Pause" span.unseen { " " (queue) } }
                }
            }
            @if sum.paused > 0 {
                form method="post" action={ (asked.base) "/resume" } {
                    (hidden)
                    button { "Resume" span.unseen { " " (queue) } }
                }
            }
        }
    }
}

pub(crate) async fn pause(asked: &Asked<'_>) -> Result<Response, Refused> {
    let pause = match asked.fields.text("minutes") {
        None => Pause::On,
        Some(_) => {
            let minutes = asked.fields.number("minutes", 1, MOST_MINUTES, 0);
            if minutes == 0 {
                return Err(Refused::bad(
                    "For how many minutes? Leave it empty for until it is resumed.",
                ));
            }
            Pause::For(pause_of(Duration::from_secs(minutes * 60).as_secs_f64()))
        }
    };
    tuned(asked, pause).await
}

pub(crate) async fn resume(asked: &Asked<'_>) -> Result<Response, Refused> {
    tuned(asked, Pause::Off).await
}

async fn tuned(asked: &Asked<'_>, pause: Pause) -> Result<Response, Refused> {
    let tenant = asked.tenant()?;
    let done = tune(asked, asked.fields.text("queue"), tenant, pause).await?;
    let narrowed =
        done.tenant.filter(|_| asked.is_operator()).map(|tenant| format!("?tenant={tenant}"));
    Ok(see_other(&format!("{}/queues{}", asked.base, narrowed.unwrap_or_default())))
}
