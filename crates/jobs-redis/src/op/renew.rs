//! Renew (S1).

use jobs_core::{
    Claim, Result,
    queue::{Lease, Renewed},
    time::delay_millis,
};

use super::{each, letter, strange};
use crate::{Redis, row::id, script::script};

script!(RENEW, ALWAYS, "renew.lua");

/// Extends leases, each by its whole claim.
pub(crate) async fn all(store: &Redis, lease: Lease, claims: &[Claim]) -> Result<Vec<Renewed>> {
    if claims.is_empty() {
        return Ok(Vec::new());
    }
    let renew = async {
        let arguments = |claim: &Claim| {
            vec![
                claim.job.tenant.as_str().into(),
                id(claim.job.id).into(),
                claim.fence.to_string().into(),
                claim.nonce.0.to_string().into(),
            ]
        };
        let first = [delay_millis(lease.length()).into()];
        let answers =
            each(&store.db, &RENEW, &first, claims, |of| &of.job.tenant, arguments).await?;
        let renewed = answers.into_iter().map(|answer| {
            Ok(match letter(answer)?.0 {
                'h' => Renewed::Held,
                'c' => Renewed::CancelRequested,
                'l' => Renewed::Lost,
                other => return Err(strange(other)),
            })
        });
        renewed.collect()
    };
    store.db.within("renew", renew).await
}
