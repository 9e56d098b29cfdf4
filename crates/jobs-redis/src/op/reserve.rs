//! Reserve (R1–R8).

use std::time::Duration;

use fred::types::Value;
use jobs_core::{
    Claim, JobRef, Result,
    driver::small,
    queue::{Delivery, Reserve, Reserved},
};

use crate::{
    Redis,
    error::Fault,
    reply::Reply,
    row::{id_of, job},
    script::script,
};

script!(RESERVE, ALWAYS, "reserve.lua");

/// Values of one delivery.
const WIDTH: usize = 9;

/// Takes due jobs.
pub(crate) async fn one(store: &Redis, request: &Reserve) -> Result<Reserved> {
    if request.most() == 0 {
        return Ok(Reserved::default());
    }
    let reserve = async {
        let reply = store.db.run(0, &RESERVE, arguments(request)).await?;
        reserved(request, reply)
    };
    store.db.within("reserve", reserve).await
}

fn arguments(request: &Reserve) -> Vec<Value> {
    let lease = i64::try_from(request.leased_for().length().as_millis()).unwrap_or(i64::MAX);
    let count = |number: usize| Value::from(i64::try_from(number).unwrap_or(i64::MAX));
    let mut all = vec![
        request.queue().into(),
        lease.into(),
        request.nonce_of().0.to_string().into(),
        request.worker().into(),
        count(request.free_slots()),
        count(request.held_ahead()),
        count(request.names().len()),
    ];
    for name in request.names() {
        all.push(name.as_str().into());
        all.push(i64::from(request.may_hold_ahead(name, false)).into());
    }
    all
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
        let read = body
            .and_then(|body| job(&of, request.queue().to_owned(), name, priority, due, &body));
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
