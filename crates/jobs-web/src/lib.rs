//! The queue page: what is waiting, what is running, what gave up and why, and what can be done
//! about it; for a tenant's own users and for operators.
//!
//! An application nests it behind its own login, and says who may do what:
//!
//! ```
//! use axum::{Router, http::request::Parts};
//! use jobs_core::{Admin, Forbidden, Policy};
//! use jobs_web::QueuePage;
//!
//! /// What the application's login leaves in a request's extensions.
//! #[derive(Clone)]
//! struct User {
//!     id: String,
//!     tenant: String,
//!     operator: bool,
//! }
//!
//! fn app<P: Policy + Clone + Send + 'static>(store: impl Admin + 'static, policy: P) -> Router {
//!     let page = QueuePage::new(store, move |request: Parts, action| {
//!         let policy = policy.clone();
//!         async move {
//!             match request.extensions.get::<User>() {
//!                 None => Err(Forbidden::NoSubject),
//!                 Some(user) if user.operator => policy.authorize_operator(&user.id, action).await,
//!                 Some(user) => policy.authorize(&user.id, action, &user.tenant).await,
//!             }
//!         }
//!     });
//!     Router::new().nest("/jobs", page.into_router())
//! }
//! ```
//!
//! - **Every request asks for a Grant of its own action** ([`ROUTES`]), before the store is asked
//!   anything. The Grant's scope decides what is seen: a tenant's shows that tenant, an operator's
//!   all, narrowed by `?tenant=` if it is wanted. A button is shown where its action is granted, and
//!   asked for again when it is pressed. Another tenant's id is answered as an unknown one.
//! - **Only the style sheet, the script and the icon are served without a Grant**; they say nothing about jobs.
//! - **Cross-site posts are refused.** A browser says where a post comes from: `Sec-Fetch-Site` must be
//!   `same-origin` (or `none`, typed by the user), and in browsers that do not send it, the host of
//!   `Origin` must be the request's. A request with neither header is no browser's, so it carries no
//!   cookie that another site could use. So there is no token to keep, and no dependence on the
//!   application's cookies being `SameSite`. The JSON API also wants `Content-Type:
//!   application/json`, which no HTML form can send. Nothing is changed by `GET`.
//! - **Nothing runs that is not this crate's.** The policy sent with each page allows one style sheet
//!   and one script, both served by this crate under names that change with their content, and nothing
//!   inline, framed or from elsewhere. What users wrote is escaped by the templates; control characters
//!   and marks that turn the writing around are written out.
//! - **It works without JavaScript**; the script adds refreshing, selecting of ranges and keys.
//! - **It does not take the store down.** A page asks for a bounded number of rows, not more than
//!   [`LOOKS`] requests are in the store at once, and one that takes 10 s is answered with 503.
//!
//! The URL is the state: a link to a filtered list is that list. The same is had as JSON below `/api`,
//! in the shapes of [`jobs_core::json`], where what a JavaScript reader would round is text as well.
//! `/health` answers 503 where a watched queue's oldest job waits for too long or the store does not
//! answer; it wants a Grant for `jobs.read` too, so let the function give one to whatever probes.
//!
//! | feature | adds |
//! |---|---|
//! | `metrics` | `/metrics`, counts of each queue in Prometheus's text format |
//! | `openapi` | `/api/openapi.json`, the description of the JSON API |

mod answer;
mod api;
mod app;
mod assets;
mod fields;
mod filter;
mod guard;
mod health;
mod html;
#[cfg(feature = "metrics")]
mod metrics;
mod routes;
mod sums;
mod verbs;

pub use app::{LOOKS, QueuePage};
pub use routes::{ROUTES, Route};
