//! An application with jobs: `serve` is its own, `worker` and `jobs …` come with jobs-cli.

use clap::Parser;
use jobs_cli::Jobs;
use jobs_core::{Context, Denied, Failure, Forbidden, Grant, JobType, Policy, Scope, Worker};
use jobs_sqlite::Sqlite;

#[derive(Parser)]
enum App {
    /// Serve requests
    Serve,
    #[command(flatten)]
    Jobs(jobs_cli::Command),
}

#[tokio::main]
async fn main() {
    match App::parse() {
        App::Serve => println!("serving"),
        App::Jobs(command) => {
            let jobs = Jobs::on(|| Sqlite::connect("app.db"))
                .worker(|store| Worker::new(store).handle(send_invoice))
                .grants(grant)
                .migrated_by_opening();
            std::process::exit(jobs.run(command).await.into());
        }
    }
}

/// Who sits at the keyboard, here whom the environment says, and whether the policy lets them.
async fn grant(action: &'static str, scope: Scope) -> Result<Grant, Forbidden> {
    let who = std::env::var("USER").unwrap_or_default();
    match scope {
        Scope::Tenant(tenant) => Staff.authorize(&who, action, &tenant).await,
        Scope::Operator => Staff.authorize_operator(&who, action).await,
    }
}

struct Staff;

impl Policy for Staff {
    async fn allows(&self, who: &str, _action: &str, _tenant: &str) -> Result<(), Denied> {
        if who == "ada" { Ok(()) } else { Err(Denied::because("not on the staff")) }
    }
}

#[derive(serde::Serialize, serde::Deserialize)]
struct SendInvoice(u64);

impl JobType for SendInvoice {
    const NAME: &'static str = "invoice.send";
}

async fn send_invoice(_: Context, job: SendInvoice) -> Result<(), Failure> {
    println!("invoice {} sent", job.0);
    Ok(())
}
