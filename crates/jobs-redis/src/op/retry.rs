//! Retry (A3): back in line, due now.

use jobs_core::{JobRef, Permit, Result, admin::Retried, permit::Retry};

use super::{letter, scoped::in_scope, strange};
use crate::{
    Redis,
    row::{id_of, state_of},
    script::script,
};

script!(RETRY, ALWAYS, "retry.lua");

/// Puts parked and cancelled jobs back in line.
pub(crate) async fn all(
    store: &Redis,
    permit: &Permit<Retry>,
    jobs: &[JobRef],
) -> Result<Vec<Retried>> {
    let retry = async {
        let first = [permit.by().into()];
        let answers = in_scope(&store.db, &RETRY, &first, permit, jobs).await?;
        let retried = answers.into_iter().map(|answer| {
            Ok(match letter(answer)? {
                ('r', _) => Retried::Retried,
                ('n', state) => Retried::NotRetryable(state_of(&state)?),
                ('k', rest) => {
                    let (state, holder) = rest.split_at_checked(1).unwrap_or_default();
                    Retried::KeyHeld(id_of(holder)?, state_of(state)?)
                }
                ('u', _) => Retried::Unknown,
                (other, _) => return Err(strange(other)),
            })
        });
        retried.collect()
    };
    store.db.within("retry", retry).await
}
