//! Why one job is not running.

use super::{
    Facts,
    reasons::{find, note},
};
use crate::{
    State,
    json::{Finding, due},
    view::JobRecord,
    words::{between, count, line, span, when},
};

/// What is not about one job, or is said better of one.
const OF_MANY: [&str; 2] = ["scheduled", "parked"];

/// Why this job is not running, worst first, from [`Facts::of_job`]; nothing for a job that runs or
/// has ended.
pub fn why(record: &JobRecord, facts: &Facts) -> Vec<Finding> {
    let view = &record.view;
    let later = due(view.job.run_at).filter(|at| *at > record.now);
    match view.state {
        State::Done | State::Cancelled => Vec::new(),
        State::Parked => vec![parked(record)],
        State::Running if facts.expired.is_empty() => Vec::new(),
        State::Running => waiting(facts),
        State::Scheduled | State::Ready => match later {
            Some(at) => {
                let what = format!("it is due {}", when(at, record.now));
                let mut found = waiting(facts);
                // What is true of the lane by now will hold it then too.
                found.insert(0, note("later", what, "It starts by itself when it is due."));
                found
            }
            None => {
                let found = waiting(facts);
                if found.is_empty() { vec![in_line(record, facts)] } else { found }
            }
        },
    }
}

fn waiting(facts: &Facts) -> Vec<Finding> {
    let mut found = find(facts);
    found.retain(|finding| !OF_MANY.contains(&finding.kind));
    found
}

fn parked(record: &JobRecord) -> Finding {
    let view = &record.view;
    let most = view.job.max_attempts.map(|most| format!(" of {most}")).unwrap_or_default();
    let cause = view.last_cause.as_ref().and_then(|cause| cause.as_str().lines().next());
    let cause = cause.map(|cause| format!(": {}", line(cause))).unwrap_or_default();
    let what = format!("it gave up after attempt {}{most}{cause}", view.attempt);
    note("parked", what, "A person decides: retry it, cancel it or delete it.")
}

fn in_line(record: &JobRecord, facts: &Facts) -> Finding {
    let waits = due(record.view.job.run_at).map(|at| between(at, record.now)).unwrap_or_default();
    let what = format!(
        "it is in line for {}, one of {} of its tenant in its queue, the longest for {}",
        span(waits),
        match facts.sum.waiting.or_more {
            true => format!("{} or more", count(facts.sum.waiting.number, "job")),
            false => count(facts.sum.waiting.number, "job"),
        },
        span(facts.oldest)
    );
    let remedy = "Workers take from each tenant in turn, and in a tenant by priority and age: it starts \
                  by itself.";
    note("in_line", what, remedy)
}
