//! Lists (A2): newest ids by index, lane by lane, then the jobs themselves.
//!
//! Each lane has an index by id for each state, and no wider ones: those would cost every transition
//! two more writes each. What a list of many lanes costs instead is one look at each lane's newest, 200
//! lanes a script.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use futures::future::try_join_all;
use jobs_core::{
    JobRef, Permit, Result, State,
    permit::Read,
    time::from_millis,
    view::{Cursor, JobView, List, Page},
};

use super::{get::rows, scoped::nobody};
use crate::{
    Redis,
    db::Db,
    error::Fault,
    keys::shard_of,
    reply::Reply,
    row::{id, id_of},
    script::script,
};

script!(LIST, ALWAYS, "list.lua", LANES);

/// Most jobs that one page looks at.
const LOOKED_AT: usize = 1000;
/// And for how long.
const BUDGET: Duration = Duration::from_millis(250);
/// Jobs read by one script.
const READ: usize = 100;

/// A page, newest id first.
pub(crate) async fn page(store: &Redis, permit: &Permit<Read>, list: &List) -> Result<Page> {
    let page = async {
        let db = &store.db;
        let began = Instant::now();
        let tenant = permit.tenant().or(list.tenant.as_deref());
        let asked = (list.queue.as_deref(), list.tenant.as_deref());
        let nothing = nobody(permit, asked.0, asked.1);
        let most = if list.page == 0 { 100 } else { list.page.min(1000) };
        let filtered = list.name.is_some() || list.id.is_some() || list.cause.is_some();
        let wanted = if filtered { LOOKED_AT } else { most };
        let (mut found, shards) = (Vec::new(), db.shards().await?);
        if !nothing {
            let all = match tenant {
                Some(tenant) => vec![shard_of(tenant, shards)],
                None => (0..shards).collect(),
            };
            let newest = |shard| newest(db, shard, list, tenant, wanted + 1);
            found = try_join_all(all.into_iter().map(newest)).await?.concat();
            found.sort_unstable_by(|a, b| (b.id, &b.tenant).cmp(&(a.id, &a.tenant)));
        }
        let more = found.len() > wanted;
        found.truncate(wanted);

        let mut page = Page { jobs: Vec::new(), next: None, complete: true, now: from_millis(0) };
        let mut last = None;
        let mut parts = found.chunks(READ);
        let mut now = None;
        'look: while let Some(part) = parts.next() {
            let (at, views) = views(db, shards, part).await?;
            now = Some(at);
            for job in part {
                let view = views.get(job).filter(|view| fits(list, view));
                if view.is_some() && page.jobs.len() == most {
                    page.next = last.map(Cursor);
                    break 'look;
                }
                page.jobs.extend(view.cloned());
                last = Some(job.clone());
            }
            if began.elapsed() > BUDGET && parts.len() > 0 {
                page.complete = false;
                page.next = last.map(Cursor);
                break;
            }
        }
        if page.next.is_none() && more {
            page.complete = page.jobs.len() == most;
            page.next = found.last().cloned().map(Cursor);
        }
        page.now = from_millis(match now {
            Some(now) => now,
            None => rows(db, 0, false, &[]).await?.0,
        });
        Ok(page)
    };
    store.db.within("list", page).await
}

/// The newest of a shard, a script for every 200 lanes.
async fn newest(
    db: &Db,
    shard: u32,
    list: &List,
    tenant: Option<&str>,
    most: usize,
) -> std::result::Result<Vec<JobRef>, Fault> {
    let states: String = State::ALL
        .into_iter()
        .filter(|state| list.state.is_none_or(|asked| asked == *state))
        .map(|state| (state as u8).to_string())
        .collect();
    let after = list.after.as_ref().map(|Cursor(job)| (id(job.id), job.tenant.clone()));
    let (after_id, after_tenant) = after.unwrap_or_default();
    let (mut found, mut lane) = (Vec::new(), String::new());
    loop {
        let arguments = vec![
            list.queue.as_deref().unwrap_or_default().into(),
            tenant.unwrap_or_default().into(),
            states.as_str().into(),
            after_id.as_str().into(),
            after_tenant.as_str().into(),
            i64::try_from(most).unwrap_or(i64::MAX).into(),
            lane.as_str().into(),
        ];
        let mut reply = Reply::of(db.run(shard, &LIST, arguments).await?)?;
        lane = reply.text()?;
        while reply.left() > 1 {
            let (tenant, id) = (reply.text()?, reply.text()?);
            found.push(JobRef { tenant, id: id_of(&id)? });
        }
        if lane.is_empty() {
            return Ok(found);
        }
        if found.len() > 4 * most {
            found.sort_unstable_by(|a, b| (b.id, &b.tenant).cmp(&(a.id, &a.tenant)));
            found.truncate(most);
        }
    }
}

/// The jobs themselves, whichever of them are still there, and the time.
async fn views(
    db: &Db,
    shards: u32,
    jobs: &[JobRef],
) -> std::result::Result<(i64, HashMap<JobRef, JobView>), Fault> {
    let mut by_shard = HashMap::<u32, Vec<JobRef>>::new();
    for job in jobs {
        by_shard.entry(shard_of(&job.tenant, shards)).or_default().push(job.clone());
    }
    let read =
        |(shard, jobs): (u32, Vec<JobRef>)| async move { rows(db, shard, false, &jobs).await };
    let (mut now, mut views) = (0, HashMap::new());
    for (at, rows) in try_join_all(by_shard.into_iter().map(read)).await? {
        now = now.max(at);
        for row in rows.into_iter().flatten() {
            let view = row.view()?;
            views.insert(view.job.job_ref(), view);
        }
    }
    Ok((now, views))
}

fn fits(list: &List, view: &JobView) -> bool {
    let says = |text: &str| view.last_cause.as_ref().is_some_and(|c| c.as_str().contains(text));
    list.state.is_none_or(|state| state == view.state)
        && list.queue.as_ref().is_none_or(|queue| *queue == view.job.queue)
        && list.name.as_ref().is_none_or(|name| *name == view.job.name)
        && list.id.is_none_or(|id| id == view.job.id)
        && list.cause.as_ref().is_none_or(|text| says(text))
}
