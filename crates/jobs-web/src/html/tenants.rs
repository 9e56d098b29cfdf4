//! Tenants, for operators: who has which share of the work, and who waits.

use axum::{http::StatusCode, response::Response};
use jobs_core::{view::Lanes, words::grouped};
use maud::html;

use super::{At, chart::chart, home, length, number, page as whole, queues::too_many};
use crate::{answer::Refused, app::Asked, sums::by_tenant};

/// Refuses a tenant's user before the store is asked.
pub(crate) fn operators_only(asked: &Asked<'_>) -> Result<(), Refused> {
    let words = "This page is of all tenants: it is for operators.";
    if asked.is_operator() { Ok(()) } else { Err(Refused::new(StatusCode::FORBIDDEN, words)) }
}

pub(crate) async fn page(asked: &Asked<'_>) -> Result<Response, Refused> {
    operators_only(asked)?;
    let permit = asked.permit()?;
    let now = asked.store().check(&permit).await?.now;
    let counts = asked.store().counts(&permit, &Lanes::default()).await?;
    let tenants = by_tenant(&counts, now);
    let running: u64 = tenants.values().map(|sum| sum.running.number).sum();
    let ended: u64 = tenants.values().flat_map(|sum| sum.hour()).sum();
    let mut sorted: Vec<_> = tenants.iter().collect();
    // Who waits longest comes first.
    sorted.sort_by_key(|(_, sum)| std::cmp::Reverse(sum.oldest));
    let body = html! {
        h1 { "Tenants" }
        div #live data-live {
            @if !counts.complete { (too_many()) }
            @if sorted.is_empty() {
                div.empty { p { strong { "No tenant has jobs or settings." } } }
            } @else {
                div.wide tabindex="0" role="region" aria-label="Tenants" {
                    table {
                        caption.unseen { "Tenants, the longest-waiting first" }
                        thead { tr {
                            th scope="col" { "Tenant" }
                            th.n scope="col" { "Waiting" } th.n scope="col" { "Oldest" }
                            th.n scope="col" { "Running" } th.n scope="col" { "Share of running" }
                            th.n scope="col" { "Parked" } th.n scope="col" { "Share of the hour" }
                            th scope="col" { "Last hour" } th.n scope="col" { "Weight" }
                        } }
                        tbody {
                            @for (tenant, sum) in sorted {
                                tr {
                                    th scope="row" { a href={ (home(asked.base)) "?tenant=" (tenant) } { (tenant) } }
                                    td.n { (number(sum.waiting)) }
                                    td.n { (length(sum.oldest)) }
                                    td.n { (number(sum.running)) }
                                    td.n { (share(sum.running.number, running)) }
                                    td.n { a.some[sum.parked.number > 0]
                                        href={ (home(asked.base)) "?tenant=" (tenant) "&state=parked" } { (number(sum.parked)) } }
                                    td.n { (share(sum.hour().iter().sum(), ended)) }
                                    td { (chart(sum, tenant)) }
                                    td.n { a href={ (asked.base) "/queues?tenant=" (tenant) } { (weights(&sum.weights)) } }
                                }
                            }
                        }
                    }
                }
            }
        }
    };
    Ok(whole(asked, At::Tenants, "Tenants", &body))
}

fn share(of: u64, all: u64) -> String {
    match all {
        0 => "–".to_owned(),
        all => format!("{} %", u128::from(of) * 100 / u128::from(all)),
    }
}

/// `3`, or `1 to 3` where its queues differ.
fn weights(weights: &[u32]) -> String {
    match (weights.iter().min(), weights.iter().max()) {
        (Some(least), Some(most)) if least == most => grouped((*least).into()),
        (Some(least), Some(most)) => format!("{least} to {most}"),
        _ => "1".to_owned(),
    }
}
