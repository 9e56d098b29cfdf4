//! Why jobs are not running, from the facts alone: one function for each reason.

use std::{collections::BTreeSet, time::Duration};

use super::Facts;
use crate::{
    json::Finding,
    queue::Worker,
    view::LaneCounts,
    words::{count, is_endless, line, span, until, when},
};
use jiff::SignedDuration;

/// Something is wrong.
pub const PROBLEM: &str = "problem";
/// Somebody wants it so, or it is in order.
pub const NOTE: &str = "note";

/// Clocks of machines that are kept right agree better than that.
const APART: Duration = Duration::from_secs(2);
/// A worker that is alive sweeps every 5 s.
const UNSWEPT: Duration = Duration::from_secs(15);
/// A worker with a free slot looks at its queues every 5 s at least.
const NOT_TAKEN: Duration = Duration::from_secs(60);
/// Findings of one kind that are told one by one.
const TOLD: usize = 10;

/// Every reason, problems first.
pub fn find(facts: &Facts) -> Vec<Finding> {
    let mut found = Vec::new();
    for reasons in [
        store, clock, no_worker, not_known, stuck, expired, not_taken, paused, busy, scheduled,
        parked,
    ] {
        let mut found_so = reasons(facts);
        let more = found_so.len().saturating_sub(TOLD);
        found_so.truncate(TOLD);
        if let Some(last) = found_so.last_mut().filter(|_| more > 0) {
            last.what.push_str(&format!(" (and {more} more of this kind)"));
        }
        found.append(&mut found_so);
    }
    found.sort_by_key(|finding| finding.level != PROBLEM);
    found
}

fn problem(kind: &'static str, what: String, remedy: impl Into<String>) -> Finding {
    Finding { level: PROBLEM, kind, what, remedy: remedy.into() }
}

pub(super) fn note(kind: &'static str, what: String, remedy: impl Into<String>) -> Finding {
    Finding { level: NOTE, kind, what, remedy: remedy.into() }
}

/// The store's own findings say what to do.
fn store(facts: &Facts) -> Vec<Finding> {
    let findings = facts.check.findings.iter();
    let remedy = "This is the store's own check; until it is right, jobs may be lost or late.";
    findings.map(|finding| problem("store", line(finding).into_owned(), remedy)).collect()
}

fn clock(facts: &Facts) -> Vec<Finding> {
    let apart = facts.clock_ahead.unsigned_abs();
    if apart <= APART {
        return Vec::new();
    }
    let (apart, which) = (
        span(apart),
        match facts.clock_ahead > SignedDuration::ZERO {
            true => "ahead of",
            false => "behind",
        },
    );
    let what = format!("the store's clock is {apart} {which} this machine's");
    let remedy = "The store's clock decides. A job pushed for a time of this machine's starts that much \
                  early or late: keep both clocks right, by NTP.";
    vec![problem("clock", what, remedy)]
}

fn no_worker(facts: &Facts) -> Vec<Finding> {
    if !facts.workers.is_empty() {
        return Vec::new();
    }
    let remedy = "Start one: the `worker` command of this program.";
    if facts.sum.waiting.number == 0 {
        let what = "no worker is alive; what is pushed now waits for one".to_owned();
        return vec![note("no_worker", what, remedy)];
    }
    let what = format!(
        "no worker is alive, and {}, the longest for {}",
        jobs_wait(facts.sum.waiting.number, facts.sum.waiting.or_more),
        span(facts.oldest)
    );
    vec![problem("no_worker", what, remedy)]
}

