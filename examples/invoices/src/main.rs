//! The program: its own `serve` and `demo` beside the `worker` and `jobs …` of jobs-cli.

use std::{
    net::SocketAddr,
    process::exit,
    sync::{Arc, OnceLock},
};

use clap::{Parser, Subcommand};
use invoices::{
    AnyError,
    data::Data,
    demo,
    mailer::{Mailer, Service},
    policy, serve,
    store::{self, Store},
    telemetry,
    worker::worker,
};
use jobs_cli::Jobs;
use jobs_core::Worker;

/// Issues invoices for several tenants
#[derive(Parser)]
struct App {
    /// Where rows and jobs are: sqlite://file, postgres://…, mongodb://…, or redis://…?rows=file
    #[arg(long, env = "INVOICES_URL", default_value = "sqlite://invoices.db", global = true)]
    #[arg(hide_env_values = true)]
    url: String,
    /// The mail service, http://host:port/path; without one, mail is logged
    #[arg(long, env = "INVOICES_MAIL", global = true)]
    mail: Option<Service>,
    /// Serve Prometheus' GET /metrics here
    #[arg(long, env = "INVOICES_METRICS", value_name = "ADDRESS", global = true)]
    metrics: Option<SocketAddr>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Serve requests until SIGTERM or SIGINT
    Serve {
        /// Where to listen
        #[arg(long, default_value = "127.0.0.1:8080")]
        listen: SocketAddr,
    },
    /// Serve and work in one process, with traffic of three tenants, and say what came of it
    Demo,
    #[command(flatten)]
    Jobs(jobs_cli::Command),
}

#[tokio::main]
async fn main() {
    let App { url, mail, metrics, command } = App::parse();
    telemetry::log();
    jobs_core::worker::install_panic_hook();
    let mailer = Mailer::new(mail);
    if let Some(address) = metrics
        && let Err(error) = telemetry::serve_metrics(address).await
    {
        eprintln!("error: no metrics at {address}: {error}");
        exit(1);
    }
    let done = match command {
        Command::Serve { listen } => serving(&url, listen).await,
        Command::Demo => demo::run(&url, mailer).await,
        Command::Jobs(command) => exit(operated(url, mailer).run(command).await.into()),
    };
    if let Err(error) = done {
        // What a store says, with what to do about it.
        eprintln!("error: {}", jobs_cli::advised(&error));
        exit(1);
    }
}

async fn serving(url: &str, address: SocketAddr) -> Result<(), AnyError> {
    let store = store::open(url).await?;
    let stop = serve::at_a_signal()?;
    let relay = store.relay();
    serve::serve(serve::listen(address).await?, Data::new(store), relay, stop).await
}

/// What jobs-cli is given: it opens the store only where a command needs it.
fn operated(url: String, mailer: Mailer) -> Jobs<Arc<dyn jobs_core::Admin>> {
    let opened: Arc<OnceLock<Arc<dyn Store>>> = Arc::default();
    let (for_worker, for_migrate) = (opened.clone(), opened.clone());
    Jobs::on(async move || {
        let store = store::open(&url).await?;
        Ok::<_, AnyError>(opened.get_or_init(|| store).jobs())
    })
    .worker(move |jobs| match for_worker.get() {
        Some(store) => worker(Data::new(store.clone()), mailer),
        // It is opened before; were it not, this one refuses to start, having no handlers.
        None => Worker::new(jobs),
    })
    .grants(policy::at_the_keyboard)
    .migrate(async move |_| match for_migrate.get() {
        Some(store) => store.migrate().await,
        None => Err("the store is not open".into()),
    })
}
