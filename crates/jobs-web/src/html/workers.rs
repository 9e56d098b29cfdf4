//! Workers: who lives, what they know, and how busy they are.

use std::time::Duration;

use axum::response::Response;
use jobs_core::words::between;
use maud::{Markup, html};

use super::{At, page as whole, time, txt};
use crate::{answer::Refused, app::Asked};

/// A worker says that it lives every 10 s; it is forgotten after a minute.
const STALE: Duration = Duration::from_secs(25);
/// Names that are shown without being opened.
const SHOWN: usize = 4;

pub(crate) async fn page(asked: &Asked<'_>) -> Result<Response, Refused> {
    let permit = asked.permit()?;
    let now = asked.store().check(&permit).await?.now;
    let workers = asked.store().workers(&permit).await?;
    let body = html! {
        h1 { "Workers" }
        div #live data-live {
            @if workers.is_empty() {
                div.empty {
                    p { strong { "No worker is alive." } }
                    p { "Jobs wait until one is started: the " code { "worker" } " command of the application." }
                }
            } @else {
                div.wide tabindex="0" role="region" aria-label="Workers" {
                    table {
                        caption.unseen { "Workers that live" }
                        thead { tr {
                            th scope="col" { "Worker" } th scope="col" { "Slots" } th scope="col" { "Queues" }
                            th scope="col" { "Knows" } th scope="col" { "Started" } th scope="col" { "Seen" }
                        } }
                        tbody {
                            @for view in &workers {
                                @let worker = &view.worker;
                                tr {
                                    th scope="row" dir="auto" {
                                        @if !worker.label.is_empty() { (txt(&worker.label)) br; }
                                        small.id { (worker.id) }
                                    }
                                    td {
                                        meter min="0" max=(worker.slots) value=(worker.busy)
                                            aria-label={ (worker.busy) " of " (worker.slots) " slots busy" } {}
                                        " " (worker.busy) " of " (worker.slots)
                                        @if worker.stuck > 0 { " " strong.bad { (worker.stuck) " stuck" } }
                                        @if worker.leaving { " " small { "leaving" } }
                                    }
                                    td { (names(&worker.queues)) }
                                    td { (names(&worker.names)) }
                                    td { (time(view.since, now)) }
                                    td {
                                        (time(view.seen, now))
                                        @if between(view.seen, now) > STALE { " " strong.bad { "stale" } }
                                    }
                                }
                            }
                        }
                    }
                }
            }
        }
    };
    Ok(whole(asked, At::Workers, "Workers", &body))
}

fn names(names: &[String]) -> Markup {
    let joined = |names: &[String]| txt(&names.join(", "));
    html! {
        @if names.len() <= SHOWN { (joined(names)) }
        @else { details { summary { (joined(&names[..SHOWN])) ", …" } (joined(&names[SHOWN..])) } }
    }
}
