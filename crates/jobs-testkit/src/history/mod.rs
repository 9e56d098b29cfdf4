//! Random histories, judged for legality.
//!
//! A history is a list of operations on three tenants, two queues and a handful of ids and keys, so
//! that duplicates, held keys and stale claims are frequent. Every answer is judged against what the
//! contract allows at that moment, not against what the model would have answered: where a store is
//! free to choose (which due jobs of which tenant, whether an instant has passed yet), the judge
//! adopts its choice. An illegal history is shrunk before it is shown.

mod admin;
mod judge;
mod known;
mod look;
mod op;
mod time;

pub use op::Op;

use std::sync::Arc;

use crate::{fixture::Fixture, kit::Kit};
use judge::Judge;

/// Most replays that shrinking a history may cost.
const REPLAYS: usize = 600;

/// A history of `length` operations from `seed`.
pub fn generate(seed: u64, length: usize) -> Vec<Op> {
    let mut random = fastrand::Rng::with_seed(seed);
    (0..length).map(|_| Op::random(&mut random)).collect()
}

/// Plays a history in a namespace of its own.
///
/// # Errors
/// What was illegal, and at which operation.
pub async fn play(fixture: &Arc<dyn Fixture>, history: &[Op]) -> Result<(), String> {
    let kit = Kit::new(fixture.clone(), "h1_history");
    let mut judge = Judge::new(&kit).await;
    let mut verdict = Ok(());
    for (place, op) in history.iter().enumerate() {
        verdict = judge.play(op).await.map_err(|why| format!("at {place}: {why}"));
        if verdict.is_err() {
            break;
        }
    }
    if verdict.is_ok() {
        verdict = judge.look_at_everything().await.map_err(|why| format!("at the end: {why}"));
    }
    drop(judge);
    kit.fixture.remove(&kit.namespace).await;
    verdict
}

/// Plays the history of `seed`; when it is illegal, the shortest illegal one found on the way from
/// it to nothing, as lines to read.
///
/// # Errors
/// The shrunk history and what is illegal about it.
pub async fn play_seed(fixture: &Arc<dyn Fixture>, seed: u64, length: usize) -> Result<(), String> {
    let history = generate(seed, length);
    let Err(why) = play(fixture, &history).await else { return Ok(()) };
    let (history, why) = shrink(fixture, history, why).await;
    let lines = history.iter().enumerate().map(|(place, op)| format!("{place:>4}  {op:?}\n"));
    let lines: String = lines.collect();
    Err(format!(
        "illegal history, JOBS_TEST_SEED={seed}, shrunk to {}:\n{lines}{why}",
        history.len()
    ))
}

/// Leaves out operations, then elements of batches, as long as the history stays illegal.
async fn shrink(
    fixture: &Arc<dyn Fixture>,
    mut history: Vec<Op>,
    mut why: String,
) -> (Vec<Op>, String) {
    let mut replays = 0;
    'again: loop {
        for candidate in shorter(&history) {
            replays += 1;
            if replays > REPLAYS {
                break 'again;
            }
            if let Err(still) = play(fixture, &candidate).await {
                (history, why) = (candidate, still);
                continue 'again;
            }
        }
        break;
    }
    (history, why)
}

/// The history without its first half, its second half, any one operation or element of a batch.
fn shorter(history: &[Op]) -> Vec<Vec<Op>> {
    let mut candidates = Vec::new();
    let half = history.len() / 2;
    if half > 4 {
        candidates.extend([history[half..].to_vec(), history[..half].to_vec()]);
    }
    for place in (0..history.len()).rev() {
        candidates.push([&history[..place], &history[place + 1..]].concat());
    }
    for place in 0..history.len() {
        for simpler in history[place].simpler() {
            let mut candidate = history.to_vec();
            candidate[place] = simpler;
            candidates.push(candidate);
        }
    }
    candidates
}
