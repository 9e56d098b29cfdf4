//! What a worker may do about one lease, by what it saw itself: from its delivery on, each renewal
//! that was answered in time lets it be trusted for a while longer (K3).
//!
//! Nothing else is an excuse: not a fault that merely happened, and not one renewal that failed,
//! which the worker has the time to repeat.

use super::{
    LEASE,
    danger::{Danger, Span, covered},
    read::{Ledger, Run, Story},
};

/// How long a lease is trusted: core's own distance from its end, which is 500 ms at this lease.
const TRUST: i64 = LEASE.as_micros() as i64 - 500_000;
/// Between two renewals, and before a failed one is repeated; their deadline.
const EVERY: i64 = LEASE.as_micros() as i64 / 4;
const AGAIN: i64 = LEASE.as_micros() as i64 / 16;
const DEADLINE: i64 = LEASE.as_micros() as i64 / 3;
/// What wakes up late without being seen to, in all.
const CALM: i64 = 100_000;
/// What a time of the store's clock and one of the machine's may differ by, as they are read.
const SLACK: i64 = 300_000;
/// From the end of trust to a handler that is dropped: its token first, and the clock's tick.
const DROP: i64 = 150_000;
/// How much later a machine that is busy with other things may get to that.
const LATE: i64 = 500_000;
/// A lost lease is swept within ten seconds, or a little later by a busy machine.
const SWEPT: i64 = 12_000_000;
/// A reserve that failed this long before it was repeated counts for the lease.
const REPEATED: i64 = 600_000;

/// The times at which a delivery or an answered renewal of it was sent, and answered.
fn points(ledger: &Ledger, danger: &Danger, story: &Story, by: &str, fence: i64) -> Vec<Span> {
    let Some(take) = story.take(&ledger.takes, by, fence) else { return Vec::new() };
    // The repetition of a reserve is trusted from the first one.
    let calls = danger.failed(by).iter().filter(|failed| failed.call.ends_with("reserve"));
    let calls = calls.map(|failed| failed.span.0).filter(|sent| *sent < take.sent);
    let first = calls.filter(|sent| *sent >= take.at - REPEATED).min().unwrap_or(take.sent);
    let mut points = vec![(first, take.at)];
    let own = story.renewals.iter().filter(|renewal| renewal.by == by && renewal.fence == fence);
    points.extend(own.map(|renewal| (renewal.sent, renewal.at)));
    points.sort_unstable();
    points
}

/// By how much this delivery's lease, which was over at `lost`, ended before it may: the store counts
/// it from later than its last answered renewal was sent (S1, X1). Only a jump of the store's clock
/// makes it shorter.
pub fn early(
    ledger: &Ledger,
    danger: &Danger,
    story: &Story,
    (by, fence): (&str, i64),
    lost: i64,
) -> Option<i64> {
    let points = points(ledger, danger, story, by, fence);
    let (sent, _) = *points.iter().rfind(|(sent, _)| *sent < lost)?;
    let missing = sent + LEASE.as_micros() as i64 - lost;
    (missing > SLACK && !jumped(danger, sent, lost)).then_some(missing)
}

/// Did the store's clock jump while a lease from then on was held, until it was over?
fn jumped(danger: &Danger, from: i64, over: i64) -> bool {
    let over = over.min(from + LEASE.as_micros() as i64);
    danger.jumps().iter().any(|(before, after)| *after >= from && *before <= over)
}

/// May this worker have lost its lease on this delivery, which was over at `lost`, without fault of
/// its own or the store's?
pub fn excused(
    ledger: &Ledger,
    danger: &Danger,
    story: &Story,
    (by, fence): (&str, i64),
    lost: i64,
) -> bool {
    let points = points(ledger, danger, story, by, fence);
    let Some(last) = points.iter().rfind(|(sent, _)| *sent < lost) else {
        return false;
    };
    jumped(danger, last.0, lost)
        || points.iter().enumerate().any(|(at, point)| {
            let next = points.get(at + 1).copied();
            point.0 < lost
                && next.is_none_or(|(_, answered)| answered > point.0 + TRUST)
                && kept_from_renewing(danger, by, *point, next)
        })
}

/// After this delivery or renewal, was the worker kept from another one until it had to give up?
fn kept_from_renewing(danger: &Danger, by: &str, point: Span, next: Option<Span>) -> bool {
    let trusted = (point.0, point.0 + TRUST);
    let meets = |span: &Span| span.0 < trusted.1 && span.1 > trusted.0;
    let gone =
        danger.down(by).iter().filter(|(_, to)| *to == i64::MAX).map(|(from, _)| *from).min();
    // Who is gone by then renews nothing.
    if gone.is_some_and(|at| at < trusted.1) {
        return true;
    }
    // The last call of one that was killed is not written down.
    let cut_off = gone.map(|at| (at - DEADLINE, at));
    let failed = danger.failed(by).iter().filter(|failed| failed.call == "renew");
    let failed = failed.map(|failed| failed.span).chain(next).chain(cut_off);
    let failed: Vec<Span> = failed.filter(meets).collect();
    // One failed call holds its worker up until its deadline and no longer.
    let calls = failed.iter().map(|(sent, at)| (*sent, (*at).min(sent + DEADLINE)));
    let others = danger.renewals(by).iter().copied().chain([point]);
    let down = danger.down(by).iter().copied();
    let busy = covered(calls.chain(others).chain(down), trusted);
    EVERY + AGAIN * failed.len() as i64 + busy >= TRUST - CALM
}

/// A delivery that nobody saw: was its answer lost, or its worker disturbed around that time?
pub fn unseen(danger: &Danger, by: &str, from: i64, to: i64) -> bool {
    let near = 1_000_000;
    let meets = |(start, end): &Span| *start <= to + near && from <= end.saturating_add(near);
    let mut failed = danger.failed(by).iter().filter(|failed| failed.call.ends_with("reserve"));
    let taken = |span: &Span| span.0 - near <= from && from <= span.1.saturating_add(near);
    failed.any(|failed| taken(&failed.span)) || danger.down(by).iter().any(meets)
}

/// By how much a sweep came later than it may, after the last that the worker did about this lease
/// (X2), where it could write.
pub fn found_late(
    ledger: &Ledger,
    danger: &Danger,
    story: &Story,
    (by, fence): (&str, i64),
    lost: i64,
) -> Option<i64> {
    let points = points(ledger, danger, story, by, fence);
    let end = points.last()?.1 + LEASE.as_micros() as i64;
    let after = lost - end - covered(danger.held().iter().copied(), (end, lost.max(end)));
    (after > SWEPT).then_some(after)
}

/// For how long this handler ran on after its lease was not to be trusted any more, beyond what its
/// process could help (K3).
pub fn outlived(ledger: &Ledger, danger: &Danger, story: &Story, run: &Run) -> Option<i64> {
    let mut points = points(ledger, danger, story, &run.by, run.fence).into_iter();
    let mut trusted = points.next()?.0 + TRUST;
    for (sent, answered) in points {
        // One that comes too late is for a lease that was given up.
        if answered > trusted + LATE {
            break;
        }
        trusted = trusted.max(sent + TRUST);
    }
    let over = (trusted, ledger.over(run).max(trusted));
    let helpless = danger.down(&run.by).iter().chain(danger.blocked(&run.by)).copied();
    let beyond = over.1.saturating_sub(over.0) - covered(helpless, over);
    (beyond > DROP + LATE).then_some(beyond)
}
