//! What must agree in each document, whoever has written it: one filter for each thing, which matches
//! those that do not.

use mongodb::{
    Database,
    bson::{Document, doc},
};

/// Documents told of one filter.
const TOLD: usize = 3;

fn there(field: &str) -> Document {
    doc! { "$ne": [{ "$type": format!("${field}") }, "missing"] }
}

/// Where exactly one of the two is so.
fn unlike(one: Document, other: Document) -> Document {
    doc! { "$ne": [one, other] }
}

/// What is wrong, and where that is so. States: 0 scheduled, 1 ready, 2 running, 3 parked, 4 done,
/// 5 cancelled.
fn invariants() -> Vec<(&'static str, Document)> {
    let is = |state: i32| doc! { "$eq": ["$state", state] };
    let among = |states: Vec<i32>| doc! { "$in": ["$state", states] };
    let stub = there("stub");
    let kept = doc! { "$not": [stub.clone()] };
    let line = |prefix: &str| doc! { "$concat": [prefix, "$queue", "/"] };
    let begins = |prefix: &str| {
        let at = doc! { "$indexOfBytes": [{ "$ifNull": ["$line", ""] }, line(prefix)] };
        doc! { "$eq": [at, 0] }
    };
    vec![
        ("a ready job, and no other, is in line", unlike(is(1), begins("r/"))),
        ("a scheduled job, and no other, waits to be due", unlike(is(0), begins("s/"))),
        ("a parked job, and no other, is counted as such", unlike(is(3), begins("p/"))),
        (
            "what runs or has ended is in no line",
            doc! { "$and": [among(vec![2, 4, 5]), there("line")] },
        ),
        ("a running job has its nonce, and no other has", unlike(is(2), there("run"))),
        ("a running job has a lease, and no other has", unlike(is(2), there("lease_until"))),
        (
            "the nonce under which a job runs is its claim's",
            doc! { "$and": [is(2), { "$or": [
                { "$ne": ["$run", "$nonce"] }, { "$lt": ["$fence", 1_i64] }, there("outcome"),
            ] }] },
        ),
        (
            "only a running job is asked to end",
            doc! { "$and": [{ "$ne": ["$state", 2] }, there("cancel")] },
        ),
        (
            "a cold job is in the lists of its state, and no other is",
            doc! { "$and": [&kept, unlike(among(vec![0, 3, 5]), doc! { "$eq": ["$cold", "$state"] })] },
        ),
        ("a stub is in no list of a state", doc! { "$and": [&stub, there("cold")] }),
        (
            "what has ended says when, and nothing else does",
            doc! { "$and": [&kept, unlike(among(vec![4, 5]), there("ended_at"))] },
        ),
        (
            "a key until finished is held while its job is live, and not after",
            doc! { "$and": [
                { "$eq": ["$scope", 1] }, unlike(among(vec![0, 1, 2, 3]), there("held")),
            ] },
        ),
        (
            "a key until started is held by no job that was delivered or has ended",
            doc! { "$and": [{ "$eq": ["$scope", 2] }, there("held"), { "$or": [
                { "$gt": ["$fence", 0_i64] }, among(vec![4, 5]),
            ] }] },
        ),
        (
            "a job that may still be delivered has an attempt left, a running one no more than all",
            doc! { "$or": [
                { "$gt": ["$attempt", "$max_attempts"] },
                { "$lt": ["$attempt", 0] },
                { "$and": [among(vec![0, 1]), { "$gte": ["$attempt", "$max_attempts"] }] },
                { "$and": [is(2), { "$lt": ["$attempt", 1] }] },
            ] },
        ),
        (
            "at most a hundred attempts are kept",
            doc! { "$gt": [{ "$size": { "$ifNull": ["$attempts", []] } }, 100] },
        ),
    ]
}

/// One sentence for each thing that is wrong.
///
/// # Errors
/// The server's.
pub async fn wrong(database: &Database) -> mongodb::error::Result<Vec<String>> {
    let jobs = database.collection::<Document>("jobs_jobs");
    let mut found = Vec::new();
    for (what, filter) in invariants() {
        let mut rows = jobs.find(doc! { "$expr": filter }).await?;
        let (mut count, mut told) = (0, Vec::new());
        while rows.advance().await? {
            count += 1;
            if told.len() < TOLD {
                told.push(rows.current().get_str("_id").unwrap_or_default().to_owned());
            }
        }
        if count > 0 {
            found.push(format!("{what}: not so for {count}, such as {}", told.join(", ")));
        }
    }
    Ok(found)
}
