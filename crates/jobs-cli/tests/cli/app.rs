//! The application under test: this test's own program, where a test starts it so. What it is like
//! is in its environment.

use std::{env, sync::Arc, time::Duration};

use clap::Parser;
use jobs_cli::{Command, Jobs};
use jobs_core::{
    Admin, Context, Denied, Error, Failure, Forbidden, Grant, Payload, Policy, Scope, Worker,
};
use jobs_postgres::Postgres;
use jobs_sqlite::Sqlite;
use jobs_testkit::kit;

/// Where its store is: a file, or a URL of PostgreSQL's. This makes the program the application.
pub const STORE: &str = "JOBS_CLI_TEST_STORE";
/// The schema there.
pub const SCHEMA: &str = "JOBS_CLI_TEST_SCHEMA";
/// What is missing or wrong in it, one word.
pub const WITHOUT: &str = "JOBS_CLI_TEST_WITHOUT";
/// How far its clock is off, in milliseconds; of files only.
pub const CLOCK: &str = "JOBS_CLI_TEST_CLOCK";
/// `normal`: its file may lose the last commits in a power cut.
pub const DURABILITY: &str = "JOBS_CLI_TEST_DURABILITY";
/// What its handlers say when they start.
pub const RUNS: &str = "a handler runs";

/// `app` in the usage is what a user types.
#[derive(Debug, Parser)]
#[command(name = "app")]
pub enum App {
    /// Serve requests
    Serve,
    #[command(flatten)]
    Jobs(Command),
}

pub fn main() -> ! {
    let App::Jobs(command) = App::parse() else { std::process::exit(0) };
    let without = env::var(WITHOUT).unwrap_or_default();
    let jobs = Jobs::on(open);
    let jobs = match without.as_str() {
        "worker" => jobs,
        "handlers" => jobs.worker(Worker::new),
        _ => jobs.worker(|store| with_handlers(Worker::new(store))),
    };
    let jobs = match without.as_str() {
        "grants" => jobs,
        "users" => {
            jobs.grants(async |_, _| Err::<Grant, _>(std::io::Error::other("no users today")))
        }
        // A mistake: whatever is asked for, the answer is an operator's.
        "scope" => jobs.grants(async |action, _| kit::Open.authorize_operator("ops", action).await),
        _ => jobs.grants(grant),
    };
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let jobs = match without.as_str() {
        "migrate" => jobs,
        _ if is_postgres() => jobs.migrate(async |_| postgres().await?.migrate().await),
        _ => jobs.migrated_by_opening(),
    };
    // Inside, because a runtime that is dropped waits for handlers that block.
    runtime
        .expect("a runtime")
        .block_on(async { std::process::exit(jobs.run(command).await.into()) })
}

async fn open() -> Result<Arc<dyn Admin>, Error> {
    if is_postgres() {
        return Ok(Arc::new(postgres().await?));
    }
    let url = env::var(STORE).expect("a test started it");
    let mut options = jobs_sqlite::Options::new(&url)?;
    if let Ok(off) = env::var(CLOCK) {
        options = options.clock_off_by(off.parse().expect("a number"));
    }
    if env::var_os(DURABILITY).is_some() {
        options = options.durability(jobs_sqlite::Durability::Normal);
    }
    Ok(Arc::new(Sqlite::open(options).await?))
}

fn is_postgres() -> bool {
    env::var(STORE).is_ok_and(|url| url.starts_with("postgres"))
}

async fn postgres() -> Result<Postgres, Error> {
    let (url, schema) = (env::var(STORE), env::var(SCHEMA));
    let url = url.expect("a test started it");
    let schema = schema.expect("a test named it");
    Postgres::open(jobs_postgres::Options::new(&url)?.schema(&schema)?).await
}

async fn grant(action: &'static str, scope: Scope) -> Result<Grant, Forbidden> {
    let who = env::var("JOBS_CLI_TEST_USER").unwrap_or_default();
    match scope {
        Scope::Tenant(tenant) => Staff.authorize(&who, action, &tenant).await,
        Scope::Operator => Staff.authorize_operator(&who, action).await,
    }
}

/// Ada does all in acme, Bob only looks there, ops is an operator.
struct Staff;

impl Policy for Staff {
    async fn allows(&self, who: &str, action: &str, tenant: &str) -> Result<(), Denied> {
        match (who, action, tenant) {
            ("ada", _, "acme") | ("bob", "jobs.read", "acme") => Ok(()),
            _ => Err(Denied::because("not on the staff there")),
        }
    }

    async fn allows_operator(&self, who: &str, _: &str) -> Result<(), Denied> {
        if who == "ops" { Ok(()) } else { Err(Denied::because("no operator")) }
    }
}

fn with_handlers(worker: Worker) -> Worker {
    let noop = async |_: Context, _: Payload| {
        println!("{RUNS}");
        Ok::<(), Failure>(())
    };
    let waits = async |context: Context, _: Payload| {
        println!("{RUNS}");
        context.shutting_down().await;
        Ok::<(), Failure>(())
    };
    let hangs = async |_: Context, _: Payload| {
        println!("{RUNS}");
        std::future::pending::<()>().await;
        Ok::<(), Failure>(())
    };
    let blocks = async |_: Context, _: Payload| {
        println!("{RUNS}");
        std::thread::sleep(Duration::from_secs(60));
        Ok::<(), Failure>(())
    };
    let worker = worker.queue(kit::QUEUE, 1).handle_named(kit::NAME, noop);
    let worker = worker.handle_named("waits", waits).handle_named("hangs", hangs);
    worker.handle_named("blocks", blocks)
}
