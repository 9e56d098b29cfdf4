//! List (A2).

use jobs_core::{
    JobId, JobRef, Permit, Result,
    permit::Read,
    time::from_millis,
    view::{Cursor, JobView, List, Page},
};
use sqlx::postgres::PgRow;
use uuid::Uuid;

use crate::{
    Postgres,
    db::get,
    error::Fault,
    row::{self, small},
};

/// How many columns a view has.
pub(super) const VIEW: usize = 33;

/// One page.
pub(crate) async fn page(store: &Postgres, permit: &Permit<Read>, list: &List) -> Result<Page> {
    let outside = list.tenant.as_deref().is_some_and(|tenant| !permit.covers(tenant));
    let tenant = permit.tenant().or(list.tenant.as_deref());
    let most = if list.page == 0 { 100 } else { list.page.min(1000) };
    // What is outside the scope is a list of nothing, by the same statement.
    let tenant = if outside { Some("") } else { tenant };
    let plain =
        |text: &'_ Option<String>| text.as_deref().map(|text| row::plain(text).into_owned());
    let rows = store.db.call("list", include_str!("list_page.sql"), |args| {
        args.add(tenant.map(row::plain))?;
        args.add(plain(&list.queue))?;
        args.add(list.state.map(|state| state as i16))?;
        args.add(plain(&list.name))?;
        args.add(list.id.map(|id| id.0))?;
        args.add(plain(&list.cause))?;
        args.add(i32::try_from(most).unwrap_or(i32::MAX))?;
        args.add(list.after.as_ref().map(|Cursor(job)| job.id.0))?;
        args.add(list.after.as_ref().map(|Cursor(job)| row::plain(&job.tenant)))
    });
    read(&rows.await?).map_err(|fault| fault.into_error("list"))
}

fn read(rows: &[PgRow]) -> std::result::Result<Page, Fault> {
    let first = rows.first().ok_or_else(|| Fault::Corrupt("a page has no answer".into()))?;
    let next: Option<Uuid> = get(first, VIEW + 1)?;
    let tenant: Option<String> = get(first, VIEW + 2)?;
    let mut page = Page {
        jobs: Vec::new(),
        next: next.zip(tenant).map(|(id, tenant)| Cursor(JobRef { tenant, id: JobId(id) })),
        complete: get(first, VIEW + 3)?,
        now: from_millis(get(first, VIEW)?),
    };
    for row in rows {
        if get::<Option<Uuid>>(row, 2)?.is_none() {
            continue;
        }
        match view(row) {
            Ok(view) => page.jobs.push(view),
            Err(fault) => {
                let (error, job) = (fault.into_error("list"), row::whose(row, 1, 2));
                tracing::error!(%error, job, "a job that cannot be read is left out of a list");
            }
        }
    }
    Ok(page)
}

/// A job as operators see it.
pub(super) fn view(row: &PgRow) -> std::result::Result<JobView, Fault> {
    Ok(JobView {
        job: row::job(row, 0)?,
        state: row::state(get(row, 17)?)?,
        attempt: small(get(row, 8)?),
        pushed_at: from_millis(get(row, 18)?),
        finished_at: get::<Option<i64>>(row, 19)?.map(from_millis),
        last_cause: get::<Option<String>>(row, 21)?.map(Into::into),
        cancel_requested: get(row, 20)?,
    })
}
