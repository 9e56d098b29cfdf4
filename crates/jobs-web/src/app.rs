//! What the application gives, and what a request has.

use std::{collections::BTreeMap, future::Future, pin::Pin, sync::Arc, time::Duration};

use axum::{
    Router,
    extract::OriginalUri,
    http::{StatusCode, request::Parts},
};
use jobs_core::{Admin, Forbidden, Grant, Permit, names::is_tenant, permit::Verb};
use tokio::sync::Semaphore;

use crate::{answer::Refused, fields::Fields, routes};

/// Most requests that are in the store at once; others wait their turn.
pub const LOOKS: usize = 8;

/// How long the oldest job of a queue may wait, where no other limit is set.
pub(crate) const WAITS: Duration = Duration::from_secs(300);

type AnyError = Box<dyn std::error::Error + Send + Sync>;
type Asking = Pin<Box<dyn Future<Output = Result<Grant, AnyError>> + Send>>;

/// The queue page of one store. See the [crate's docs](crate).
#[must_use = "nest `into_router()` in the application's router"]
pub struct QueuePage(App);

pub(crate) struct App {
    pub store: Arc<dyn Admin>,
    grants: Box<dyn Fn(Parts, &'static str) -> Asking + Send + Sync>,
    pub watched: BTreeMap<String, Duration>,
    pub looks: Semaphore,
}

impl QueuePage {
    /// On `store`, for whom `grants` makes Grants: from a request's head, with what the application's
    /// login left in its extensions, and the action, to a Grant for exactly that action. The Grant's
    /// scope says whose jobs are meant. A [`Forbidden`] is answered with 403 and its words; any other
    /// error with 503, its words are only logged.
    pub fn new<A, F, G, E>(store: A, grants: F) -> Self
    where
        A: Admin + 'static,
        F: Fn(Parts, &'static str) -> G + Send + Sync + 'static,
        G: Future<Output = Result<Grant, E>> + Send + 'static,
        E: Into<AnyError>,
    {
        let grants = move |parts, action| -> Asking {
            let grant = grants(parts, action);
            Box::pin(async move { grant.await.map_err(Into::into) })
        };
        Self(App {
            store: Arc::new(store),
            grants: Box::new(grants),
            watched: BTreeMap::new(),
            looks: Semaphore::new(LOOKS),
        })
    }

    /// Lets `/health` fail when the oldest job of `queue` waits for longer than `limit`. Without any of
    /// these, every queue is watched, with a limit of 5 minutes.
    pub fn watch(mut self, queue: impl Into<String>, limit: Duration) -> Self {
        self.0.watched.insert(queue.into(), limit);
        self
    }

    /// The routes, to be nested at a path of the application's.
    pub fn into_router(self) -> Router {
        routes::router(Arc::new(self.0))
    }
}

impl std::fmt::Debug for QueuePage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("QueuePage").field("watched", &self.0.watched).finish_non_exhaustive()
    }
}

impl App {
    /// Asks the application.
    pub async fn grant(&self, parts: &Parts, action: &'static str) -> Result<Grant, Refused> {
        let grant = (self.grants)(parts.clone(), action).await.map_err(|error| {
            match causes(&*error).find_map(|error| error.downcast_ref::<Forbidden>()) {
                Some(forbidden) => forbidden.clone().into(),
                None => {
                    tracing::error!(%error, action, "the queue page cannot tell who may do this");
                    Refused::new(
                        StatusCode::SERVICE_UNAVAILABLE,
                        "Who may do this cannot be told now.",
                    )
                }
            }
        })?;
        // A mistake of the application's function must not show more than was asked for.
        grant.check(action)?;
        Ok(grant)
    }
}

fn causes<'a>(
    error: &'a (dyn std::error::Error + 'static),
) -> impl Iterator<Item = &'a (dyn std::error::Error + 'static)> {
    std::iter::successors(Some(error), |error| error.source())
}

/// One request, authorized for its route's action.
pub(crate) struct Asked<'a> {
    pub app: &'a App,
    pub parts: &'a Parts,
    pub grant: Grant,
    /// Of the query, or of a posted form.
    pub fields: Fields,
    /// Where the page is nested.
    pub base: &'a str,
}

impl Asked<'_> {
    pub fn store(&self) -> &dyn Admin {
        &*self.app.store
    }

    /// Leave for the verb of this route.
    pub fn permit<V: Verb>(&self) -> Result<Permit<V>, Refused> {
        Ok(self.grant.permit()?)
    }

    /// The only tenant that is seen, or that an operator narrowed to.
    pub fn tenant(&self) -> Result<Option<String>, Refused> {
        match (self.grant.tenant(), self.fields.text("tenant")) {
            (Some(own), _) => Ok(Some(own.to_owned())),
            (None, Some(tenant)) if !is_tenant(tenant) => {
                Err(Refused::bad("No tenant is called so."))
            }
            (None, tenant) => Ok(tenant.map(str::to_owned)),
        }
    }

    /// Does it cover all tenants?
    pub fn is_operator(&self) -> bool {
        self.grant.tenant().is_none()
    }

    /// Would the application allow this as well, in this scope? Only to know which buttons to show.
    pub async fn may<V: Verb>(&self) -> bool {
        let grant = self.app.grant(self.parts, V::ACTION).await;
        grant.is_ok_and(|grant| grant.scope() == self.grant.scope())
    }
}

/// The path at which the router is nested: what the application's router took off.
pub(crate) fn base(parts: &Parts) -> String {
    let original = parts.extensions.get::<OriginalUri>().map(|uri| uri.0.path());
    let base = original.and_then(|path| match path.strip_suffix(parts.uri.path()) {
        // Nested at `/jobs`, the inner path of `/jobs` is `/`.
        None if parts.uri.path() == "/" => Some(path),
        base => base,
    });
    base.unwrap_or_default().trim_end_matches('/').to_owned()
}
