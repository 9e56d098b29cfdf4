//! A store of a test's own, and the application started on it.

use std::{
    io::{Read, Write},
    process::{Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::{Duration, Instant},
};

use jobs_core::{Admin, Job, JobId, JobRef, Outcome, QueueExt, State, queue::Delivery};
use jobs_postgres::Postgres;
use jobs_sqlite::Sqlite;
use jobs_testkit::kit;
use serde_json::Value;
use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection};

use crate::app;

/// A kind of store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Sqlite,
    Postgres,
}

/// Of a PostgreSQL server, as a user who may create schemas.
pub const URL: &str = "JOBS_TEST_POSTGRES_URL";

/// A file or a schema.
pub struct Place {
    pub kind: Kind,
    folder: tempfile::TempDir,
    schema: String,
}

/// What a command came to.
#[derive(Debug)]
pub struct Ran {
    pub status: i32,
    pub out: String,
    pub err: String,
}

impl Place {
    pub fn new(kind: Kind) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let schema = format!("t_cli_{}_{count}", std::process::id());
        Self { kind, folder: tempfile::tempdir().expect("a folder"), schema }
    }

    pub fn url(&self) -> String {
        match self.kind {
            Kind::Sqlite => self.folder.path().join("app.db").display().to_string(),
            Kind::Postgres => std::env::var(URL).expect("the runner asked for it"),
        }
    }

    /// A handle, as another process has.
    pub async fn store(&self) -> Arc<dyn Admin> {
        match self.kind {
            Kind::Sqlite => Arc::new(Sqlite::connect(&self.url()).await.expect("it opens")),
            Kind::Postgres => {
                let options = jobs_postgres::Options::new(&self.url()).expect("a URL");
                let options = options.schema(&self.schema).expect("a name");
                let store = Postgres::open(options).await.expect("the server answers");
                store.migrate().await.expect("it migrates");
                Arc::new(store)
            }
        }
    }

    /// Removes what is on a server.
    pub async fn remove(&self) {
        if self.kind == Kind::Postgres {
            let mut conn = PgConnection::connect(&self.url()).await.expect("the server answers");
            let drop = format!("DROP SCHEMA IF EXISTS {} CASCADE", self.schema);
            (&mut conn).execute(sqlx::raw_sql(AssertSqlSafe(drop))).await.expect("it goes");
        }
    }

    /// The application, by ada unless another is named: `app <words>`.
    pub fn command(&self, words: &str) -> Command {
        let mut command = Command::new(std::env::current_exe().expect("this program"));
        command.args(words.split(' ')).env(app::STORE, self.url()).env(app::SCHEMA, &self.schema);
        command.env("JOBS_CLI_TEST_USER", if words.contains("--operator") { "ops" } else { "ada" });
        command.env_remove("RUST_BACKTRACE").stdin(Stdio::null());
        command
    }

    pub fn run(&self, words: &str) -> Ran {
        Ran::of(self.command(words))
    }

    /// With this in its environment.
    pub fn run_with(&self, variable: &str, value: &str, words: &str) -> Ran {
        let mut command = self.command(words);
        command.env(variable, value);
        Ran::of(command)
    }

    /// At a terminal, where somebody types `answer`.
    pub fn answer(&self, words: &str, answer: &str) -> Ran {
        use rustix::pty;
        let terminal = pty::openpt(pty::OpenptFlags::RDWR | pty::OpenptFlags::NOCTTY);
        let terminal = terminal.expect("a terminal");
        pty::grantpt(&terminal).expect("it is ours");
        pty::unlockpt(&terminal).expect("it is ours");
        let name = pty::ptsname(&terminal, Vec::new()).expect("it has a name");
        let name = name.to_str().expect("a path");
        let other = std::fs::File::options().read(true).write(true).open(name);
        let mut terminal = std::fs::File::from(terminal);
        terminal.write_all(answer.as_bytes()).expect("somebody types");
        let mut command = self.command(words);
        command.stdin(other.expect("its other end"));
        Ran::of(command)
    }

    /// It answers one JSON object.
    pub fn json(&self, words: &str) -> Value {
        let ran = self.run(&format!("{words} --json"));
        assert_eq!((ran.status, ran.err.as_str()), (0, ""), "{words}: {ran:?}");
        ran.json()
    }
}

