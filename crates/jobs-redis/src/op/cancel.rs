//! Cancel (A3): at once where nobody runs it, else its holder is asked.

use jobs_core::{JobRef, Permit, Result, admin::Cancelled, permit::Cancel};

use super::{letter, scoped::in_scope, strange};
use crate::{Redis, row::state_of, script::script};

script!(CANCEL, ALWAYS, "cancel.lua");

/// Ends jobs without their work.
pub(crate) async fn all(
    store: &Redis,
    permit: &Permit<Cancel>,
    jobs: &[JobRef],
) -> Result<Vec<Cancelled>> {
    let cancel = async {
        let first = [permit.by().into()];
        let answers = in_scope(&store.db, &CANCEL, &first, permit, jobs).await?;
        let cancelled = answers.into_iter().map(|answer| {
            Ok(match letter(answer)? {
                ('c', _) => Cancelled::Cancelled,
                ('r', _) => Cancelled::Requested,
                ('n', state) => Cancelled::NotLive(state_of(&state)?),
                ('u', _) => Cancelled::Unknown,
                (other, _) => return Err(strange(other)),
            })
        });
        cancelled.collect()
    };
    store.db.within("cancel", cancel).await
}
