//! Fair (R5): a newcomer's job is among the next 2·T·b deliveries of its queue.
//!
//! Counted are deliveries of reserves that were sent after its push was answered and answered before
//! the one that delivered it was sent. Those are certainly between the two in the store, so the
//! count is never more than the truth and needs no allowance for what the workers held.

use std::collections::BTreeSet;

use jobs_core::{JobRef, queue::LANE_BATCH};

use super::{Evidence, Violation};
use crate::soak::{
    ledger::{Event, Line},
    probe::QUEUE,
    read::Push,
    schedule::Kind,
};

const PROMISE: &str = "a newcomer is served soon";
/// A probe behind fewer waiting jobs than this many times the bound says nothing.
const BEHIND: u64 = 2;
/// Probes that must count, for each minute.
const PER_MINUTE: u64 = 3;

/// What the probes showed.
#[derive(Debug, Default)]
pub struct Fairness {
    /// Probes pushed.
    pub probes: u64,
    /// Those that nothing disturbed, behind a backlog that could have kept them.
    pub counted: u64,
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
    for line in &evidence.ledger.lines {
        let Event::Probe { job, waiting } = &line.event else { continue };
        fairness.probes += 1;
        let Some(story) = evidence.ledger.stories.get(job) else { continue };
        let Some(push) = story.stored() else { continue };
        // Delivered while it was not seen: its worker was killed, or the run ended.
        let Some((take, _)) = story.takes.first() else { continue };
        let take = &evidence.ledger.takes[*take];
        let newcomers = newcomers(evidence, push.at, take.sent);
        let bound = 2 * (everybody + newcomers) * LANE_BATCH as u64;
        if *waiting < BEHIND * bound || disturbed(evidence, push, take.at) {
            continue;
        }
        let between = evidence.ledger.takes.iter().filter(|other| {
            other.queue == push.queue && other.sent > push.at && other.at < take.sent
        });
        let before: usize = between.map(|other| other.claims.len()).sum();
        let before = before as u64;
        fairness.counted += 1;
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

/// A delivery that was lost with its worker, or a call made twice, spoils the count.
fn disturbed(evidence: &Evidence, push: &Push, to: i64) -> bool {
    let lines = &evidence.ledger.lines;
    let paused = lines.iter().any(|line| match &line.event {
        Event::Fault { kind: Kind::Pause, number, over: false, .. } => {
            let end = crate::soak::danger::end_of(lines, *number).unwrap_or(i64::MAX);
            // Its pause is answered a moment before it is written down.
            line.at - 1_000_000 <= to && push.sent <= end
        }
        _ => false,
    });
    paused || evidence.danger.of_anybody(push.sent, to)
}
