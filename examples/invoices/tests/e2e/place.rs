//! A store of a test's own.

use std::{
    env,
    process::{Command, Stdio},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU32, Ordering},
    },
};

use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection};
use url::Url;

/// A kind of store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Sqlite,
    Postgres,
    Mongo,
    Redis,
}

impl Kind {
    pub const ALL: [Self; 4] = [Self::Sqlite, Self::Postgres, Self::Mongo, Self::Redis];

    /// What names its server.
    fn variable(self) -> Option<&'static str> {
        match self {
            Self::Sqlite => None,
            Self::Postgres => Some("JOBS_TEST_POSTGRES_URL"),
            Self::Mongo => Some("JOBS_TEST_MONGO_URL"),
            Self::Redis => Some("JOBS_TEST_REDIS_URL"),
        }
    }

    /// Why there is no server.
    pub fn missing(self) -> Option<String> {
        let variable = self.variable().filter(|name| env::var_os(name).is_none())?;
        Some(format!("set {variable}, or `cargo xtask test --install`"))
    }

    fn server(self) -> String {
        self.variable().and_then(|name| env::var(name).ok()).expect("the runner asked for it")
    }
}

/// A file, a database or a prefix.
pub struct Place {
    pub kind: Kind,
    folder: tempfile::TempDir,
    name: String,
}

impl Place {
    pub fn new(kind: Kind) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("t_invoices_{}_{count}", std::process::id());
        let place = Self { kind, folder: tempfile::tempdir().expect("a folder"), name };
        if kind == Kind::Postgres {
            place.administer(&format!("CREATE DATABASE {}", place.name));
        }
        place
    }

    /// A file in a folder that goes with this.
    pub fn file(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }

    pub fn url(&self) -> String {
        match self.kind {
            Kind::Sqlite => format!("sqlite://{}", self.file("app.db")),
            Kind::Postgres | Kind::Mongo => {
                let mut url = Url::parse(&self.kind.server()).expect("a URL");
                url.set_path(&self.name);
                url.into()
            }
            Kind::Redis => self.at(&self.kind.server()),
        }
    }

    /// With this server, which may be none.
    pub fn at(&self, server: &str) -> String {
        match self.kind {
            Kind::Redis => format!("{server}?prefix={}&rows={}", self.name, self.file("rows.db")),
            _ => server.to_owned(),
        }
    }

    /// The program on this store; nobody is at the keyboard.
    pub fn command(&self, words: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_invoices"));
        command.args(words.split_whitespace()).env("INVOICES_URL", self.url());
        command.env_remove("INVOICES_USER").env_remove("INVOICES_MAIL");
        command.env_remove("INVOICES_METRICS").env_remove("RUST_BACKTRACE");
        command.current_dir(self.folder.path()).stdin(Stdio::null());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Runs it to its end: exit status, stdout, stderr.
    pub fn run(&self, words: &str) -> (i32, String, String) {
        let user = if words.contains("--operator") { "root" } else { "ada" };
        let mut command = self.command(words);
        ended(command.env("INVOICES_USER", user))
    }

    /// Makes what is missing.
    pub fn migrate(&self) {
        let (status, out, err) = self.run("jobs migrate");
        assert_eq!(status, 0, "{out}{err}");
    }

    /// What `words` answer with `--json`.
    pub fn json(&self, words: &str) -> serde_json::Value {
        let (status, out, err) = self.run(&format!("{words} --json"));
        assert_eq!(status, 0, "{out}{err}");
        serde_json::from_str(&out).expect("JSON")
    }

    /// Removes what is on a server.
    pub fn remove(&self) {
        match self.kind {
            Kind::Sqlite => {}
            Kind::Postgres => self.administer(&format!("DROP DATABASE {} (FORCE)", self.name)),
            Kind::Mongo => block_on(async {
                let client = mongodb::Client::with_uri_str(self.url()).await.expect("a URL");
                client.database(&self.name).drop().await.expect("it goes");
            }),
            Kind::Redis => {
                let pattern = format!("{{{}:*", self.name);
                jobs_servers::remove_keys(&self.kind.server(), &pattern).expect("it goes");
            }
        }
    }

    fn administer(&self, statement: &str) {
        // Databases are copied from one that nobody else may be copying.
        static ONE: Mutex<()> = Mutex::new(());
        let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
        block_on(async {
            let mut conn = PgConnection::connect(&self.kind.server()).await.expect("it answers");
            let statement = sqlx::raw_sql(AssertSqlSafe(statement.to_owned()));
            (&mut conn).execute(statement).await.expect("a superuser may");
        });
    }
}

/// Runs a command to its end: exit status, stdout, stderr.
pub fn ended(command: &mut Command) -> (i32, String, String) {
    let output = command.output().expect("it runs");
    let text = |bytes| String::from_utf8(bytes).expect("text");
    (output.status.code().unwrap_or(-1), text(output.stdout), text(output.stderr))
}

fn block_on<F: Future>(future: F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(future)
}
