//! Renew (S1): by the server's clock, and no index is changed by it.

use std::collections::{BTreeMap, HashMap};

use jobs_core::{
    Claim,
    queue::{Lease, Renewed},
    time::delay_millis,
};
use mongodb::bson::{Document, doc};

use crate::{
    Mongo,
    error::Fault,
    row::{id, int, text},
};

/// Claims of one statement.
const CHUNK: usize = 500;

/// One more lease for the claims that are held.
pub(crate) async fn all(
    store: &Mongo,
    lease: Lease,
    claims: &[Claim],
) -> std::result::Result<Vec<Renewed>, Fault> {
    let mut answers = Vec::with_capacity(claims.len());
    for part in claims.chunks(CHUNK) {
        answers.extend(some(store, lease, part).await?);
    }
    Ok(answers)
}

async fn some(
    store: &Mongo,
    lease: Lease,
    claims: &[Claim],
) -> std::result::Result<Vec<Renewed>, Fault> {
    let db = &store.db;
    let extend = doc! { "$set": {
        "renewed_at": "$$NOW",
        "lease_until": { "$add": ["$$NOW", delay_millis(lease.length())] },
    } };
    let mut groups = BTreeMap::<_, Vec<String>>::new();
    for claim in claims {
        groups.entry((claim.nonce.0, claim.fence)).or_default().push(id(&claim.job));
    }
    let statement = |((nonce, fence), ids): ((i64, i64), Vec<String>)| {
        let filter = doc! { "_id": { "$in": ids }, "run": nonce, "fence": fence };
        doc! { "q": filter, "u": [extend.clone()], "multi": true, "hint": "_id_" }
    };
    db.update("jobs", groups.into_iter().map(statement).collect()).await?;
    let ids: Vec<_> = claims.iter().map(|claim| id(&claim.job)).collect();
    let rows = db.rows(doc! {
        "find": db.name("jobs"),
        "filter": { "_id": { "$in": ids } },
        "projection": { "run": 1, "fence": 1, "cancel": 1 },
    });
    let rows = rows.await?;
    let found: HashMap<String, &Document> =
        rows.iter().filter_map(|row| Some((text(row, "_id")?, row))).collect();
    let answer = |claim: &Claim| {
        let row = found.get(&id(&claim.job)).filter(|row| {
            int(row, "run") == Some(claim.nonce.0) && int(row, "fence") == Some(claim.fence)
        });
        match row {
            None => Renewed::Lost,
            Some(row) if row.get_bool("cancel").unwrap_or(false) => Renewed::CancelRequested,
            Some(_) => Renewed::Held,
        }
    };
    Ok(claims.iter().map(answer).collect())
}
