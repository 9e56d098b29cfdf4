//! Reserve (R1–R8): one script where there is one shard, else who is next over all of them first.

use std::time::Duration;

use fred::types::Value;
use futures::future::{join_all, try_join_all};
use jobs_core::{
    Claim, JobRef, Result,
    driver::small,
    queue::{Delivery, Reserve, Reserved},
};

use super::turns::{Peek, share};
use crate::{
    Redis,
    db::Db,
    error::Fault,
    reply::Reply,
    row::{id_of, job},
    script::script,
};

script!(RESERVE, ALWAYS, "reserve.lua", WISH);
script!(PEEK, ALWAYS, "peek.lua", WISH);

/// Values of one delivery.
const WIDTH: usize = 9;
/// Most rounds over several shards; one is the rule.
const ROUNDS: usize = 8;

/// What of a wish goes to one shard in one round.
struct Part {
    shard: u32,
    round: usize,
    slots: usize,
    ahead: usize,
}

/// Takes due jobs.
pub(crate) async fn one(store: &Redis, request: &Reserve) -> Result<Reserved> {
    if request.most() == 0 {
        return Ok(Reserved::default());
    }
    let reserve = async {
        let db = &store.db;
        match db.shards().await? {
            1 => {
                let (slots, ahead) = (request.free_slots(), request.held_ahead());
                take(db, request, &Part { shard: 0, round: 0, slots, ahead }, &[]).await
            }
            shards => over(db, request, shards).await,
        }
    };
    store.db.within("reserve", reserve).await
}

/// Over several shards: who is next, and then each shard's part of it.
async fn over(db: &Db, request: &Reserve, shards: u32) -> std::result::Result<Reserved, Fault> {
    let mut all = Reserved::default();
    let (mut slots, mut most) = (request.free_slots(), request.most());
    for round in 0..ROUNDS {
        let ahead = most - slots.min(most);
        let slots_now = most - ahead;
        let peek = |shard| peek(db, request, shard, round, (slots_now, ahead));
        let peeks = try_join_all((0..shards).map(peek)).await?;
        if round == 0 && peeks.iter().any(|peek| !peek.rounds.is_empty()) {
            return again(db, request, &peeks).await;
        }
        all.next_due = peeks.iter().filter_map(|peek| peek.next_due).min();
        let (nows, quotas) = share(&peeks, most);
        // All that there is was told of, and all of it is wished for.
        let everything = quotas.iter().sum::<usize>() < most && !peeks.iter().any(Peek::has_more);
        let mut left = slots_now;
        let parts: Vec<_> = quotas
            .into_iter()
            .zip(0..)
            .filter(|(quota, _)| *quota > 0)
            .map(|(quota, shard)| {
                let slots = quota.min(left);
                left -= slots;
                Part { shard, round, slots, ahead: quota - slots }
            })
            .collect();
        let takes = parts.iter().map(|part| take(db, request, part, &nows));
        let before = all.deliveries.len();
        // All of them end, also when one fails: what a repetition finds is then what was wished for.
        for part in join_all(takes).await {
            all.deliveries.extend(part?.deliveries);
        }
        let took = &all.deliveries[before..];
        let slow = |held: &&Delivery| !request.may_hold_ahead(&held.job.name, held.suspect);
        slots -= took.iter().filter(slow).count().min(slots);
        most -= took.len().min(most);
        if took.is_empty() || most == 0 || everything {
            break;
        }
    }
    if most == 0 {
        all.next_due = None;
    }
    Ok(all)
}

/// R3: what the first call took, wherever and in whichever round.
async fn again(db: &Db, request: &Reserve, peeks: &[Peek]) -> std::result::Result<Reserved, Fault> {
    let mut parts = Vec::new();
    for (peek, shard) in peeks.iter().zip(0..) {
        let part = |round: &usize| Part { shard, round: *round, slots: 0, ahead: 0 };
        parts.extend(peek.rounds.iter().map(part));
    }
    let held = parts.iter().map(|part| take(db, request, part, &[]));
    let held = try_join_all(held).await?;
    let deliveries = held.into_iter().flat_map(|part| part.deliveries).collect();
    Ok(Reserved { deliveries, next_due: None })
}

fn names(request: &Reserve) -> impl Iterator<Item = Value> {
    request.names().iter().flat_map(|name| {
        [name.as_str().into(), i64::from(request.may_hold_ahead(name, false)).into()]
    })
}

fn count(number: usize) -> Value {
    i64::try_from(number).unwrap_or(i64::MAX).into()
}

async fn peek(
    db: &Db,
    request: &Reserve,
    shard: u32,
    round: usize,
    (slots, ahead): (usize, usize),
) -> std::result::Result<Peek, Fault> {
    let mut arguments = vec![
        request.queue().into(),
        request.nonce_of().0.to_string().into(),
        count(slots),
        count(ahead),
        count(request.names().len()),
    ];
    arguments.extend(names(request));
    arguments.push(count(round));
    Peek::read(Reply::of(db.run(shard, &PEEK, arguments).await?)?)
}

async fn take(
    db: &Db,
    request: &Reserve,
    part: &Part,
    nows: &[Option<f64>],
) -> std::result::Result<Reserved, Fault> {
    let lease = i64::try_from(request.leased_for().length().as_millis()).unwrap_or(i64::MAX);
    let mut arguments = vec![
        request.queue().into(),
        lease.into(),
        request.nonce_of().0.to_string().into(),
        request.worker().into(),
        count(part.slots),
        count(part.ahead),
        count(request.names().len()),
    ];
    arguments.extend(names(request));
    arguments.push(count(part.round));
    let told = |now: &Option<f64>| now.map_or_else(String::new, |now| now.to_string());
    arguments.extend(nows.iter().map(|now| Value::from(told(now))));
    reserved(request, db.run(part.shard, &RESERVE, arguments).await?)
}

fn reserved(request: &Reserve, reply: Value) -> std::result::Result<Reserved, Fault> {
    let mut reply = Reply::of(reply)?;
    let next_due = u64::try_from(reply.int()?).ok().map(Duration::from_millis);
    let mut deliveries = Vec::with_capacity(reply.left() / WIDTH);
    while reply.left() >= WIDTH {
        let (tenant, id) = (reply.text()?, reply.text()?);
        let (name, priority, due) = (reply.text()?, reply.int()?, reply.int()?);
        let (fence, attempt) = (reply.int()?, reply.int()?);
        let (suspect, body) = (reply.text()? == "1", reply.text());
        let of = JobRef { tenant, id: id_of(&id)? };
        let read =
            body.and_then(|body| job(&of, request.queue().to_owned(), name, priority, due, &body));
        match read {
            Ok(job) => deliveries.push(Delivery {
                claim: Claim { job: of, fence, nonce: request.nonce_of() },
                job,
                attempt: small(attempt),
                suspect,
            }),
            // Its lease runs out, its attempts do, and it parks, where a person finds it.
            Err(fault) => tracing::error!(job = %of, ?fault, "a damaged job is left alone"),
        }
    }
    Ok(Reserved { deliveries, next_due })
}
