//! Settle (S2–S4).

use std::collections::HashMap;

use async_trait::async_trait;
use jobs_core::{
    Claim, OutcomeKind, Result, Settled, Settlement, State, queue::STUB, time::delay_millis,
};

use crate::{
    db::query,
    error::Fault,
    moves::{Moves, Run},
    row::{self, Row, get},
    tx::{Tx, json},
    writer::{Write, Writer},
};

struct Settle(Vec<Settlement>);

/// Settles in one transaction.
pub(crate) async fn all(writer: &Writer, settlements: &[Settlement]) -> Result<Vec<Settled>> {
    if settlements.is_empty() {
        return Ok(Vec::new());
    }
    writer.call(Settle(settlements.to_vec())).await
}

#[async_trait]
impl Write for Settle {
    const NAME: &'static str = "settle";
    type Answer = Vec<Settled>;

    async fn run(&self, tx: &mut Tx<'_>) -> std::result::Result<Self::Answer, Fault> {
        run(tx, &self.0).await
    }
}

/// What a claim is worth now.
pub(crate) enum Standing {
    Held(Run),
    Settled(OutcomeKind),
    Stale,
}

/// The standing of each claim. The whole claim is compared, and time is not.
pub(crate) async fn standing<'a>(
    tx: &mut Tx<'_>,
    claims: impl Iterator<Item = &'a Claim> + Clone,
) -> std::result::Result<Vec<Standing>, Fault> {
    let entry = |claim: &'a Claim| (claim.job.tenant.as_str(), claim.job.id.0.simple().to_string());
    let wanted = json(&claims.clone().map(entry).collect::<Vec<_>>());
    let rows = tx.db.all(query(include_str!("settle_match.sql")).bind(wanted)).await?;
    let claims: Vec<_> = claims.collect();
    let mut standings: Vec<_> = claims.iter().map(|_| Standing::Stale).collect();
    for row in &rows {
        let at = usize::try_from(get::<i64>(row, 0)?).unwrap_or(usize::MAX);
        let (Some(claim), Some(standing)) = (claims.get(at), standings.get_mut(at)) else {
            continue;
        };
        // One that cannot be read is lost, and the rest of the call is answered.
        match worth(row, claim, tx.now) {
            Ok(found) => *standing = found,
            Err(fault) => {
                let error = fault.into_error("settle");
                tracing::error!(%error, job = %claim.job.id, "a claim of a damaged job is lost");
            }
        }
    }
    Ok(standings)
}

fn worth(row: &Row, claim: &Claim, now: i64) -> std::result::Result<Standing, Fault> {
    let is = |fence, nonce| claim.fence == fence && claim.nonce.0 == nonce && nonce != 0;
    let settled = |outcome: Option<i64>| match outcome {
        Some(number) => Ok(Standing::Settled(row::outcome(number)?)),
        None => Ok(Standing::Stale),
    };
    let end = 1 + Run::COLUMNS;
    if let Some(run) = Run::read(row, 1)? {
        return match run.state {
            _ if !is(run.fence, run.nonce) => Ok(Standing::Stale),
            State::Running => Ok(Standing::Held(run)),
            _ => settled(run.outcome),
        };
    }
    let Some(ended) = get::<Option<i64>>(row, end + 3)? else { return Ok(Standing::Stale) };
    let answers = now < ended.saturating_add(delay_millis(STUB));
    match answers && is(get(row, end)?, get(row, end + 1)?) {
        true => settled(get(row, end + 2)?),
        false => Ok(Standing::Stale),
    }
}

/// Settles in order; inside one call the first for a claim wins.
pub(crate) async fn run(
    tx: &mut Tx<'_>,
    settlements: &[Settlement],
) -> std::result::Result<Vec<Settled>, Fault> {
    if settlements.is_empty() {
        return Ok(Vec::new());
    }
    let standings = standing(tx, settlements.iter().map(|s| &s.claim)).await?;
    let mut first: HashMap<i64, OutcomeKind> = HashMap::with_capacity(settlements.len());
    let (mut moves, now) = (Moves::default(), tx.now);
    let mut answer = |settlement: &Settlement, standing| {
        let run = match standing {
            Standing::Held(run) => run,
            Standing::Settled(kind) => return Settled::AlreadyApplied(kind),
            Standing::Stale => return Settled::Lost,
        };
        if let Some(kind) = first.get(&run.job) {
            return Settled::AlreadyApplied(*kind);
        }
        let kind = settlement.outcome.kind();
        let Some(state) = moves.settle(&run, &settlement.outcome, kind, now) else {
            return Settled::Lost;
        };
        first.insert(run.job, kind);
        Settled::Applied(state)
    };
    let answers = settlements.iter().zip(standings).map(|(s, at)| answer(s, at)).collect();
    moves.write(tx).await?;
    Ok(answers)
}
