//! One job: what became of it, who holds it, and why it is not running.

use axum::response::Response;
use jobs_core::{
    JobRef, State, Timeout,
    doctor::{Facts, PROBLEM, why},
    json::{Finding, due},
    names::is_tenant,
    permit::{Cancel, Delete, Read, Retry},
    view::{Attempt, JobRecord},
    words::{between, grouped, span},
};
use maud::{Markup, html};

use super::{At, called, full_time, home, jobs::capital, lines, page as whole, state, txt};
use crate::{answer::Refused, app::Asked, verbs::JobVerb};

/// Bytes of a payload that are shown; the JSON API has all of it.
const PAYLOAD: usize = 128 * 1024;
/// Deeper values are not moved further to the right.
const DEPTH: usize = 16;

/// The job that the path names, by the same statement whosever it is.
pub(crate) async fn job_of(asked: &Asked<'_>) -> Result<JobRecord, Refused> {
    let permit = asked.permit::<Read>()?;
    let mut parts = asked.parts.uri.path().rsplit('/');
    let id = parts.next().and_then(|id| id.parse().ok());
    let tenant = parts.next().filter(|tenant| is_tenant(tenant));
    let (Some(id), Some(tenant)) = (id, tenant) else { return Err(Refused::no_job()) };
    let job = JobRef { tenant: tenant.to_owned(), id };
    asked.store().get(&permit, &job).await?.ok_or_else(Refused::no_job)
}

pub(crate) async fn page(asked: &Asked<'_>) -> Result<Response, Refused> {
    let record = job_of(asked).await?;
    let facts = Facts::of_job(asked.store(), &asked.permit()?, &record).await?;
    let job = &record.view.job;
    let body = html! {
        p.crumb { a href=(home(asked.base)) { "Jobs" } }
        h1 { (txt(&job.name)) " " (state(record.view.state)) }
        div #live data-live {
            (verbs(asked, &record).await)
            (reasons(&record, &why(&record, &facts)))
            div.columns {
                section aria-labelledby="facts" { h2 #facts { "Facts" } (facts_of(asked, &record)) }
                section aria-labelledby="lease" { h2 #lease { "Lease" } (lease(&record)) }
            }
            section aria-labelledby="attempts" {
                h2 #attempts { "Attempts" }
                (timeline(&record))
            }
            section aria-labelledby="payload" {
                h2 #payload { "Payload" }
                (payload(job.payload.as_str()))
            }
        }
    };
    Ok(whole(asked, At::Elsewhere, &txt(&job.name), &body))
}

async fn verbs(asked: &Asked<'_>, record: &JobRecord) -> Markup {
    let mut shown = Vec::new();
    for verb in [JobVerb::Retry, JobVerb::Cancel, JobVerb::Delete] {
        let asked_already = verb == JobVerb::Cancel && record.view.cancel_requested;
        let fits = verb.fits(record.view.state) && !asked_already;
        if fits
            && match verb {
                JobVerb::Retry => asked.may::<Retry>().await,
                JobVerb::Cancel => asked.may::<Cancel>().await,
                JobVerb::Delete => asked.may::<Delete>().await,
            }
        {
            shown.push(verb);
        }
    }
    let job = record.view.job.job_ref();
    html! {
        div.verbs {
            @for verb in shown {
                form method="post" action={ (asked.base) "/" (verb.as_str()) } {
                    input type="hidden" name="job" value=(job);
                    // What can be taken back is done at once.
                    @if verb == JobVerb::Retry { input type="hidden" name="sure" value="yes"; }
                    button #{ "verb-" (verb.as_str()) } class=(verb.as_str()) {
                        (capital(verb.as_str())) @if verb != JobVerb::Retry { "…" }
                    }
                }
            }
        }
    }
}

