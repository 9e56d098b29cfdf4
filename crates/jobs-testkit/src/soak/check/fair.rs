//! Fair (R5): a newcomer's job is among the next 2·T·b deliveries of its queue.
//!
//! The bound holds from any moment on, so each stretch of its wait that nothing disturbed is judged by
//! itself. Counted are deliveries of reserves that were sent in the stretch and answered in it; or, up
//! to its own delivery, that the store has on record as earlier. Those are certainly before its own,
//! so the count is never more than the truth and needs no allowance for what the workers held.

use std::collections::BTreeSet;

use jobs_core::{Claim, JobRef, Timestamp, queue::LANE_BATCH};

use super::{Evidence, Violation};
use crate::soak::{
    danger::Span,
    ledger::{Event, Line},
    probe::QUEUE,
    read::{Story, Take},
    schedule::Kind,
    store::Kept,
};

const PROMISE: &str = "a newcomer is served soon";
/// A probe behind fewer waiting jobs than this many times the bound says nothing.
const BEHIND: u64 = 2;
/// What the two clocks may differ by, and a line be late by, in microseconds.
const SLACK: i64 = 1_000_000;
/// Probes that must count, for each minute.
const PER_MINUTE: u64 = 3;

/// What the probes showed.
#[derive(Debug, Default)]
pub struct Fairness {
    /// Probes pushed.
    pub probes: u64,
    /// Those that nothing disturbed, behind a backlog that could have kept them.
    pub counted: u64,
    /// Those before which others were seen to be delivered.
    pub overtaken: u64,
    /// The most deliveries before one of those.
    pub worst: u64,
    /// The bound there.
    pub bound: u64,
    broken: Vec<Violation>,
}

pub fn check(evidence: &Evidence) -> Vec<Violation> {
    let fairness = fairness(evidence);
    let mut found = fairness.broken;
    // In a run of seconds on a machine with other work, hardly a probe is undisturbed.
    let seconds = evidence.length.as_secs();
    let least = if seconds < 60 { 0 } else { PER_MINUTE * seconds / 60 };
    if fairness.counted < least {
        let what = format!("unproven: {} probes count, not {least}", fairness.counted);
        found.push(Violation::new(PROMISE, None, what));
    }
    found
}

/// Judges every probe.
pub fn fairness(evidence: &Evidence) -> Fairness {
    let mut fairness = Fairness::default();
    let everybody = standing_tenants(evidence);
    let disturbed = disturbed(evidence);
    for line in &evidence.ledger.lines {
        let Event::Probe { job, waiting } = &line.event else { continue };
        fairness.probes += 1;
        let Some(story) = evidence.ledger.stories.get(job) else { continue };
        let Some(push) = story.stored() else { continue };
        let kept = evidence.store.jobs.get(job);
        let Some(own) = delivery(evidence, story, kept) else { continue };
        let newcomers = newcomers(evidence, push.at, own.until);
        let bound = 2 * (everybody + newcomers) * LANE_BATCH as u64;
        if *waiting < BEHIND * bound {
            continue;
        }
        let meets = |span: &Span| span.0 <= own.at && push.sent <= span.1;
        let calm = !disturbed.iter().any(meets);
        fairness.counted += u64::from(calm);
        let stretches = stretches((push.at, own.until), &disturbed);
        let before = stretches.into_iter().map(|stretch| {
            let seen = calm.then_some(&own);
            delivered(evidence, &push.queue, stretch, seen)
        });
        let before = before.max().unwrap_or_default();
        fairness.overtaken += u64::from(before > 0);
        if before >= fairness.worst {
            (fairness.worst, fairness.bound) = (before, bound);
        }
        if before > bound {
            let what = format!("{before} deliveries before its own, the bound is {bound}");
            fairness.broken.push(Violation::new(PROMISE, Some(job), what));
        }
    }
    fairness
}

/// A probe's first delivery.
struct Delivered {
    /// It had not happened before that.
    until: i64,
    /// It had happened by then.
    at: i64,
    /// By the store's clock, where it is on record.
    started: Option<Timestamp>,
}

