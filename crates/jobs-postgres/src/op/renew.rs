//! Renew (S1).

use jobs_core::{
    Claim, Result,
    queue::{Lease, Renewed},
    time::delay_millis,
};

use crate::{Postgres, db::get, error::Fault, row::plain};

const SQL: &str = "SELECT * FROM jobs.renew($1, $2, $3, $4, $5)";

/// Renews in one statement.
pub(crate) async fn all(store: &Postgres, lease: Lease, claims: &[Claim]) -> Result<Vec<Renewed>> {
    if claims.is_empty() {
        return Ok(Vec::new());
    }
    let rows = store.db.call("renew", SQL, |args| {
        args.add(claims.iter().map(|claim| plain(&claim.job.tenant)).collect::<Vec<_>>())?;
        args.add(claims.iter().map(|claim| claim.job.id.0).collect::<Vec<_>>())?;
        args.add(claims.iter().map(|claim| claim.fence).collect::<Vec<_>>())?;
        args.add(claims.iter().map(|claim| claim.nonce.0).collect::<Vec<_>>())?;
        args.add(delay_millis(lease.length()))
    });
    let mut answers = vec![Renewed::Lost; claims.len()];
    for row in rows.await? {
        let read = || {
            let (at, cancel): (i32, bool) = (get(&row, 0)?, get(&row, 1)?);
            let place = usize::try_from(at - 1).unwrap_or(usize::MAX);
            Ok::<_, Fault>((place, cancel))
        };
        let (place, cancel) = read().map_err(|fault| fault.into_error("renew"))?;
        if let Some(answer) = answers.get_mut(place) {
            *answer = if cancel { Renewed::CancelRequested } else { Renewed::Held };
        }
    }
    Ok(answers)
}
