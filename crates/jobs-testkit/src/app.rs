//! Help for applications' tests: a store in memory that knows tenants, what was pushed to it, and
//! jobs run inline.
//!
//! ```
//! # use jobs_core::{JobType, QueueExt, State, grant_without_user, worker::{Context, Failure}};
//! # #[derive(serde::Serialize, serde::Deserialize)]
//! # struct SendInvoice(u64);
//! # impl JobType for SendInvoice { const NAME: &'static str = "invoice.send"; }
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use jobs_testkit::app::App;
//!
//! let app = App::default();
//! let grant = grant_without_user("test", "invoice.send", "acme")?;
//! // Give `app.store()` to the application instead of its database.
//! app.store().push(&grant, SendInvoice(7)).await?;
//!
//! // What was pushed, by whom, for which tenant?
//! let pushed = app.pushed::<SendInvoice>().await;
//! assert_eq!((pushed[0].value.0, &*pushed[0].job.tenant), (7, "acme"));
//! assert_eq!(pushed[0].job.authorized_by, "system:test");
//!
//! // Drain the queue, then look.
//! let handler = async |_: Context, _: SendInvoice| Ok::<(), Failure>(());
//! app.drain(app.worker::<SendInvoice>().handle(handler)).await;
//! assert_eq!(app.pushed::<SendInvoice>().await[0].state, State::Done);
//!
//! // Or run one job inline.
//! let failing = async |_: Context, _: SendInvoice| Err::<(), _>(Failure::park("no such invoice"));
//! let ended = app.run(&grant, SendInvoice(8), failing).await;
//! assert_eq!(ended.state, State::Parked);
//! # Ok(())
//! # }
//! ```

use std::future::Future;

use jobs_core::{
    Admin, Grant, Job, JobType, QueueExt, State, Worker,
    queue::Pushed as Answer,
    view::{JobView, List},
    worker::{Context, Ended, Failure},
};

use crate::{
    kit::operator,
    model::{Handle, Model},
};

/// A store in memory for one test.
#[derive(Clone, Debug)]
pub struct App(Handle);

impl Default for App {
    fn default() -> Self {
        Self(Model::alone())
    }
}

/// One job that was pushed.
#[derive(Clone, Debug)]
pub struct Pushed<T> {
    /// Its payload.
    pub value: T,
    /// The job: tenant, authorized-by, action and the rest.
    pub job: Job,
    /// Where it is.
    pub state: State,
}

impl App {
    /// The store, for the application under test. It keeps tenants apart as any driver does.
    pub fn store(&self) -> Handle {
        self.0.clone()
    }

    /// The jobs of one type that were pushed, by all tenants, oldest first.
    ///
    /// # Panics
    /// When a payload is no `T`.
    pub async fn pushed<T: JobType>(&self) -> Vec<Pushed<T>> {
        let mut list = List { name: Some(T::NAME.to_owned()), page: 1000, ..List::default() };
        let mut pushed = Vec::new();
        loop {
            let page = self.0.list(&operator().await, &list).await.expect("memory answers");
            pushed.extend(page.jobs.into_iter().map(|JobView { job, state, .. }| {
                let value = job.payload.decode();
                let value =
                    value.unwrap_or_else(|error| panic!("{} {}: {error}", job.name, job.id));
                Pushed { value, job, state }
            }));
            list.after = page.next;
            if list.after.is_none() {
                break;
            }
        }
        pushed.sort_by_key(|pushed| pushed.job.id);
        pushed
    }

    /// A worker on the queue of `T`, to register handlers with.
    pub fn worker<T: JobType>(&self) -> Worker {
        Worker::new(self.store()).queue(T::QUEUE, 1)
    }

    /// Runs what is due until nothing is.
    ///
    /// # Panics
    /// When the worker does not start or leaves something.
    pub async fn drain(&self, worker: Worker) -> Ended {
        let ended = worker.run_until_idle().await.expect("the worker starts");
        assert_eq!(ended.exit_code(), 0, "{ended:?}");
        ended
    }

    /// Pushes one job under `grant` and runs it at once, with the Grant that a worker would give
    /// it; answers what became of it. Other due jobs of its type run too.
    ///
    /// # Panics
    /// When the push is refused.
    pub async fn run<T, F, Fut, E>(&self, grant: &Grant, value: T, handler: F) -> JobView
    where
        T: JobType,
        F: Fn(Context, T) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<(), E>> + Send + 'static,
        E: Into<Failure>,
    {
        let job = Job::of(grant, &value).expect("the payload has a JSON form");
        let pushed = self.0.push(grant, job.clone()).await.expect("the Grant covers it");
        assert_eq!(pushed, Answer::Stored);
        let _ended = self.drain(self.worker::<T>().handle(handler)).await;
        let record = self.0.get(&operator().await, &job.job_ref()).await.expect("memory answers");
        record.expect("it is stored").view
    }
}