/// When it was delivered first; `None` where that is not known: by a worker that was killed, and given
/// back.
fn delivery(evidence: &Evidence, story: &Story, kept: Option<&Kept>) -> Option<Delivered> {
    let (take, fence) = story.takes.first()?;
    let take = &evidence.ledger.takes[*take];
    let first = kept.and_then(|kept| kept.attempts.first());
    let started = first.map(|attempt| attempt.started_at);
    if kept.is_some_and(|kept| kept.given_back > 0) {
        return None;
    }
    if first.is_some_and(|first| first.fence != *fence) {
        // Nobody saw it.
        let until = evidence.store.clock.machine(started?) - SLACK;
        return Some(Delivered { until: until.min(take.sent), at: take.at, started: None });
    }
    Some(Delivered { until: take.sent, at: take.at, started })
}

/// The deliveries of a queue in this stretch, and up to the probe's own.
fn delivered(evidence: &Evidence, queue: &str, stretch: Span, own: Option<&Delivered>) -> u64 {
    let earlier = |claim: &&Claim| {
        let own = own.and_then(|own| own.started);
        let kept = evidence.store.jobs.get(&claim.job);
        let attempt = kept.and_then(|kept| kept.attempts.iter().find(|a| a.fence == claim.fence));
        own.zip(attempt).is_some_and(|(own, attempt)| attempt.started_at < own)
    };
    let end = own.map_or(stretch.1, |own| own.at);
    let within = |take: &&Take| take.queue == queue && take.sent > stretch.0 && take.at <= end;
    let takes = evidence.ledger.takes.iter().filter(within);
    let counts = takes.map(|take| {
        if take.at < stretch.1 {
            take.claims.len()
        } else {
            take.claims.iter().filter(earlier).count()
        }
    });
    counts.sum::<usize>() as u64
}

/// What is left of a time without these.
fn stretches(of: Span, without: &[Span]) -> Vec<Span> {
    let (mut left, mut from) = (Vec::new(), of.0);
    // By their beginning.
    for (start, end) in without.iter().filter(|(_, end)| *end >= of.0) {
        if *start > of.1 {
            break;
        }
        if *start > from {
            left.push((from, *start));
        }
        from = from.max(*end);
    }
    if from < of.1 {
        left.push((from, of.1));
    }
    left
}

/// Tenants that push all the time: they may have due work at any moment.
fn standing_tenants(evidence: &Evidence) -> u64 {
    let probes: BTreeSet<&JobRef> = evidence.ledger.lines.iter().filter_map(probe).collect();
    let others = evidence.ledger.stories.iter().filter(|(job, story)| {
        !probes.contains(job) && story.stored().is_some_and(|push| push.queue == QUEUE)
    });
    others.map(|(job, _)| job.tenant.as_str()).collect::<BTreeSet<_>>().len() as u64
}

fn probe(line: &Line) -> Option<&JobRef> {
    match &line.event {
        Event::Probe { job, .. } => Some(job),
        _ => None,
    }
}

/// Newcomers that may have due work between these times.
fn newcomers(evidence: &Evidence, from: i64, to: i64) -> u64 {
    let open = evidence.ledger.lines.iter().filter_map(probe).filter(|job| {
        let Some(story) = evidence.ledger.stories.get(*job) else { return false };
        let pushed = story.pushes.first().is_some_and(|push| push.sent <= to);
        let ended = story.runs.last().and_then(|run| run.end);
        pushed && ended.is_none_or(|(at, _)| at >= from)
    });
    open.count() as u64
}

/// When a delivery may have been lost with its worker, or made twice, or its lane was paused; by their
/// beginning.
fn disturbed(evidence: &Evidence) -> Vec<Span> {
    let lines = &evidence.ledger.lines;
    let mut all = evidence.danger.of_anybody();
    all.extend(lines.iter().filter_map(|line| match &line.event {
        Event::Fault { kind: Kind::Pause, number, over: false, .. } => {
            let end = crate::soak::danger::end_of(lines, *number).unwrap_or(i64::MAX);
            // Its pause is answered a moment before it is written down.
            Some((line.at - SLACK, end))
        }
        _ => None,
    }));
    all.sort_unstable();
    all
}