fn not_known(facts: &Facts) -> Vec<Finding> {
    if facts.workers.is_empty() {
        return Vec::new();
    }
    let mut found = Vec::new();
    let mut unworked = BTreeSet::new();
    for ((queue, name), tenants) in &facts.due {
        let here: Vec<_> = workers_of(facts, queue).collect();
        if here.is_empty() {
            if unworked.insert(queue) {
                let of_it = facts.due.iter().filter(|((other, _), _)| other == queue);
                let number = of_it.flat_map(|(_, tenants)| tenants.values()).sum();
                let what = format!(
                    "no live worker works the queue {queue}, and {} there",
                    jobs_wait(number, false)
                );
                let remedy = format!(
                    "Start one with --queue {queue}, or name the queue in the application's worker."
                );
                found.push(problem("queue_not_worked", what, remedy));
            }
        } else if !here.iter().any(|worker| worker.names.contains(name)) {
            let what = format!(
                "no live worker of queue {queue} knows the name {name}, and {} for one",
                jobs_wait(tenants.values().sum(), false)
            );
            let remedy = format!(
                "Deploy workers whose release has a handler for {name}. If the name is wrong, \
                 `jobs delete --queue {queue} --name {name} --state ready` removes them."
            );
            found.push(problem("name_not_known", what, remedy));
        }
    }
    found
}

fn stuck(facts: &Facts) -> Vec<Finding> {
    let stuck = facts.workers.iter().map(|view| &view.worker).filter(|worker| worker.stuck > 0);
    stuck
        .map(|worker| {
            let (slots, own) = (count(worker.slots.into(), "slot"), worker.stuck);
            let what = format!(
                "{own} of {slots} of worker {} are held by a handler that ignored its timeout",
                called(worker)
            );
            let remedy = "Restart that worker. The handler blocks its thread: it must await, or watch \
                          is_cancelled() of its context.";
            problem("stuck", what, remedy)
        })
        .collect()
}

fn expired(facts: &Facts) -> Vec<Finding> {
    let unswept: Vec<_> = facts.expired.iter().filter(|(_, late)| *late > UNSWEPT).collect();
    let Some((job, longest)) = unswept.iter().max_by_key(|(_, late)| *late) else {
        return Vec::new();
    };
    let what = format!(
        "{} held by a silent worker past the lease, and nobody takes them back; {job} for {}",
        match unswept.len() {
            1 => "1 job is".to_owned(),
            more => format!("{} are", count(more as u64, "job")),
        },
        span(*longest)
    );
    let remedy = match facts.workers.is_empty() {
        true => "Any worker sweeps, of any queue: start one.",
        false => "Any live worker should have swept: look for store errors in the workers' logs.",
    };
    vec![problem("expired", what, remedy)]
}

/// Known, not paused, a free slot, and yet it waits.
fn not_taken(facts: &Facts) -> Vec<Finding> {
    let mut found = Vec::new();
    for lane in waiting_long(facts) {
        // Where one of its names is known to nobody, that may be what waits.
        let here = facts.due.iter().filter(|((queue, _), tenants)| {
            *queue == lane.queue && tenants.contains_key(&lane.tenant)
        });
        let names: Vec<_> = here.map(|((_, name), _)| name).collect();
        let free = workers_of(facts, &lane.queue).any(|worker| {
            worker.busy < worker.slots && names.iter().all(|name| worker.names.contains(name))
        });
        if free && !names.is_empty() {
            let what = format!(
                "jobs of queue {} of tenant {} wait for {}, though a worker with a free slot knows \
                 their names",
                lane.queue,
                lane.tenant,
                span(lane.oldest)
            );
            let remedy = "Look for store errors in the workers' logs; `jobs list --state ready` shows \
                          which jobs.";
            found.push(problem("not_taken", what, remedy));
        }
    }
    found
}

