//! Push (P1–P5, P7).

use std::collections::BTreeMap;

use fred::types::Value;
use futures::future::join_all;
use jobs_core::{
    AuthorizedJob, Result,
    driver::scope_number,
    job::RunAt,
    queue::Pushed,
    time::{delay_millis, millis_up},
};

use super::{PART, letter, strange};
use crate::{
    Redis,
    error::Fault,
    keys::shard_of,
    reply::Reply,
    row::{body, id, id_of, state_of},
    script::script,
};

script!(ENQUEUE, IF_ROOM, "enqueue.lua");

/// Most bytes of bodies of one script.
const BYTES: usize = 1024 * 1024;

/// Single pushes share scripts; many are cut into parts, each of which answers for itself.
pub(crate) async fn all(store: &Redis, jobs: &[AuthorizedJob]) -> Vec<Result<Pushed>> {
    let answers = match jobs {
        [job] => {
            let statement = |jobs: Vec<AuthorizedJob>| {
                let store = store.clone();
                async move { parts(&store, &jobs).await }
            };
            vec![store.sharing().call(job.clone(), statement).await]
        }
        _ => parts(store, jobs).await,
    };
    let stored = jobs.iter().zip(&answers).filter(|(_, answer)| answer.is_ok());
    let mut told: Vec<_> = stored.map(|(job, _)| job.queue.as_str()).collect();
    told.dedup();
    store.wake.tell(told);
    answers
}

async fn parts(store: &Redis, jobs: &[AuthorizedJob]) -> Vec<Result<Pushed>> {
    let shards = match store.db.within("enqueue", store.db.shards()).await {
        Ok(shards) => shards,
        Err(error) => return jobs.iter().map(|_| Err(error.clone())).collect(),
    };
    let mut places = BTreeMap::<u32, Vec<usize>>::new();
    for (at, job) in jobs.iter().enumerate() {
        places.entry(shard_of(&job.tenant, shards)).or_default().push(at);
    }
    let run = |(shard, places): (u32, Vec<usize>)| async move {
        let mut answers = Vec::with_capacity(places.len());
        let mut rest = places.as_slice();
        // One part after the other: of two equal ids or keys the first wins.
        while !rest.is_empty() {
            let (part, after) = rest.split_at(fitting(jobs, rest));
            rest = after;
            let pushed = store.db.within("enqueue", one_part(store, shard, jobs, part)).await;
            match pushed {
                Ok(pushed) => answers.extend(part.iter().copied().zip(pushed)),
                Err(error) => {
                    answers.extend(part.iter().map(|at| (*at, Err(error.clone()))));
                }
            }
        }
        answers
    };
    let mut all: Vec<_> =
        join_all(places.into_iter().map(run)).await.into_iter().flatten().collect();
    all.sort_unstable_by_key(|(at, _)| *at);
    all.into_iter().map(|(_, answer)| answer).collect()
}

/// How many from the front one script takes; at least one.
fn fitting(jobs: &[AuthorizedJob], places: &[usize]) -> usize {
    let mut bytes = 0;
    let fits = places.iter().take(PART).take_while(|at| {
        bytes += jobs[**at].payload.as_str().len();
        bytes <= BYTES
    });
    fits.count().max(1)
}

async fn one_part(
    store: &Redis,
    shard: u32,
    jobs: &[AuthorizedJob],
    places: &[usize],
) -> std::result::Result<Vec<Result<Pushed>>, Fault> {
    let arguments = places.iter().flat_map(|at| arguments(&jobs[*at])).collect();
    let mut reply = Reply::of(store.db.run(shard, &ENQUEUE, arguments).await?)?;
    let mut answers = Vec::with_capacity(places.len());
    while let Some(answer) = reply.next() {
        answers.push(Ok(match letter(answer)? {
            ('s', _) => Pushed::Stored,
            ('d', state) => Pushed::Duplicate(state_of(&state)?),
            ('k', rest) => {
                let (state, holder) = rest.split_at_checked(1).unwrap_or_default();
                Pushed::KeyHeld(id_of(holder)?, state_of(state)?)
            }
            ('w', _) => {
                let job = places.get(answers.len()).map(|at| jobs[*at].job_ref());
                let of = job.map_or_else(String::new, |job| job.to_string());
                let what = format!("a key of the job {of} was written by somebody else");
                answers.push(Err(Fault::Corrupt(what).into_error("enqueue")));
                continue;
            }
            (other, _) => return Err(strange(other)),
        }));
    }
    if answers.len() != places.len() {
        return Err(Fault::Corrupt("an answer is missing".to_owned()));
    }
    Ok(answers)
}

fn arguments(job: &AuthorizedJob) -> [Value; 11] {
    let (how, when) = match job.run_at {
        RunAt::Now => (0, 0),
        RunAt::At(time) => (1, millis_up(time)),
        RunAt::After(delay) => (2, delay_millis(delay)),
    };
    [
        job.tenant.as_str().into(),
        id(job.id).into(),
        job.queue.as_str().into(),
        job.name.as_str().into(),
        i64::from(job.priority).into(),
        i64::from(job.max_attempts()).into(),
        how.into(),
        when.into(),
        i64::from(scope_number(job.key.as_ref())).into(),
        job.key.as_ref().map_or("", |key| key.text.as_str()).into(),
        body(job).into(),
    ]
}
