//! Renew (S1).

use async_trait::async_trait;
use jobs_core::{
    Claim, Result,
    queue::{Lease, Renewed},
    time::after,
};

use super::settle::{Standing, standing};
use crate::{
    db::query,
    error::Fault,
    tx::{Tx, json},
    writer::{Write, Writer},
};

struct Renew(Lease, Vec<Claim>);

/// Renews in one transaction.
pub(crate) async fn all(writer: &Writer, lease: Lease, claims: &[Claim]) -> Result<Vec<Renewed>> {
    if claims.is_empty() {
        return Ok(Vec::new());
    }
    writer.call(Renew(lease, claims.to_vec())).await
}

#[async_trait]
impl Write for Renew {
    const NAME: &'static str = "renew";
    type Answer = Vec<Renewed>;

    async fn run(&self, tx: &mut Tx<'_>) -> std::result::Result<Self::Answer, Fault> {
        let (mut held, mut answers) = (Vec::new(), Vec::with_capacity(self.1.len()));
        for standing in standing(tx, self.1.iter()).await? {
            answers.push(match standing {
                Standing::Held(run) => {
                    held.push(run.job);
                    if run.cancel { Renewed::CancelRequested } else { Renewed::Held }
                }
                Standing::Settled(_) | Standing::Stale => Renewed::Lost,
            });
        }
        if !held.is_empty() {
            let extend = query(include_str!("renew.sql")).bind(json(&held));
            let extend = extend.bind(tx.now).bind(after(tx.now, self.0.length()));
            tx.db.run(extend).await?;
            tx.dirty = true;
        }
        Ok(answers)
    }
}
