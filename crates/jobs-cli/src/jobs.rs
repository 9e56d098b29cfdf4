//! What the application gives, and how a command is run with it.

use std::{future::Future, pin::Pin, rc::Rc};

use jobs_core::{Admin, Grant, Scope, Worker};

use crate::{
    access::{Access, Grants},
    command::{Command, JobsArgs, Verb},
    out::Out,
    stop::{AnyError, FAILED, REFUSED, Stop, is_transient, not_opened, with_advice},
    verb::{
        self, Session,
        migrate::{self, Migrate},
    },
    worker::{self, WorkerArgs},
};

type Later<T> = Pin<Box<dyn Future<Output = Result<T, AnyError>>>>;

const NO_WORKER: &str = "\
worker: this program has nothing that runs jobs (exit status 2).
Give jobs-cli the worker with its handlers: Jobs::on(open).worker(|store| Worker::new(store).handle(…))";

/// What an application gives: how to open its store, its worker, and who may do what. Each is called
/// only by a command that needs it.
#[must_use = "nothing happens until a command is run"]
pub struct Jobs<A> {
    open: Box<dyn FnOnce() -> Later<A>>,
    worker: Option<Box<dyn FnOnce(A) -> Worker>>,
    grants: Option<Box<Grants>>,
    migrate: Option<Migrate<A>>,
}

impl<A: Admin> Jobs<A> {
    /// On the store that `open` opens.
    pub fn on<F, E>(open: F) -> Self
    where
        F: AsyncFnOnce() -> Result<A, E> + 'static,
        E: Into<AnyError>,
    {
        let open = || -> Later<A> { Box::pin(async { open().await.map_err(Into::into) }) };
        Self { open: Box::new(open), worker: None, grants: None, migrate: None }
    }

    /// The worker, with its handlers, for `worker`. Queues, concurrency, lease, grace and label that
    /// are set on it are defaults: the command line goes before them.
    pub fn worker(self, worker: impl FnOnce(A) -> Worker + 'static) -> Self {
        Self { worker: Some(Box::new(worker)), ..self }
    }

    /// Who may do what: from the action, `jobs.read`, `jobs.retry`, `jobs.cancel`, `jobs.delete` or
    /// `jobs.tune`, and the scope that was typed, to a Grant for exactly these, or a refusal, whose
    /// words are shown. It is asked before the store is opened. A command that changes jobs by filter,
    /// or asks before it changes them, asks for `jobs.read` as well. An error that is no
    /// [`Forbidden`](jobs_core::Forbidden) is a failure, not a refusal. Without this function every verb but `worker` and `migrate` is refused.
    ///
    /// Who sits at the keyboard is the application's to know: from the login, a token, a prompt.
    pub fn grants<F, E>(self, grants: F) -> Self
    where
        F: AsyncFn(&'static str, Scope) -> Result<Grant, E> + 'static,
        E: Into<AnyError>,
    {
        let grants = Rc::new(grants);
        let grants: Box<Grants> = Box::new(move |action, scope| {
            let grants = grants.clone();
            Box::pin(async move { grants(action, scope).await.map_err(Into::into) })
        });
        Self { grants: Some(grants), ..self }
    }

    /// How the store's schema is brought to this release's version, for `migrate`. What that is
    /// differs from store to store: `async |store: Postgres| store.migrate().await`. It asks for no
    /// Grant, because who deploys may reach the store.
    pub fn migrate<F, E>(self, migrate: F) -> Self
    where
        F: AsyncFnOnce(A) -> Result<(), E> + 'static,
        E: Into<AnyError>,
    {
        let migrate: Migrate<A> =
            Box::new(|store| Box::pin(async { migrate(store).await.map_err(Into::into) }));
        Self { migrate: Some(migrate), ..self }
    }

    /// Opening the store migrates it, as SQLite does: `migrate` opens it and no more.
    pub fn migrated_by_opening(self) -> Self {
        Self { migrate: Some(Box::new(|_| Box::pin(async { Ok(()) }))), ..self }
    }

    /// Runs one command, on the thread that awaits it, and answers the process's exit status: 0 done,
    /// 1 failed or a job was left unchanged, 2 refused before anything was touched; of `worker` see
    /// [`exit_code`](jobs_core::worker::exit_code). Leave `main` with it by `std::process::exit`: a
    /// runtime that is dropped waits for handlers that block.
    ///
    /// # Cancel safety
    /// Dropping it ends it where it is: each job is changed wholly or not at all, and a dropped
    /// `worker` is as a killed one.
    pub async fn run(self, command: Command) -> u8 {
        match command {
            Command::Worker(typed) => self.work(typed).await,
            Command::Jobs(typed) => {
                let out = Out { json: typed.json };
                self.operate(typed, out).await.unwrap_or_else(|stop| {
                    out.remark(format!("error: {}", stop.message));
                    stop.status
                })
            }
        }
    }

    async fn work(self, typed: WorkerArgs) -> u8 {
        let out = Out { json: false };
        let Some(worker) = self.worker else {
            out.remark(NO_WORKER);
            return REFUSED;
        };
        let store = match (self.open)().await {
            Ok(store) => store,
            Err(error) => {
                // A process manager starts it again where that helps.
                let status = if is_transient(&error) { FAILED } else { REFUSED };
                let why = not_opened(&error);
                out.remark(format!("worker: it did not start: {why} (exit status {status})"));
                return status;
            }
        };
        // A worker waits for a store that is away, and would wait for ever for one that nobody
        // migrated. Any call tells; a sweep is anybody's to make.
        if let Err(error) = store.sweep().await
            && !error.is_transient()
        {
            let why = with_advice(&error);
            out.remark(format!("worker: it did not start: {why} (exit status {REFUSED})"));
            return REFUSED;
        }
        let (status, why) = worker::run(typed.set(worker(store))).await;
        out.remark(why);
        status
    }

    async fn operate(self, typed: JobsArgs, out: Out) -> Result<u8, Stop> {
        let opened = async || (self.open)().await.map_err(|error| Stop::failed(not_opened(&error)));
        if matches!(typed.verb, Verb::Migrate) {
            let migrate = self.migrate.ok_or_else(|| Stop::refused(migrate::NO_MIGRATE))?;
            return migrate::run(opened().await?, migrate, out).await;
        }
        // Before the store is opened, which may make or migrate it.
        let access = Access::new(typed.scope, self.grants, typed.verb.action()).await?;
        let store = opened().await?;
        let session = Session { store, access, out };
        match typed.verb {
            Verb::List(verb) => verb.run(&session).await,
            Verb::Show(verb) => verb.run(&session).await,
            Verb::Retry(verb) => verb.run(&session).await,
            Verb::Cancel(verb) => verb.run(&session).await,
            Verb::Delete(verb) => verb.run(&session).await,
            Verb::Pause(verb) => verb.run(&session).await,
            Verb::Resume(verb) => verb.run(&session).await,
            Verb::Stats(verb) => verb.run(&session).await,
            Verb::Workers => verb::workers::run(&session).await,
            Verb::Doctor => verb::doctor::run(&session).await,
            Verb::Migrate => unreachable!("it is run before, without a Grant"),
        }
    }
}

impl<A> std::fmt::Debug for Jobs<A> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Jobs")
            .field("worker", &self.worker.is_some())
            .field("grants", &self.grants.is_some())
            .field("migrate", &self.migrate.is_some())
            .finish_non_exhaustive()
    }
}
