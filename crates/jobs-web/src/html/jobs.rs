//! The list of jobs.

use axum::response::Response;
use jobs_core::{
    JobRef, State,
    json::due,
    names::is_tenant,
    permit::{Cancel, Delete, Read, Retry},
    view::{JobView, Page},
    words::cut,
};
use maud::{Markup, html};

use super::{At, home, job_path, page as whole, see_other, state, time, txt};
use crate::{
    answer::Refused,
    app::Asked,
    filter::{Filter, MOST},
    verbs::JobVerb,
};

/// Characters of a cause in the list.
const CAUSE: usize = 120;

pub(crate) async fn page(asked: &Asked<'_>) -> Result<Response, Refused> {
    let filter = Filter::of(&asked.fields, asked.is_operator(), MOST[0]);
    if let Some(job) = named(asked, &filter) {
        return Ok(see_other(&job_path(asked.base, &job)));
    }
    let permit = asked.permit::<Read>()?;
    let found = match filter.list() {
        Some(list) => Some(asked.store().list(&permit, &list).await?),
        None => None,
    };
    let mut verbs = Vec::new();
    for (verb, may) in [
        (JobVerb::Retry, asked.may::<Retry>().await),
        (JobVerb::Cancel, asked.may::<Cancel>().await),
        (JobVerb::Delete, asked.may::<Delete>().await),
    ] {
        if may {
            verbs.push(verb);
        }
    }
    let body = html! {
        h1 { "Jobs" }
        (states(asked, &filter))
        (form(asked, &filter))
        div #live data-live {
            @match &found {
                None => (wrong(asked, &filter)),
                Some(page) if page.jobs.is_empty() && page.complete && page.next.is_none() => {
                    (none(asked, &filter))
                }
                Some(page) => (list(asked, &filter, page, &verbs)),
            }
        }
    };
    Ok(whole(asked, At::Jobs, "Jobs", &body))
}

/// A job whose tenant is known is looked up instead of searched for.
fn named(asked: &Asked<'_>, filter: &Filter) -> Option<JobRef> {
    let (tenant, id) = match asked.fields.text("id")?.split_once('/') {
        Some((tenant, id)) => (Some(tenant.to_owned()), id.parse().ok()?),
        None => (asked.tenant().ok()?, filter.id?),
    };
    let tenant = tenant.filter(|tenant| is_tenant(tenant))?;
    Some(JobRef { tenant, id })
}

fn states(asked: &Asked<'_>, filter: &Filter) -> Markup {
    let tab = |words: &str, state: Option<State>| {
        let query = filter.with_state(state).query();
        let current = (filter.state == state).then_some("true");
        html! { a href={ (home(asked.base)) (query) } aria-current=[current] { (words) } }
    };
    html! {
        nav.tabs aria-label="States" {
            (tab("all", None))
            @for state in State::ALL { (tab(state.as_str(), Some(state))) }
        }
    }
}

fn form(asked: &Asked<'_>, filter: &Filter) -> Markup {
    let field = |name: &str, label: &str, value: Option<&str>| {
        html! {
            label { span { (label) } input name=(name) value=[value] autocomplete="off" spellcheck="false"; }
        }
    };
    html! {
        form.filter #filter method="get" action=(home(asked.base)) role="search" aria-label="Filter" {
            @if let Some(state) = filter.state { input type="hidden" name="state" value=(state); }
            (field("queue", "Queue", filter.queue.as_deref()))
            @if asked.is_operator() { (field("tenant", "Tenant", filter.tenant.as_deref())) }
            (field("name", "Name", filter.name.as_deref()))
            (field("cause", "Cause has", filter.cause.as_deref()))
            (field("id", "Job id", asked.fields.search("id").as_deref()))
            button { "Filter" }
            @if filter.is_any() { a href=(home(asked.base)) { "Clear" } }
        }
    }
}

fn wrong(asked: &Asked<'_>, filter: &Filter) -> Markup {
    html! {
        p.banner role="status" {
            "Nothing can match: what is given as " (filter.wrong.join(" and "))
            " is none. Names have lower-case letters, digits, and . _ : - between them. "
            a href=(home(asked.base)) { "Clear the filter" }
        }
    }
}

