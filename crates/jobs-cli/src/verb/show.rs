//! `show`: everything that is known of one job.

use std::borrow::Cow;

use clap::Args;
use jobs_core::{
    Admin, State, Timeout,
    view::{Holder, JobRecord},
};

use super::Session;
use crate::{
    json,
    stop::Stop,
    text::{self, count, span, when},
};

/// Of a payload, for people.
const PAYLOAD: usize = 2000;

/// Show one job: attempts, holder, payload, and who pushed and changed it
#[derive(Debug, Args)]
pub(crate) struct Show {
    /// The job: <TENANT>/<UUID>, or its UUID where --tenant says whose
    id: String,
}

impl Show {
    pub async fn run<A: Admin>(self, session: &Session<A>) -> Result<u8, Stop> {
        let job = session.access.job(&self.id)?;
        let permit = session.access.permit().await?;
        let Some(record) = session.store.get(&permit, &job).await? else {
            let scope = session.access.words();
            return Err(Stop::failed(format!("there is no job {job} {scope}")));
        };
        match session.out.json {
            true => session.out.object(&json::Show::from(&record))?,
            false => session.out.say(in_words(&record))?,
        }
        Ok(0)
    }
}

fn in_words(record: &JobRecord) -> String {
    let (view, now) = (&record.view, record.now);
    let job = &view.job;
    let mut lines = vec![format!("{} {}", job.name, job.job_ref())];
    let mut fact = |what: &str, is: String| lines.push(format!("  {what:<12} {is}"));
    let asked = if view.cancel_requested { ", asked to stop" } else { "" };
    fact("state", format!("{}{asked}", view.state));
    fact("queue", format!("{}, priority {}", job.queue, job.priority));
    let by = text::line(&job.authorized_by);
    fact("pushed by", format!("{by}, to do {}, {}", job.action, when(view.pushed_at, now)));
    if let Some(due) = json::due(job.run_at) {
        fact("due", when(due, now));
    }
    if let Some(at) = view.finished_at {
        fact("ended", when(at, now));
    }
    let most = job.max_attempts.map(|most| format!(" of {most}")).unwrap_or_default();
    let back = match (record.snoozes, record.releases) {
        (0, 0) => String::new(),
        (snoozes, releases) => format!(", snoozed {snoozes} and given back {releases} times"),
    };
    fact("attempts", format!("{}{most}{back}", view.attempt));
    match job.timeout {
        Timeout::Default => {}
        Timeout::After(limit) => fact("timeout", span(limit)),
        Timeout::Never => fact("timeout", "none".to_owned()),
    }
    if let Some(key) = &job.key {
        fact("key", text::line(&key.text).into_owned());
    }
    for (name, value) in &job.metadata {
        fact("metadata", format!("{} = {}", text::line(name), text::line(value)));
    }
    match &record.holder {
        Some(holder) => fact("held by", held(holder, record)),
        None if view.state == State::Running => fact("held by", "nobody".to_owned()),
        None => {}
    }
    if let Some(last) = &record.last_verb {
        let (verb, by) = (text::line(&last.verb), text::line(&last.by));
        fact("changed", format!("{verb} by {by}, {}", when(last.at, now)));
    }
    fact("payload", payload(job.payload.as_str()));
    let number = record.attempts.len() as u64;
    if number > 0 {
        lines.push(format!("\n{} on record:", count(number, "attempt")));
    }
    for attempt in &record.attempts {
        let took = span(text::between(attempt.started_at, attempt.ended_at));
        let (outcome, worker) = (attempt.outcome, called(&attempt.worker));
        let at = when(attempt.ended_at, now);
        lines.push(format!("  {}. {outcome} after {took}, {at}, by {worker}", attempt.number));
        for line in attempt.cause.iter().flat_map(|cause| cause.as_str().lines()) {
            lines.push(format!("     {}", text::line(line)));
        }
    }
    lines.join("\n")
}

/// A worker calls itself by its label, a colon and its identity; the label may be empty.
fn called(worker: &str) -> Cow<'_, str> {
    text::line(worker.trim_start_matches(':'))
}

fn held(holder: &Holder, record: &JobRecord) -> String {
    let now = record.now;
    let (worker, since) = (called(&holder.worker), when(holder.started_at, now));
    let renewed = when(holder.renewed_at, now);
    let end = match holder.lease_until > now {
        true => format!("its lease ends {}", when(holder.lease_until, now)),
        false => format!(
            "its lease ended {}: a worker's next sweep takes it back",
            when(holder.lease_until, now)
        ),
    };
    let place = " ".repeat(15);
    format!("{worker} since {since}\n{place}last renewed {renewed}\n{place}{end}")
}

fn payload(json: &str) -> String {
    let shown = text::line(text::cut(json.trim(), PAYLOAD).as_ref()).into_owned();
    match shown.ends_with('…') && !json.trim().ends_with('…') {
        true => format!("{shown} ({}; --json shows all)", count(json.len() as u64, "byte")),
        false => shown,
    }
}
