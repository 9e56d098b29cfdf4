//! Settle (S2–S4).

use jobs_core::{Outcome, Result, Settled, Settlement, time::delay_millis};

use super::{each, letter, strange};
use crate::{
    Redis,
    row::{id, outcome_of, state_of},
    script::script,
};

script!(SETTLE, ALWAYS, "settle.lua");

/// Ends runs, each by its whole claim.
pub(crate) async fn all(store: &Redis, settlements: &[Settlement]) -> Result<Vec<Settled>> {
    if settlements.is_empty() {
        return Ok(Vec::new());
    }
    let settle = async {
        let arguments = |of: &Settlement| {
            let delay = of.outcome.delay().map_or(0, delay_millis);
            let cause = of.outcome.cause().map_or("", |cause| cause.as_str());
            vec![
                of.claim.job.tenant.as_str().into(),
                id(of.claim.job.id).into(),
                of.claim.fence.to_string().into(),
                of.claim.nonce.0.to_string().into(),
                code(&of.outcome).into(),
                delay.into(),
                cause.into(),
            ]
        };
        let answers =
            each(&store.db, &SETTLE, &[], settlements, |of| &of.claim.job.tenant, arguments)
                .await?;
        let settled = answers.into_iter().map(|answer| {
            Ok(match letter(answer)? {
                ('a', state) => Settled::Applied(state_of(&state)?),
                ('r', outcome) => Settled::AlreadyApplied(outcome_of(&outcome)?),
                ('l', _) => Settled::Lost,
                (other, _) => return Err(strange(other)),
            })
        });
        settled.collect()
    };
    store.db.within("settle", settle).await
}

/// An outcome's number, as in `settle.lua`.
fn code(outcome: &Outcome) -> i64 {
    outcome.kind() as i64
}
