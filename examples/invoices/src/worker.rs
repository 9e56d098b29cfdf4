//! How jobs are run. A handler reaches rows by the Grant it was given and by no other: the tenant's
//! and the action's under which its job was pushed.

use jobs_core::{Context, Failure, Job, JobId, Pushed, Worker};
use serde::Deserialize;
use uuid::Uuid;

use crate::{
    data::{Data, Invoice},
    jobs::{BuildReport, ImportFile, ImportLine, SendInvoice},
    mailer::Mailer,
    telemetry::{Origin, Timelines},
};

/// The worker with its handlers.
pub fn worker(data: Data, mailer: Mailer) -> Worker {
    let (send, report, file, line) = (data.clone(), data.clone(), data.clone(), data.clone());
    Worker::new(data.jobs())
        .concurrency(8)
        .recorder(Timelines)
        .handle(move |ctx: Context, job: SendInvoice| {
            let (data, mailer) = (send.clone(), mailer.clone());
            async move { send_invoice(&data, &mailer, &ctx, job).await }
        })
        .handle(move |ctx: Context, job: BuildReport| {
            let data = report.clone();
            async move { build_report(&data, &ctx, job).await }
        })
        .handle(move |ctx: Context, job: ImportFile| {
            let data = file.clone();
            async move { import_file(&data, &ctx, job).await }
        })
        .handle(move |ctx: Context, job: ImportLine| {
            let data = line.clone();
            async move { import_line(&data, &ctx, job).await }
        })
}

/// Mails an invoice once, as far as the mail service knows a repetition by its key.
///
/// # Errors
/// Parked where there is no such invoice, else tried again.
pub async fn send_invoice(
    data: &Data,
    mailer: &Mailer,
    ctx: &Context,
    job: SendInvoice,
) -> Result<(), Failure> {
    let invoice = data.invoice(ctx.grant(), job.invoice).await?;
    // No later attempt will find it: it is deleted, or was never this tenant's.
    let missing = || Failure::park(format!("{} has no invoice {}", ctx.tenant(), job.invoice));
    let invoice = invoice.ok_or_else(missing)?;
    if invoice.sent_for.is_some() {
        // An earlier delivery came this far.
        return Ok(());
    }
    let mailed = mailer.send(ctx.tenant(), &invoice, ctx.job_id()).await;
    mailed.map_err(Failure::retry)?;
    Ok(data.mark_sent(ctx.grant(), invoice).await?)
}

/// Adds up a month; twice is as good as once.
///
/// # Errors
/// Tried again.
pub async fn build_report(data: &Data, ctx: &Context, job: BuildReport) -> Result<(), Failure> {
    data.add_up(ctx.grant(), &job.month).await?;
    Ok(())
}

/// One line of an uploaded file.
#[derive(Deserialize)]
struct Line {
    customer: String,
    cents: u64,
    month: String,
}

/// Pushes a job for each line, in bulk, under the Grant of the upload.
///
/// # Errors
/// Parked where the file is not there or has a line that cannot be read: nothing is pushed then.
pub async fn import_file(data: &Data, ctx: &Context, job: ImportFile) -> Result<(), Failure> {
    let file = data.uploaded(ctx.grant(), job.upload).await?;
    let missing = || Failure::park(format!("{} has no upload {}", ctx.tenant(), job.upload));
    let file = file.ok_or_else(missing)?;
    let lines: Vec<Line> = csv::Reader::from_reader(file.as_bytes())
        .deserialize()
        .collect::<Result<_, _>>()
        .map_err(|error| Failure::park(format!("the file cannot be imported: {error}")))?;
    let mut jobs = Vec::with_capacity(lines.len());
    for (number, Line { customer, cents, month }) in lines.into_iter().enumerate() {
        let line = ImportLine { customer, cents, month };
        let job = Origin::of_run(ctx).mark(Job::of(ctx.grant(), &line)?);
        jobs.push(Job { id: line_id(ctx.job_id(), number), ..job });
    }
    for answer in ctx.push_many(jobs).await {
        match answer? {
            // A second run of this file meets those that the first one pushed.
            Pushed::Stored | Pushed::Duplicate(_) => {}
            Pushed::KeyHeld(id, _) => return Err(Failure::park(format!("{id} holds its key"))),
        }
    }
    Ok(())
}

/// The id of a line's job, the same in each run: counted on from the file's, in the bits that are
/// random in a UUIDv7.
pub fn line_id(file: JobId, number: usize) -> JobId {
    const RANDOM: u128 = (1 << 62) - 1;
    let file = file.0.as_u128();
    let low = file.wrapping_add(number as u128 + 1) & RANDOM;
    JobId(Uuid::from_u128(file & !RANDOM | low))
}

/// Stores the invoice of a line, called as its job is: twice is as good as once.
///
/// # Errors
/// Tried again.
pub async fn import_line(data: &Data, ctx: &Context, job: ImportLine) -> Result<(), Failure> {
    let ImportLine { customer, cents, month } = job;
    let invoice = Invoice { id: ctx.job_id(), customer, cents, month, sent_for: None };
    Ok(data.add(ctx.grant(), &invoice).await?)
}
