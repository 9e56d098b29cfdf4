//! Retry, cancel and delete: says how many jobs it is about, then does it, then says what became of
//! each.

use axum::response::Response;
use jobs_core::{JobRef, json::Changed, words::count};
use maud::{Markup, html};

use super::{At, home, job_path, jobs::capital, page as whole, see_other};
use crate::{
    answer::Refused,
    app::Asked,
    fields::Fields,
    filter::{Filter, MOST},
    verbs::{JobVerb, why_not},
};

/// Jobs that are named one by one.
const NAMED: usize = 50;

pub(crate) async fn page(asked: &Asked<'_>, verb: JobVerb) -> Result<Response, Refused> {
    let jobs = asked.fields.jobs()?;
    if asked.fields.text("sure").is_none() {
        return Ok(whole(asked, At::Elsewhere, "Sure?", &question(asked, verb, &jobs)));
    }
    let sum = verb.apply(asked, &jobs).await?;
    // One job that changed shows it by itself.
    if let ([job], 1) = (jobs.as_slice(), sum.changed) {
        let path = match verb {
            JobVerb::Delete => back(asked),
            JobVerb::Retry | JobVerb::Cancel => job_path(asked.base, job),
        };
        return Ok(see_other(&path));
    }
    Ok(whole(asked, At::Elsewhere, "Done", &told(asked, &sum)))
}

/// The list that it came from: read as a filter and written again, so it leads nowhere else.
fn back(asked: &Asked<'_>) -> String {
    format!("{}{}", home(asked.base), query(asked))
}

fn query(asked: &Asked<'_>) -> String {
    let query = asked.fields.text("back").unwrap_or_default();
    let fields = Fields::parse(query.trim_start_matches('?').as_bytes());
    let filter = Filter::of(&fields, asked.is_operator(), MOST[0]);
    filter.query()
}

fn question(asked: &Asked<'_>, verb: JobVerb, jobs: &[JobRef]) -> Markup {
    let many = count(jobs.len() as u64, "job");
    let what = match verb {
        JobVerb::Retry => {
            "Parked and cancelled ones run again, with all their attempts. Others stay as they are."
        }
        JobVerb::Cancel => "Those that wait will not run. Those that run are asked to stop.",
        JobVerb::Delete => {
            "They and their history are removed; this cannot be taken back. One that runs stays: cancel it first."
        }
    };
    html! {
        h1 { (capital(verb.as_str())) " " (many) "?" }
        p { (what) }
        form method="post" action={ (asked.base) "/" (verb.as_str()) } {
            input type="hidden" name="sure" value="yes";
            input type="hidden" name="back" value=(query(asked));
            @for job in jobs { input type="hidden" name="job" value=(job); }
            div.verbs {
                button #sure class=(verb.as_str()) autofocus { (capital(verb.as_str())) " " (many) }
                a href=(back(asked)) { "Back to the list" }
            }
        }
        ul.named {
            @for job in jobs.iter().take(NAMED) { li { a href=(job_path(asked.base, job)) { (job) } } }
            @if jobs.len() > NAMED { li { "and " (jobs.len() - NAMED) " more" } }
        }
    }
}

fn told(asked: &Asked<'_>, sum: &Changed) -> Markup {
    let verb = capital(sum.verb);
    html! {
        h1 { (verb) ": " (count(sum.changed, "job")) " of " (sum.asked) " changed" }
        ul {
            @for (answer, number) in &sum.answers { li { (answer.replace('_', " ")) ": " (number) } }
        }
        @if !sum.unchanged.is_empty() {
            h2 { "Not changed" }
            div.wide tabindex="0" role="region" aria-label="Not changed" {
                table {
                    thead { tr { th scope="col" { "Job" } th scope="col" { "Why" } } }
                    tbody {
                        @for unchanged in sum.unchanged.iter().take(NAMED) {
                            tr { td { (unchanged.tenant) "/" (unchanged.id) } td { (why_not(unchanged)) } }
                        }
                    }
                }
            }
            @if sum.unchanged.len() > NAMED { p { "and " (sum.unchanged.len() - NAMED) " more" } }
        }
        p { a href=(back(asked)) { "Back to the list" } }
    }
}
