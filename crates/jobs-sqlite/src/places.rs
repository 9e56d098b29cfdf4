//! Queues, lanes and sublanes: made by the first push to each, looked up once.

use jobs_core::AuthorizedJob;

use crate::{
    db::query,
    error::Fault,
    row::get,
    tx::{Place, Tx, json},
};

/// Lanes that a handle remembers; beyond that it forgets all and looks them up again.
const REMEMBERED: usize = 100_000;

/// The place of each job, made where it is missing.
pub(crate) async fn find(tx: &mut Tx<'_>, jobs: &[&AuthorizedJob]) -> Result<Vec<Place>, Fault> {
    let key = |job: &AuthorizedJob| [job.queue.clone(), job.tenant.clone(), job.name.clone()];
    let keys: Vec<_> = jobs.iter().map(|job| key(job)).collect();
    let mut missing: Vec<_> = keys.iter().filter(|key| !tx.places.contains_key(*key)).collect();
    if !missing.is_empty() {
        missing.sort_unstable();
        missing.dedup();
        let wanted = json(&missing);
        tx.db.run(query(include_str!("op/enqueue_queues.sql")).bind(&wanted)).await?;
        tx.db.run(query(include_str!("op/enqueue_lanes.sql")).bind(&wanted)).await?;
        tx.db.run(query(include_str!("op/enqueue_sublanes.sql")).bind(&wanted)).await?;
        let rows = tx.db.all(query(include_str!("op/enqueue_places.sql")).bind(&wanted)).await?;
        let missing: Vec<_> = missing.into_iter().cloned().collect();
        if tx.places.len() > REMEMBERED {
            tx.places.clear();
            return Box::pin(find(tx, jobs)).await;
        }
        for row in rows {
            let at = usize::try_from(get::<i64>(&row, 0)?).unwrap_or(usize::MAX);
            let place = Place { queue: get(&row, 1)?, lane: get(&row, 2)?, sublane: get(&row, 3)? };
            if let Some(key) = missing.get(at) {
                tx.places.insert(key.clone(), place);
            }
        }
    }
    let place = |key| tx.places.get(key).copied();
    let places: Option<Vec<_>> = keys.iter().map(place).collect();
    places.ok_or_else(|| Fault::Corrupt("a lane just made is not there".into()))
}
