//! Cases: random histories.

use std::ops::Range;

use crate::{history::play_seed, kit::Kit};

super::cases![h1_random_histories_are_legal];

/// Played unless `JOBS_TEST_SEED` names one.
const SEEDS: Range<u64> = 0..30;
/// Operations of one history.
const LENGTH: usize = 60;

/// Whatever several actors do in whatever order, every answer is one that the contract allows.
async fn h1_random_histories_are_legal(kit: &Kit) {
    let chosen = std::env::var("JOBS_TEST_SEED").ok().and_then(|seed| seed.parse().ok());
    let seeds = chosen.map_or(SEEDS, |seed: u64| seed..seed + 1);
    for seed in seeds {
        if let Err(illegal) = play_seed(&kit.fixture, seed, LENGTH).await {
            panic!("{illegal}");
        }
    }
}
