//! Runs async tests against the server, and skips visibly where there is none.

use std::{future::Future, pin::Pin, process::ExitCode};

use jobs_mongo::{Mongo, Options};
use jobs_testkit::harness::REQUIRE;
use libtest_mimic::{Arguments, Failed, Trial};
use mongodb::{Client, Database};

use super::{URL, variable};

/// A name, and what makes its future.
pub type Test = (&'static str, fn() -> Pin<Box<dyn Future<Output = ()>>>);

/// The `main` of a test; `missing` says why its server is not there.
pub fn all(tests: &[Test], missing: Option<String>) -> ExitCode {
    let required = std::env::var_os(REQUIRE).is_some();
    if let Some(why) = missing.as_ref().filter(|_| !required) {
        eprintln!("{} tests are skipped: {why}", tests.len());
    }
    let trials = tests.iter().map(|(name, test)| {
        let (missing, skip) = (missing.clone(), missing.is_some() && !required);
        let test = *test;
        let trial = Trial::test(*name, move || {
            if let Some(why) = missing {
                return Err(Failed::from(why));
            }
            let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
            runtime.map_err(|error| Failed::from(error.to_string()))?.block_on(test());
            Ok(())
        });
        trial.with_ignored_flag(skip)
    });
    libtest_mimic::run(&Arguments::from_args(), trials.collect()).exit_code()
}

/// A database of a test's own.
pub struct Own {
    pub name: String,
    pub database: Database,
}

impl Own {
    pub async fn new(what: &str) -> Self {
        let name = format!("t_{what}_{}", std::process::id());
        let client = Client::with_uri_str(url()).await.expect("a client");
        Self { database: client.database(&name), name }
    }

    pub async fn options(&self) -> Options {
        Options::new(&url()).await.expect("a URL").database(&self.name).expect("a name")
    }

    /// A handle, as a process of its own has.
    pub async fn store(&self) -> Mongo {
        self.open(self.options().await).await
    }

    pub async fn open(&self, options: Options) -> Mongo {
        let store = Mongo::open(options).await.expect("the server answers");
        store.migrate().await.expect("it migrates");
        store
    }

    pub async fn drop(self) {
        self.database.drop().await.expect("drops");
    }
}

pub fn url() -> String {
    variable(URL).expect("the runner asked for it")
}