fn none(asked: &Asked<'_>, filter: &Filter) -> Markup {
    html! {
        @if filter.is_any() || filter.after.is_some() {
            div.empty {
                p { strong { "Nothing matches." } }
                p { a href=(home(asked.base)) { "Show all jobs" } }
            }
        } @else {
            div.empty {
                p { strong { "There are no jobs yet." } }
                p { "The application pushes one under a Grant:" }
                pre tabindex="0" { code { "store.push(&grant, SendInvoice(7)).await?;" } }
            }
        }
    }
}

fn list(asked: &Asked<'_>, filter: &Filter, page: &Page, verbs: &[JobVerb]) -> Markup {
    html! {
        form #selection method="post" action={ (asked.base) "/retry" } {
            input type="hidden" name="back" value=(filter.query());
            @if !verbs.is_empty() {
                div.verbs role="group" aria-label="Do with the selected jobs" {
                    span #selected role="status" {}
                    @for verb in verbs {
                        button formaction={ (asked.base) "/" (verb.as_str()) } class=(verb.as_str()) {
                            (capital(verb.as_str())) " selected…"
                        }
                    }
                }
            }
            div.wide tabindex="0" role="region" aria-label="Jobs" {
                table #jobs {
                    caption.unseen { "Jobs, newest first" }
                    thead { tr {
                        @if !verbs.is_empty() { th.pick scope="col" { span.unseen { "Select" } } }
                        th scope="col" { "State" }
                        th scope="col" { "Name" }
                        th scope="col" { "Queue" }
                        @if asked.is_operator() { th scope="col" { "Tenant" } }
                        th.n scope="col" { "Attempt" }
                        th scope="col" { "Pushed" }
                        th scope="col" { "Due or ended" }
                        th scope="col" { "Last cause" }
                    } }
                    tbody {
                        @for view in &page.jobs { (row(asked, page, view, !verbs.is_empty())) }
                    }
                }
            }
        }
        (end(asked, filter, page))
    }
}

fn row(asked: &Asked<'_>, page: &Page, view: &JobView, can_pick: bool) -> Markup {
    let (job, named) = (&view.job, view.job.job_ref());
    let at = view.finished_at.or_else(|| due(job.run_at));
    let cause = view.last_cause.as_ref().map(|cause| cut(cause.as_str(), CAUSE).replace('\n', " "));
    let cause = cause.map(|cause| txt(&cause));
    html! {
        tr {
            @if can_pick {
                td.pick {
                    input type="checkbox" name="job" value=(named) id={ "pick-" (named) }
                        aria-label={ "Select " (txt(&job.name)) " " (job.id) };
                }
            }
            td { (state(view.state)) @if view.cancel_requested { " " small { "asked to stop" } } }
            td { a.job id={ "job-" (named) } href=(job_path(asked.base, &named)) { (txt(&job.name)) }
                br; small.id { (job.id) } }
            td { (txt(&job.queue)) }
            @if asked.is_operator() { td { (job.tenant) } }
            td.n { (view.attempt) @if let Some(most) = job.max_attempts { " of " (most) } }
            td { (time(view.pushed_at, page.now)) }
            td { @if let Some(at) = at { (time(at, page.now)) } }
            td.cause dir="auto" { @if let Some(cause) = cause { (cause) } }
        }
    }
}

fn end(asked: &Asked<'_>, filter: &Filter, page: &Page) -> Markup {
    html! {
        @if !page.complete {
            p.banner role="status" {
                "Not all jobs were looked at: a page looks at 1,000. Go on for more."
            }
        }
        nav.pages aria-label="More jobs" {
            @if filter.after.is_some() {
                a href={ (home(asked.base)) (filter.after(None).query()) } { "Newest" }
            }
            @if page.next.is_some() {
                a rel="next" href={ (home(asked.base)) (filter.after(page.next.as_ref()).query()) } { "Older" }
            }
        }
    }
}

pub(super) fn capital(word: &str) -> String {
    let (first, rest) = word.split_at(word.len().min(1));
    first.to_uppercase() + rest
}