fn paused(facts: &Facts) -> Vec<Finding> {
    let now = facts.check.now;
    let paused = facts.counts.lanes.iter().filter_map(|lane| {
        let end = lane.settings.paused_until?;
        let by = lane.settings.changed.as_ref().filter(|changed| changed.verb == "pause");
        let by = by.map(|changed| format!(", by {} {}", line(&changed.by), when(changed.at, now)));
        let what = format!(
            "queue {} of tenant {} is paused {}{}; {} there",
            lane.queue,
            lane.tenant,
            until(end, now),
            by.unwrap_or_default(),
            jobs_wait(lane.waiting.number, lane.waiting.or_more)
        );
        let resume = format!("`jobs resume {}`", lane.queue);
        let whose = "with --tenant for one lane, as an operator for the queue";
        let remedy = match is_endless(end) {
            true => format!("It stays so until somebody types {resume}, {whose}."),
            false => format!("It ends by itself. {resume} ends it now, {whose}."),
        };
        Some(note("paused", what, remedy))
    });
    paused.collect()
}

fn busy(facts: &Facts) -> Vec<Finding> {
    let mut queues = BTreeSet::new();
    let mut found = Vec::new();
    for lane in waiting_long(facts) {
        let here: Vec<_> = workers_of(facts, &lane.queue).collect();
        let full = !here.is_empty() && here.iter().all(|worker| worker.busy >= worker.slots);
        if full && queues.insert(&lane.queue) {
            let slots = here.iter().map(|worker| u64::from(worker.slots)).sum();
            let what = format!(
                "all {} of the workers of queue {} are busy, and jobs wait for {}",
                count(slots, "slot"),
                lane.queue,
                span(lane.oldest)
            );
            found.push(note("busy", what, "Start more workers, or give them more --concurrency."));
        }
    }
    found
}

fn scheduled(facts: &Facts) -> Vec<Finding> {
    let (sum, now) = (&facts.sum, facts.check.now);
    if sum.waiting.number + sum.running.number > 0 || sum.scheduled.number == 0 {
        return Vec::new();
    }
    let first = facts.next.iter().min_by_key(|(_, (at, _))| *at);
    let next = first.map(|(queue, (at, all))| {
        let (most, at) = (if *all { "" } else { " at the latest" }, when(*at, now));
        format!("; the next is due {at}{most}, in queue {queue}")
    });
    let number = jobs(sum.scheduled.number, sum.scheduled.or_more);
    let what = format!("nothing is due: {number} scheduled for later{}", next.unwrap_or_default());
    vec![note(
        "scheduled",
        what,
        "They start by themselves when they are due, if a worker is alive.",
    )]
}

fn parked(facts: &Facts) -> Vec<Finding> {
    let parked = facts.sum.parked;
    if parked.number == 0 {
        return Vec::new();
    }
    let what = format!(
        "{} for a person, after all attempts or a handler that gave up",
        jobs_wait(parked.number, parked.or_more)
    );
    let remedy = "`jobs list --state parked` tells why; `jobs retry`, `jobs cancel` or `jobs delete` \
                  decides.";
    vec![note("parked", what, remedy)]
}

/// Lanes where jobs wait long, and nobody paused them.
fn waiting_long(facts: &Facts) -> impl Iterator<Item = &LaneCounts> {
    let lanes = facts.counts.lanes.iter();
    lanes.filter(|lane| lane.settings.paused_until.is_none() && lane.oldest > NOT_TAKEN)
}

fn workers_of<'a>(facts: &'a Facts, queue: &'a str) -> impl Iterator<Item = &'a Worker> {
    let workers = facts.workers.iter().map(|view| &view.worker);
    workers.filter(move |worker| worker.queues.iter().any(|own| own == queue))
}

/// A tenant sees no label.
fn called(worker: &Worker) -> String {
    match worker.label.is_empty() {
        true => worker.id.to_string(),
        false => format!("{} ({})", line(&worker.label), worker.id),
    }
}

/// `1 job waits`, `2 jobs wait`.
fn jobs_wait(number: u64, or_more: bool) -> String {
    let ending = if number == 1 && !or_more { "s" } else { "" };
    format!("{} wait{ending}", jobs(number, or_more))
}

fn jobs(number: u64, or_more: bool) -> String {
    match (number, or_more) {
        (number, true) => format!("{} or more", count(number, "job")),
        (number, false) => count(number, "job"),
    }
}