fn reasons(record: &JobRecord, found: &[Finding]) -> Markup {
    html! {
        @if !found.is_empty() {
            section.why aria-labelledby="why" {
                h2 #why { "Why is this job not running?" }
                ul {
                    @for finding in found {
                        li.problem[finding.level == PROBLEM] data-kind=(finding.kind) {
                            strong { (capital(&finding.what)) "." }
                            " " (remedy(finding))
                        }
                    }
                }
            }
        } @else if record.view.state == State::Running {
            p.banner { "It is running." @if record.view.cancel_requested { " It was asked to stop." } }
        }
    }
}

/// Where core's remedy is a command, what is done here.
fn remedy(finding: &Finding) -> String {
    match finding.kind {
        "paused" => "A pause without a deadline stays until somebody resumes the queue, on the page Queues.",
        "name_not_known" => {
            "Deploy workers whose release has a handler for it. If the name is wrong, delete the job."
        }
        "not_taken" => "Look for store errors in the workers' logs.",
        _ => return lines(&finding.remedy),
    }
    .to_owned()
}

fn facts_of(asked: &Asked<'_>, record: &JobRecord) -> Markup {
    let (view, now) = (&record.view, record.now);
    let job = &view.job;
    let most = job.max_attempts.map(|most| format!(" of {}", grouped(most.into())));
    html! {
        dl {
            dt { "Id" } dd { code { (job.id) } }
            dt { "Queue" } dd { a href={ (home(asked.base)) "?queue=" (job.queue) } { (txt(&job.queue)) } }
            dt { "Tenant" } dd { (job.tenant) }
            dt { "Pushed" } dd { (full_time(view.pushed_at, now)) }
            dt { "By" } dd dir="auto" { (txt(&job.authorized_by)) ", to do " code { (txt(&job.action)) } }
            @if let Some(at) = due(job.run_at) { dt { "Due" } dd { (full_time(at, now)) } }
            @if let Some(at) = view.finished_at { dt { "Ended" } dd { (full_time(at, now)) } }
            dt { "Attempt" } dd { (grouped(view.attempt.into())) @if let Some(most) = most { (most) } }
            @if record.snoozes > 0 { dt { "Snoozed" } dd { (grouped(record.snoozes.into())) " times" } }
            @if record.releases > 0 { dt { "Given back" } dd { (grouped(record.releases.into())) " times" } }
            dt { "Priority" } dd { (job.priority) }
            @match job.timeout {
                Timeout::Default => {}
                Timeout::After(limit) => { dt { "Timeout" } dd { (span(limit)) } }
                Timeout::Never => { dt { "Timeout" } dd { "none" } }
            }
            @if let Some(key) = &job.key { dt { "Key" } dd dir="auto" { (txt(&key.text)) } }
            @for (name, value) in &job.metadata {
                dt dir="auto" { (txt(name)) } dd dir="auto" { (txt(value)) }
            }
            @if let Some(last) = &record.last_verb {
                dt { "Changed" }
                dd dir="auto" { (txt(&last.verb)) " by " (txt(&last.by)) ", " (full_time(last.at, now)) }
            }
        }
    }
}

fn lease(record: &JobRecord) -> Markup {
    let now = record.now;
    html! {
        dl {
            dt { "Fence" } dd { code { (record.fence) } }
            @match &record.holder {
                None => { dt { "Holder" } dd { "nobody" } }
                Some(holder) => {
                    dt { "Holder" } dd dir="auto" { (called(&holder.worker)) }
                    dt { "Since" } dd { (full_time(holder.started_at, now)) }
                    dt { "Renewed" } dd { (full_time(holder.renewed_at, now)) }
                    dt { "Taken back" }
                    dd {
                        @if holder.lease_until > now {
                            "if it is silent until " (full_time(holder.lease_until, now))
                        } @else {
                            "by the next sweep: its lease ended " (full_time(holder.lease_until, now))
                        }
                    }
                }
            }
            @if let Some(before) = earlier(record) { dt { "Earlier" } dd dir="auto" { (before) } }
        }
    }
}

