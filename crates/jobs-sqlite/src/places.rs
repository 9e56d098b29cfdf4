//! Queues, lanes and sublanes: made by the first push to each, looked up once.

use std::collections::{BTreeSet, HashMap};

use jobs_core::AuthorizedJob;

use crate::{
    db::query,
    error::Fault,
    row::get,
    tx::{Tx, json},
};

/// Lanes that a handle remembers; beyond that it forgets all and looks them up again.
const REMEMBERED: usize = 100_000;

/// Where a job of (queue, tenant, name) lives.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub queue: i64,
    pub lane: i64,
    pub sublane: i64,
}

/// Places already looked up, by queue, tenant, name, so that looking copies nothing. Lanes are never
/// deleted, so it only has to be emptied when the transaction that made one is rolled back.
#[derive(Debug, Default)]
pub(crate) struct Places {
    known: HashMap<String, HashMap<String, HashMap<String, Place>>>,
    count: usize,
}

impl Places {
    fn get(&self, job: &AuthorizedJob) -> Option<Place> {
        self.known.get(&job.queue)?.get(&job.tenant)?.get(&job.name).copied()
    }

    fn insert(&mut self, [queue, tenant, name]: [&str; 3], place: Place) {
        if self.count > REMEMBERED {
            self.clear();
        }
        self.count += 1;
        let tenants = self.known.entry(queue.to_owned()).or_default();
        tenants.entry(tenant.to_owned()).or_default().insert(name.to_owned(), place);
    }

    pub fn clear(&mut self) {
        *self = Self::default();
    }
}

/// The place of each job, made where it is missing.
pub(crate) async fn find<'j>(
    tx: &mut Tx<'_>,
    jobs: impl Iterator<Item = &'j AuthorizedJob> + Clone,
) -> Result<Vec<Place>, Fault> {
    let mut last: Option<(&AuthorizedJob, Place)> = None;
    let known = jobs.clone().map(|job| {
        // A bulk push is mostly of one name: comparing is cheaper than hashing three.
        let same = last.filter(|(other, _)| key(other) == key(job));
        let place = same.map(|(_, place)| place).or_else(|| tx.places.get(job))?;
        last = Some((job, place));
        Some(place)
    });
    let known: Option<Vec<Place>> = known.collect();
    if let Some(places) = known {
        return Ok(places);
    }
    let missing = jobs.clone().filter(|job| tx.places.get(job).is_none());
    let missing: BTreeSet<[&str; 3]> = missing.map(key).collect();
    let missing: Vec<_> = missing.into_iter().collect();
    let wanted = json(&missing);
    tx.db.run(query(include_str!("op/enqueue_queues.sql")).bind(&wanted)).await?;
    tx.db.run(query(include_str!("op/enqueue_lanes.sql")).bind(&wanted)).await?;
    tx.db.run(query(include_str!("op/enqueue_sublanes.sql")).bind(&wanted)).await?;
    let mut found = HashMap::with_capacity(missing.len());
    for row in tx.db.all(query(include_str!("op/enqueue_places.sql")).bind(&wanted)).await? {
        let at = usize::try_from(get::<i64>(&row, 0)?).unwrap_or(usize::MAX);
        let place = Place { queue: get(&row, 1)?, lane: get(&row, 2)?, sublane: get(&row, 3)? };
        if let Some(key) = missing.get(at) {
            found.insert(*key, place);
        }
    }
    let place = |job| found.get(&key(job)).copied().or_else(|| tx.places.get(job));
    let places: Option<Vec<_>> = jobs.map(place).collect();
    for (key, place) in found {
        tx.places.insert(key, place);
    }
    places.ok_or_else(|| Fault::Corrupt("a lane just made is not there".into()))
}

fn key(job: &AuthorizedJob) -> [&str; 3] {
    [&job.queue, &job.tenant, &job.name]
}
