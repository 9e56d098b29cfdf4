//! Pushes one job and runs it. The README's first program, word for word.
use jobs_core::grant::{Denied, Policy};
use jobs_core::worker::{Context, Failure, Worker};
use jobs_core::{JobType, QueueExt};

#[derive(serde::Serialize, serde::Deserialize)]
struct SendInvoice(u64);
impl JobType for SendInvoice {
    const NAME: &'static str = "invoice.send";
}

struct MembersOnly;
impl Policy for MembersOnly {
    async fn allows(&self, who: &str, _action: &str, tenant: &str) -> Result<(), Denied> {
        if (who, tenant) == ("ada", "acme") { Ok(()) } else { Err(Denied::because("no member")) }
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let store = jobs_sqlite::Sqlite::connect("smallest.db").await?;
    let grant = MembersOnly.authorize("ada", "invoice.send", "acme").await?;
    println!("{:?}", store.push(&grant, SendInvoice(7)).await?);
    let worker = Worker::new(store).handle(async |ctx: Context, job: SendInvoice| {
        println!("invoice {} sent for {}", job.0, ctx.grant().authorized_by());
        Ok::<(), Failure>(())
    });
    println!("runs settled: {}", worker.run_until_idle().await?.settled);
    Ok(())
}