/// Who held it before, newest first, with the fence of each.
fn earlier(record: &JobRecord) -> Option<String> {
    let holders = record.attempts.iter().rev().take(5);
    let holders: Vec<_> = holders
        .map(|attempt| format!("{} (fence {})", called(&attempt.worker), attempt.fence))
        .collect();
    (!holders.is_empty()).then(|| holders.join(", "))
}

fn timeline(record: &JobRecord) -> Markup {
    let now = record.now;
    html! {
        @if record.attempts.is_empty() && record.holder.is_none() {
            p { "None has ended yet." }
        }
        ol.timeline {
            @if let Some(holder) = &record.holder {
                li.running {
                    strong { "Running" } ", attempt " (record.view.attempt) ", since "
                    (full_time(holder.started_at, now)) ", by " (called(&holder.worker))
                }
            }
            @for attempt in record.attempts.iter().rev() { (ended(attempt, record)) }
        }
    }
}

fn ended(attempt: &Attempt, record: &JobRecord) -> Markup {
    let took = span(between(attempt.started_at, attempt.ended_at));
    html! {
        li class=(attempt.outcome.as_str()) {
            strong { (capital(attempt.outcome.as_str())) } ", attempt " (attempt.number) ", after " (took)
            ", " (full_time(attempt.ended_at, record.now)) ", by " span dir="auto" { (called(&attempt.worker)) }
            @if let Some(cause) = &attempt.cause {
                pre dir="auto" tabindex="0" { (lines(cause.as_str())) }
            }
        }
    }
}

fn payload(json: &str) -> Markup {
    let end = json.floor_char_boundary(PAYLOAD);
    let shown = lines(&indented(&json[..end]));
    html! {
        @if end < json.len() {
            p.banner { "The first " (grouped(end as u64)) " of " (grouped(json.len() as u64))
                " bytes; the JSON API has all." }
        }
        pre #json tabindex="0" dir="ltr" { code { (shown) } }
    }
}

/// On several lines. Every token stays as it was pushed: a number is text here, never rounded.
fn indented(json: &str) -> String {
    let mut out = String::with_capacity(json.len() * 2);
    let (mut depth, mut in_text, mut escaped) = (0_usize, false, false);
    let mut chars = json.chars().peekable();
    let new_line = |out: &mut String, depth: usize| {
        out.push('\n');
        out.extend(std::iter::repeat_n("  ", depth.min(DEPTH)));
    };
    while let Some(char) = chars.next() {
        if in_text {
            out.push(char);
            in_text = escaped || char != '"';
            escaped = !escaped && char == '\\';
            continue;
        }
        match char {
            ' ' | '\t' | '\n' | '\r' => {}
            '{' | '[' => {
                out.push(char);
                while chars.next_if(|next| next.is_ascii_whitespace()).is_some() {}
                if chars.peek().is_some_and(|next| matches!(next, '}' | ']')) {
                    continue;
                }
                depth += 1;
                new_line(&mut out, depth);
            }
            '}' | ']' => {
                if !out.ends_with(['{', '[']) {
                    depth = depth.saturating_sub(1);
                    new_line(&mut out, depth);
                }
                out.push(char);
            }
            ',' => {
                out.push(char);
                new_line(&mut out, depth);
            }
            ':' => out.push_str(": "),
            '"' => {
                in_text = true;
                out.push(char);
            }
            _ => out.push(char),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::indented;

    #[test]
    fn a_payload_is_indented_and_nothing_in_it_changes() {
        let json = r#"{"a":[9223372036854775807, 1e999,{}, [ ]],"b\"{":"[,:\\"}"#;
        let lines = "{\n  \"a\": [\n    9223372036854775807,\n    1e999,\n    {},\n    []\n  ],\n  \
                     \"b\\\"{\": \"[,:\\\\\"\n}";
        assert_eq!(indented(json), lines);
        assert_eq!(indented("null"), "null");
        let deep = "[".repeat(30_000) + &"]".repeat(30_000);
        assert!(indented(&deep).len() < deep.len() * 40);
    }
}
