//! Who is next over several shards (R5): the order of `reserve.lua`, played through with what each
//! shard says of its lanes.
//!
//! Shards share nothing, so their virtual clocks go apart. A reserve brings them together: it takes the
//! farthest of each name, visits lanes as one shard would, and tells every shard that it takes from how
//! far that is. What two reserves played through at once differs by their batches.

use std::time::Duration;

use jobs_core::queue::LANE_BATCH;

use crate::{error::Fault, reply::Reply};

/// Lanes of one class that a shard tells of, as in `peek.lua`.
const TOLD: usize = 64;

/// What one shard says.
#[derive(Debug, Default)]
pub(crate) struct Peek {
    /// The rounds of this reserve that took something here before.
    pub rounds: Vec<usize>,
    /// How long until the next job is due.
    pub next_due: Option<Duration>,
    /// Each name's virtual now; none where the queue is paused.
    pub nows: Vec<f64>,
    /// The lanes that are next.
    pub lanes: Vec<Lane>,
}

/// A lane with work.
#[derive(Clone, Debug)]
pub(crate) struct Lane {
    weight: f64,
    jobs: usize,
    /// By name, where its last visit ended in virtual time, where it has work of it.
    finishes: Vec<Option<f64>>,
}

impl Peek {
    /// Of the answer of `peek.lua`.
    pub fn read(mut reply: Reply) -> Result<Self, Fault> {
        let rounds = reply.text()?;
        let rounds = rounds.chars().filter_map(|round| round.to_digit(10));
        let rounds: Vec<_> = rounds.map(|round| round as usize).collect();
        if !rounds.is_empty() {
            return Ok(Self { rounds, ..Self::default() });
        }
        let next_due = u64::try_from(reply.int()?).ok().map(Duration::from_millis);
        let (nows, mut lanes) = (numbers(reply.list()?)?, Vec::new());
        while reply.left() > 0 {
            let mut lane = reply.list()?;
            lane.text()?;
            let weight = lane.int()?.clamp(1, 100) as f64;
            let jobs = usize::try_from(lane.int()?).unwrap_or_default();
            let finishes = numbers(lane.list()?)?.into_iter();
            let finishes = finishes.map(|at| (at >= 0.0).then_some(at)).collect();
            lanes.push(Lane { weight, jobs, finishes });
        }
        Ok(Self { rounds, next_due, nows, lanes })
    }
}

impl Peek {
    /// Were there more lanes than were told of?
    pub fn has_more(&self) -> bool {
        self.lanes.len() >= TOLD
    }
}

fn numbers(mut list: Reply) -> Result<Vec<f64>, Fault> {
    let mut all = Vec::new();
    while list.left() > 0 {
        let text = list.text()?;
        let number = text.parse().map_err(|_| Fault::Corrupt(format!("a virtual time of {text}")));
        all.push(number?);
    }
    Ok(all)
}

/// Each contested name's farthest virtual now, and how many of `most` each shard's lanes get.
pub(crate) fn share(peeks: &[Peek], most: usize) -> (Vec<Option<f64>>, Vec<usize>) {
    let names = peeks.iter().map(|peek| peek.nows.len()).max().unwrap_or_default();
    let of = |name: usize| peeks.iter().filter_map(move |peek| peek.nows.get(name).copied());
    let farthest: Vec<f64> = (0..names).map(|name| of(name).fold(0.0, f64::max)).collect();
    let mut nows = farthest.clone();
    let with_shard = |(peek, shard): (&Peek, usize)| {
        peek.lanes.iter().map(move |lane| (shard, lane.clone())).collect::<Vec<_>>()
    };
    let mut lanes: Vec<_> = peeks.iter().zip(0..).flat_map(with_shard).collect();
    let of_name =
        |name: usize| lanes.iter().any(|(_, lane): &(usize, Lane)| lane.finishes[name].is_some());
    let told = farthest.iter().enumerate().map(|(name, now)| of_name(name).then_some(*now));
    let told: Vec<_> = told.collect();
    let mut quotas = vec![0; peeks.len()];
    let mut left = most;
    while left > 0 {
        lanes.retain(|(_, lane)| lane.jobs > 0);
        let lag = |lane: &Lane| {
            let at = lane.finishes.iter().zip(&nows);
            at.filter_map(|(finish, now)| Some((*finish)? - now)).fold(f64::INFINITY, f64::min)
        };
        let lags = lanes.iter().map(|(_, lane)| lag(lane));
        let Some((at, lag)) = lags.enumerate().min_by(|a, b| a.1.total_cmp(&b.1)) else { break };
        let visit = if lanes.len() > 1 { LANE_BATCH } else { left };
        let taken = visit.min(left).min(lanes[at].1.jobs);
        let contested: Vec<_> = (0..names)
            .filter(|name| lanes.iter().any(|(_, lane)| lane.finishes[*name].is_some()))
            .collect();
        let (shard, lane) = &mut lanes[at];
        for name in contested {
            let now = nows[name];
            let start = lane.finishes[name].unwrap_or_default().max(now);
            let finish = start + taken as f64 / lane.weight;
            if lane.finishes[name].is_some() {
                lane.finishes[name] = Some(finish);
            }
            let last_batch = finish - LANE_BATCH as f64 / lane.weight;
            nows[name] = (now + lag.max(0.0)).max(start).max(last_batch);
        }
        lane.jobs -= taken;
        quotas[*shard] += taken;
        left -= taken;
    }
    (told, quotas)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lane(jobs: usize, weight: f64, finish: f64) -> Lane {
        Lane { weight, jobs, finishes: vec![Some(finish)] }
    }

    fn peek(now: f64, lanes: Vec<Lane>) -> Peek {
        Peek { nows: vec![now], lanes, ..Peek::default() }
    }

    #[test]
    fn lanes_share_whichever_shard_they_are_in() {
        let three = || vec![lane(100, 1.0, 0.0); 3];
        let peeks = [peek(0.0, three()), peek(0.0, vec![lane(100, 1.0, 0.0)]), peek(0.0, vec![])];
        assert_eq!(share(&peeks, 64).1, [48, 16, 0]);
        let peeks = [peek(0.0, vec![lane(100, 3.0, 0.0)]), peek(0.0, vec![lane(100, 1.0, 0.0)])];
        let (_, quotas) = share(&peeks, 96);
        assert!((70..=74).contains(&quotas[0]), "{quotas:?}");
        // A shard that was idle has no credit: its lane comes first, once.
        let peeks =
            [peek(1000.0, vec![lane(99, 1.0, 1004.0)]), peek(3.0, vec![lane(99, 1.0, 3.0)])];
        let (nows, quotas) = share(&peeks, 64);
        assert_eq!((nows, quotas), (vec![Some(1000.0)], vec![32, 32]));
        // One alone gets everything, and few jobs are few.
        let peeks = [peek(0.0, vec![]), peek(0.0, vec![lane(20, 1.0, 0.0)])];
        assert_eq!(share(&peeks, 100).1, [0, 20]);
        assert_eq!(share(&[], 5), (vec![], vec![]));
    }
}