impl Ran {
    /// Runs it, and not for ever.
    fn of(mut command: Command) -> Self {
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("it runs");
        let [out, err]: [Box<dyn Read + Send>; 2] = [
            Box::new(child.stdout.take().expect("it is piped")),
            Box::new(child.stderr.take().expect("it is piped")),
        ];
        let [out, err] = [out, err].map(|mut pipe| {
            std::thread::spawn(move || {
                let mut text = String::new();
                pipe.read_to_string(&mut text).map(|_| text)
            })
        });
        let start = Instant::now();
        let status = loop {
            if let Some(status) = child.try_wait().expect("a child") {
                break status.code();
            }
            if start.elapsed() > Duration::from_secs(60) {
                child.kill().expect("it runs");
                child.wait().expect("it was killed");
                break None;
            }
            std::thread::sleep(Duration::from_millis(2));
        };
        let text = |reader: std::thread::JoinHandle<_>| reader.join().expect("it reads");
        let (out, err) = (text(out).expect("text"), text(err).expect("text"));
        let status = status.unwrap_or_else(|| panic!("it did not end: {command:?}: {out}{err}"));
        Self { status, out, err }
    }

    /// The one object on the one line of stdout.
    pub fn json(&self) -> Value {
        assert_eq!(self.out.matches('\n').count(), 1, "one line: {self:?}");
        let value: Value = serde_json::from_str(&self.out).expect("JSON");
        assert!(value.is_object(), "{value}");
        value
    }

    /// It ended so, and both outputs together have all of these words.
    #[track_caller]
    pub fn says(&self, status: i32, words: &[&str]) -> &Self {
        assert_eq!(self.status, status, "{self:?}");
        for word in words {
            assert!(self.out.contains(word) || self.err.contains(word), "no {word:?}: {self:?}");
        }
        self
    }

    /// Neither output has any of these words.
    #[track_caller]
    pub fn hides(&self, words: &[&str]) -> &Self {
        for word in words {
            assert!(!self.out.contains(word) && !self.err.contains(word), "{word:?}: {self:?}");
        }
        self
    }
}

/// The names of an object's fields.
#[track_caller]
pub fn fields(value: &Value) -> Vec<&str> {
    let mut names: Vec<_> =
        value.as_object().expect("an object").keys().map(String::as_str).collect();
    names.sort_unstable();
    names
}

/// It is in RFC 3339.
#[track_caller]
pub fn is_time(value: &Value) {
    let text = value.as_str().unwrap_or_else(|| panic!("{value} is no time"));
    text.parse::<jobs_core::Timestamp>().unwrap_or_else(|error| panic!("{text}: {error}"));
}

/// The ids of the jobs in a list's object.
pub fn ids(list: &Value) -> Vec<String> {
    let jobs = list["jobs"].as_array().expect("a list");
    jobs.iter().map(|job| job["id"].as_str().expect("an id is text").to_owned()).collect()
}

pub async fn push(store: &dyn Admin, tenant: &str) -> Job {
    kit::push(store, kit::job(tenant)).await
}

/// A job that failed for good.
pub async fn parked(store: &dyn Admin, tenant: &str, cause: &str) -> Job {
    let job = push(store, tenant).await;
    let held = take(store, &job).await;
    store.park(&held.claim, cause.into()).await.expect("it parks");
    job
}

/// Held by a worker called `suite`.
pub async fn take(store: &dyn Admin, job: &Job) -> Delivery {
    let request = jobs_core::queue::Reserve::new(&job.queue, [&job.name], "suite");
    let request = request.expect("legal").slots(1);
    let mut taken = store.reserve(&request).await.expect("the store answers").deliveries;
    assert_eq!(taken.len(), 1, "one job is due");
    assert_eq!(taken[0].job.id, job.id, "nothing else is due");
    taken.remove(0)
}

pub async fn settle(store: &dyn Admin, held: &Delivery, outcome: Outcome) {
    store.settle_one(&held.claim, outcome).await.expect("it settles");
}

pub async fn state(store: &dyn Admin, job: &JobRef) -> Option<State> {
    let record = store.get(&kit::operator().await, job).await.expect("the store answers");
    record.map(|record| record.view.state)
}

/// An id that nobody has.
pub fn unknown() -> JobId {
    JobId::new()
}

/// Waits for what others bring about.
pub async fn until<F: Future<Output = bool>>(what: &str, mut is: impl FnMut() -> F) {
    for _ in 0..1500 {
        if is().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("not after 30 s: {what}");
}
