//! The first job, on a SQLite file: policy, Grant, typed push, worker, result.
//!
//! Run: `cargo run -p quickstart`. The file is the first argument, or `quickstart.db` in the
//! current folder. Run it twice: the history of the first run is still there.

use std::error::Error;

use jobs_core::{
    Admin, Grant, Job, JobId, JobType, Policy, QueueExt, State,
    grant::Denied,
    queue::Pushed,
    view::{JobView, List},
    worker::{Context, Failure, Worker},
};
use jobs_sqlite::Sqlite;
use serde::{Deserialize, Serialize};

/// The job: what it needs to know, and the name it is stored under.
#[derive(Serialize, Deserialize)]
struct SendInvoice {
    invoice: u64,
}

impl JobType for SendInvoice {
    const NAME: &'static str = "invoice.send";
}

/// The application's rules: Ada works for Acme, and may send invoices and look at jobs there.
struct Members;

impl Policy for Members {
    async fn allows(&self, subject: &str, action: &str, tenant: &str) -> Result<(), Denied> {
        match (subject, action, tenant) {
            ("ada", "invoice.send" | "jobs.read", "acme") => Ok(()),
            _ => Err(Denied::because("no member of that tenant")),
        }
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let file = std::env::args().nth(1).unwrap_or_else(|| "quickstart.db".to_owned());
    let store = Sqlite::connect(&file).await?;

    let reader = Members.authorize("ada", "jobs.read", "acme").await?;
    println!("Opened {file}.");
    let earlier = tell_history(&store, &reader).await?;

    // In an application this is a request handler. The Grant is what a push needs.
    let grant = Members.authorize("ada", "invoice.send", "acme").await?;
    let invoice = 1001 + earlier.len() as u64;
    let job = Job::of(&grant, &SendInvoice { invoice })?;
    let id = job.id;
    match store.push(&grant, job).await? {
        Pushed::Stored => {}
        other => return Err(format!("the id is new, but the store says {other:?}").into()),
    }
    println!("ada pushed {} {id} for acme: send invoice {invoice}.", SendInvoice::NAME);

    // A job can be filled in by hand, but it does not get into the store with another tenant.
    let forged = Job { tenant: "globex".to_owned(), ..Job::of(&grant, &SendInvoice { invoice })? };
    match store.push(&grant, forged).await {
        Ok(stored) => return Err(format!("a forged push was not refused: {stored:?}").into()),
        Err(refusal) => println!("A push for another tenant was refused: {refusal}."),
    }

    // In an application this is the `worker` subcommand, in a process of its own.
    let worker = Worker::new(store.clone()).concurrency(4).handle(send_invoice);
    let ended = worker.run_until_idle().await?;
    if ended.exit_code() != 0 {
        return Err(format!("the worker left something: {ended:?}").into());
    }
    println!("The worker had nothing more to do and stopped.");

    let now = tell_history(&store, &reader).await?;
    if !now.contains(&id) {
        return Err(format!("{id} should be done").into());
    }
    println!("Run me again: history survives.");
    Ok(())
}

/// The handler. It may run twice for one job; `id` is the same both times.
async fn send_invoice(context: Context, job: SendInvoice) -> Result<(), Failure> {
    let grant = context.grant();
    println!(
        "The handler sent invoice {}, attempt {}, as {} on behalf of {} in {}, to do {} only.",
        job.invoice,
        context.attempt(),
        grant.subject(),
        grant.authorized_by(),
        grant.tenant().unwrap_or("no tenant"),
        grant.action(),
    );
    Ok(())
}

/// Says how much is done in the tenant that `grant` may read, and what was last.
async fn tell_history(store: &Sqlite, grant: &Grant) -> Result<Vec<JobId>, Box<dyn Error>> {
    let mut list = List { state: Some(State::Done), ..List::default() };
    let mut done = Vec::new();
    loop {
        let page = store.list(&grant.permit()?, &list).await?;
        done.extend(page.jobs);
        list.after = page.next;
        if list.after.is_none() {
            break;
        }
    }
    let jobs = if done.len() == 1 { "job" } else { "jobs" };
    println!("The history of acme has {} {jobs}.", done.len());
    for JobView { job, state, .. } in done.iter().take(3).rev() {
        println!("  {} {} by {}: {state}", job.name, job.id, job.authorized_by);
    }
    Ok(done.into_iter().map(|view| view.job.id).collect())
}
