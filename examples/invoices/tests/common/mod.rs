//! The application on the testkit's store, with its rows in memory.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use async_trait::async_trait;
use axum::{
    body::Body,
    http::{Request, StatusCode, header},
};
use http_body_util::BodyExt;
use invoices::{
    AnyError,
    data::{Data, Tenant},
    policy::Roles,
    routes::routes,
    store::{Place, Store},
};
use jobs_core::{Admin, AuthorizedJob, Grant, Policy, Pushed, Queue, Worker};
use jobs_testkit::app::App;
use tower::ServiceExt;

type Rows = BTreeMap<(String, String, String), String>;

/// A store of one test.
#[derive(Clone, Default)]
pub struct Memory {
    pub app: App,
    rows: Arc<Mutex<Rows>>,
}

impl Memory {
    pub fn data(&self) -> Data {
        Data::new(Arc::new(self.clone()))
    }

    /// Is there no row?
    pub fn is_empty(&self) -> bool {
        self.rows().is_empty()
    }

    fn rows(&self) -> MutexGuard<'_, Rows> {
        self.rows.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The status and the body of a request by `user`, which is part of somebody's trace.
pub async fn ask(memory: &Memory, user: &str, path: &str, body: &str) -> (StatusCode, String) {
    let kind = if body.starts_with('{') { "application/json" } else { "text/csv" };
    let request = Request::post(path)
        .header(header::AUTHORIZATION, format!("Bearer {user}-token"))
        .header(header::CONTENT_TYPE, kind)
        .header("traceparent", crate::PARENT)
        .body(Body::from(body.to_owned()))
        .expect("a request");
    let response = routes(memory.data()).oneshot(request).await.expect("it answers");
    let (status, body) = (response.status(), response.into_body().collect().await);
    let body = body.expect("a body").to_bytes();
    (status, String::from_utf8(body.to_vec()).expect("text"))
}

/// What the policy gives.
pub async fn granted(user: &str, action: &str, tenant: &str) -> Grant {
    Roles.authorize(user, action, tenant).await.expect("the policy allows it")
}

fn at(Place { tenant, kind, id }: Place<'_>) -> (String, String, String) {
    (tenant.as_str().to_owned(), kind.to_owned(), id.to_owned())
}

#[async_trait]
impl Store for Memory {
    fn jobs(&self) -> Arc<dyn Admin> {
        Arc::new(self.app.store())
    }

    async fn migrate(&self) -> Result<(), AnyError> {
        Ok(())
    }

    async fn put_and_push(
        &self,
        place: Place<'_>,
        row: &str,
        job: AuthorizedJob,
    ) -> Result<Pushed, AnyError> {
        let pushed = self.app.store().enqueue(&[job]).await.remove(0)?;
        if pushed == Pushed::Stored {
            self.rows().insert(at(place), row.to_owned());
        }
        Ok(pushed)
    }

    async fn put(&self, place: Place<'_>, row: &str) -> Result<(), AnyError> {
        self.rows().insert(at(place), row.to_owned());
        Ok(())
    }

    async fn get(&self, place: Place<'_>) -> Result<Option<String>, AnyError> {
        Ok(self.rows().get(&at(place)).cloned())
    }

    async fn list(&self, tenant: &Tenant, kind: &str) -> Result<Vec<String>, AnyError> {
        let rows = self.rows();
        let of = |key: &(String, String, String)| key.0 == tenant.as_str() && key.1 == kind;
        Ok(rows.iter().filter(|(key, _)| of(key)).map(|(_, row)| row.clone()).collect())
    }

    fn relay(&self) -> Option<Worker> {
        None
    }
}
