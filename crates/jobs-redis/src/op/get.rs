//! Get (A5).

use jobs_core::{JobRef, Permit, Result, permit::Read, view::JobRecord};

use crate::{
    Redis,
    db::Db,
    error::Fault,
    reply::Reply,
    row::{Row, id},
    script::script,
};

script!(GET, ALWAYS, "get.lua");

/// One job with everything that is known of it.
pub(crate) async fn one(
    store: &Redis,
    permit: &Permit<Read>,
    job: &JobRef,
) -> Result<Option<JobRecord>> {
    let get = async {
        let shard = store.db.shard_of(&job.tenant).await?;
        let tenant = if permit.covers(&job.tenant) { job.tenant.clone() } else { String::new() };
        let asked = JobRef { tenant, id: job.id };
        let (now, mut rows) = rows(&store.db, shard, true, &[asked]).await?;
        let row = rows.pop().flatten();
        row.map(|row| row.record(now)).transpose()
    };
    store.db.within("get", get).await
}

/// Jobs of a shard, in order, and the server's time.
pub(crate) async fn rows(
    db: &Db,
    shard: u32,
    full: bool,
    jobs: &[JobRef],
) -> std::result::Result<(i64, Vec<Option<Row>>), Fault> {
    let mut arguments = vec![i64::from(full).into()];
    for job in jobs {
        arguments.extend([job.tenant.as_str().into(), id(job.id).into()]);
    }
    let mut reply = Reply::of(db.run(shard, &GET, arguments).await?)?;
    let now = reply.int()?;
    let mut rows = Vec::with_capacity(jobs.len());
    for job in jobs {
        let missing = || Fault::Corrupt("an answer is missing".to_owned());
        rows.push(Row::read(job.clone(), reply.next().ok_or_else(missing)?)?);
    }
    Ok((now, rows))
}
