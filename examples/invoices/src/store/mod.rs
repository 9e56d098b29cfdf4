//! Where jobs and rows are: one store, opened by a URL. What differs from store to store is one file
//! each in this folder, and the list below; the rest of the application knows none of them.

#[cfg(feature = "mongo")]
mod mongo;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "redis")]
mod redis;
// With Redis, the rows are in SQLite.
#[cfg(any(feature = "redis", feature = "sqlite"))]
mod sqlite;

use std::{future::Future, pin::Pin, sync::Arc};

use async_trait::async_trait;
use jobs_core::{Admin, AuthorizedJob, Pushed, Worker};

use crate::{AnyError, data::Tenant};

/// The application's rows and its jobs. A row is JSON text with a place: a tenant's, of a kind, with
/// an id.
#[async_trait]
pub trait Store: Send + Sync + 'static {
    /// The jobs, for the worker and the operator's verbs.
    fn jobs(&self) -> Arc<dyn Admin>;

    /// Makes what is missing for rows and jobs. Any number of processes may do that at once.
    async fn migrate(&self) -> Result<(), AnyError>;

    /// Writes a row and pushes a job in one transaction: both or, where the job is stored already or
    /// its key is held, neither.
    async fn put_and_push(
        &self,
        place: Place<'_>,
        row: &str,
        job: AuthorizedJob,
    ) -> Result<Pushed, AnyError>;

    /// Writes a row, over the one that is there.
    async fn put(&self, place: Place<'_>, row: &str) -> Result<(), AnyError>;

    /// Reads a row.
    async fn get(&self, place: Place<'_>) -> Result<Option<String>, AnyError>;

    /// Reads all rows of a kind.
    async fn list(&self, tenant: &Tenant, kind: &str) -> Result<Vec<String>, AnyError>;

    /// What moves jobs from where the rows are to where jobs are run, where these are two; it runs
    /// beside `serve`.
    fn relay(&self) -> Option<Worker>;
}

/// Where a row is.
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    /// Whose.
    pub tenant: &'a Tenant,
    /// Which kind.
    pub kind: &'static str,
    /// Which of that kind.
    pub id: &'a str,
}

type Opening<'a> = Pin<Box<dyn Future<Output = Result<Arc<dyn Store>, AnyError>> + Send + 'a>>;

/// A kind of store.
struct Kind {
    feature: &'static str,
    schemes: &'static [&'static str],
    /// `None`: it is not compiled in.
    open: Option<for<'a> fn(&'a str) -> Opening<'a>>,
}

/// The way to open a store whose feature may be off.
macro_rules! compiled_in {
    ($feature:literal, $open:path) => {{
        #[cfg(feature = $feature)]
        {
            Some(|url| Box::pin(async move { Ok(Arc::new($open(url).await?) as Arc<dyn Store>) }))
        }
        #[cfg(not(feature = $feature))]
        {
            None
        }
    }};
}

const KINDS: &[Kind] = &[
    Kind {
        feature: "sqlite",
        schemes: &["sqlite"],
        open: compiled_in!("sqlite", sqlite::Sqlite::open),
    },
    Kind {
        feature: "postgres",
        schemes: &["postgres", "postgresql"],
        open: compiled_in!("postgres", postgres::Postgres::open),
    },
    Kind {
        feature: "mongo",
        schemes: &["mongodb", "mongodb+srv"],
        open: compiled_in!("mongo", mongo::Mongo::open),
    },
    Kind {
        feature: "redis",
        schemes: &["redis", "rediss", "redis-cluster"],
        open: compiled_in!("redis", redis::Redis::open),
    },
];

/// Opens the store at `url`, whose scheme chooses among those that are compiled in.
///
/// # Errors
/// Another scheme, a store that is not compiled in, or the store's own.
pub async fn open(url: &str) -> Result<Arc<dyn Store>, AnyError> {
    open_one_of(KINDS, url).await
}

async fn open_one_of(kinds: &[Kind], url: &str) -> Result<Arc<dyn Store>, AnyError> {
    let scheme = url.split_once("://").map_or("", |(scheme, _)| scheme);
    let Some(kind) = kinds.iter().find(|kind| kind.schemes.contains(&scheme)) else {
        let known: Vec<_> = kinds.iter().map(|kind| format!("{}://…", kind.schemes[0])).collect();
        let found = if scheme.is_empty() { "has no scheme" } else { "is of no store known here" };
        let shown = if scheme.is_empty() { "the URL" } else { scheme };
        return Err(format!("{shown} {found}: write {}", known.join(", ")).into());
    };
    let Some(open) = kind.open else {
        let feature = kind.feature;
        let what = format!(
            "a {scheme}:// URL needs the feature `{feature}`, which this program was built without: \
             build it with `cargo build -p invoices --features {feature}`"
        );
        return Err(what.into());
    };
    open(url).await
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn refused(kinds: &[Kind], url: &str) -> String {
        match open_one_of(kinds, url).await {
            Ok(_) => panic!("{url} was opened"),
            Err(error) => error.to_string(),
        }
    }

    #[tokio::test]
    async fn a_store_that_is_not_compiled_in_says_how_to_build_it() {
        let without: Vec<_> = KINDS.iter().map(|kind| Kind { open: None, ..*kind }).collect();
        for (url, feature) in [
            ("sqlite://app.db", "sqlite"),
            ("postgresql://app@localhost/app", "postgres"),
            ("mongodb://localhost", "mongo"),
            ("rediss://localhost", "redis"),
        ] {
            let said = refused(&without, url).await;
            assert!(said.contains(&format!("needs the feature `{feature}`")), "{said}");
            assert!(said.ends_with(&format!("-p invoices --features {feature}`")), "{said}");
        }
    }

    #[tokio::test]
    async fn another_scheme_is_told_which_there_are() {
        let known = "write sqlite://…, postgres://…, mongodb://…, redis://…";
        let said = refused(KINDS, "mysql://app:secret@localhost").await;
        assert_eq!(said, format!("mysql is of no store known here: {known}"));
        let said = refused(KINDS, "app:secret@localhost").await;
        assert_eq!(said, format!("the URL has no scheme: {known}"));
    }
}
