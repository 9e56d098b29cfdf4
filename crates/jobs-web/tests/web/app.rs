//! An application with the page in it, and what somebody's browser gets from it.

use axum::{
    Router,
    body::{Body, to_bytes},
    http::{HeaderMap, Request, StatusCode, request::Parts},
    response::Response,
};
use jobs_core::{Admin, Denied, Forbidden, Grant, Policy, names::is_tenant};
use jobs_web::QueuePage;
use tower::ServiceExt;

/// Where the page is nested.
pub const BASE: &str = "/admin/jobs";

/// Who asks, in a header, as if a login had been there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Who {
    /// Nobody who is known.
    Nobody,
    /// Everything, in one tenant.
    Member(&'static str),
    /// Everything, in all of them.
    Operator,
    /// One action, in one tenant.
    Only(&'static str, &'static str),
    /// A mistake of the application's: a Grant for this action, whatever was asked for.
    Mistaken(&'static str, &'static str),
    /// The application cannot tell.
    Broken,
}

impl Who {
    pub fn header(&self) -> String {
        match self {
            Self::Nobody => String::new(),
            Self::Member(tenant) => format!("member {tenant}"),
            Self::Operator => "operator".to_owned(),
            Self::Only(action, tenant) => format!("only {tenant} {action}"),
            Self::Mistaken(action, tenant) => format!("mistaken {tenant} {action}"),
            Self::Broken => "broken".to_owned(),
        }
    }
}

/// Of one action, or of all.
struct May<'a>(Option<&'a str>);

impl Policy for May<'_> {
    async fn allows(&self, _: &str, action: &str, _: &str) -> Result<(), Denied> {
        let may = self.0.is_none_or(|only| only == action);
        if may { Ok(()) } else { Err(Denied::because("not that")) }
    }

    async fn allows_operator(&self, _: &str, _: &str) -> Result<(), Denied> {
        Ok(())
    }
}

#[derive(Debug)]
struct NoDirectory;

impl std::fmt::Display for NoDirectory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ldap://secret-host does not answer")
    }
}

impl std::error::Error for NoDirectory {}

pub async fn grant(
    parts: Parts,
    action: &'static str,
) -> Result<Grant, Box<dyn std::error::Error + Send + Sync>> {
    let who = parts.headers.get("x-who").and_then(|who| who.to_str().ok()).unwrap_or_default();
    let words: Vec<_> = who.split(' ').collect();
    let grant = match words[..] {
        ["operator"] => May(None).authorize_operator("ops", action).await,
        ["member", tenant] if is_tenant(tenant) => May(None).authorize("ada", action, tenant).await,
        ["only", tenant, only] => May(Some(only)).authorize("bob", action, tenant).await,
        ["mistaken", tenant, given] => May(None).authorize("eve", given, tenant).await,
        ["broken"] => return Err(NoDirectory.into()),
        _ => Err(Forbidden::NoSubject),
    };
    Ok(grant?)
}

/// The application.
pub fn app(store: impl Admin + 'static) -> Router {
    Router::new().nest(BASE, QueuePage::new(store, grant).into_router())
}

/// What was answered.
#[derive(Debug)]
pub struct Answer {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: String,
}

impl Answer {
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map(|value| value.to_str().expect("text")).unwrap_or_default()
    }

    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// It has all of these words.
    #[track_caller]
    pub fn says(&self, words: &[&str]) -> &Self {
        for word in words {
            assert!(self.body.contains(word), "no {word:?} in {}", self.body);
        }
        self
    }

    /// It has none of them.
    #[track_caller]
    pub fn hides(&self, words: &[&str]) -> &Self {
        for word in words {
            assert!(!self.body.contains(word), "{word:?} in {}", self.body);
        }
        self
    }

    /// The targets of all links and forms.
    pub fn links(&self) -> Vec<String> {
        let targets = ["href=\"", "action=\"", "src=\""].into_iter().flat_map(|attribute| {
            self.body.split(attribute).skip(1).filter_map(|rest| rest.split('"').next())
        });
        targets.map(|target| target.replace("&amp;", "&")).collect()
    }
}

pub async fn send(app: &Router, request: Request<Body>) -> Answer {
    let response: Response = app.clone().oneshot(request).await.expect("it answers");
    let (parts, body) = response.into_parts();
    let body = to_bytes(body, usize::MAX).await.expect("a body");
    let body = String::from_utf8(body.to_vec()).expect("text");
    Answer { status: parts.status, headers: parts.headers, body }
}

/// Of a page of the router's.
pub async fn get(app: &Router, who: &Who, path: &str) -> Answer {
    let path = if path.starts_with(BASE) { path.to_owned() } else { format!("{BASE}{path}") };
    // Its first page is nested without a slash at the end.
    let first = path.strip_prefix(BASE).and_then(|rest| rest.strip_prefix('/'));
    let first = first.filter(|rest| rest.is_empty() || rest.starts_with('?'));
    let path = first.map_or(path.clone(), |query| format!("{BASE}{query}"));
    let request = Request::get(path).header("x-who", who.header());
    send(app, request.body(Body::empty()).expect("a request")).await
}

/// A form's, or with a body that begins with a brace, JSON; as the page's own browser posts it.
pub async fn post(app: &Router, who: &Who, path: &str, body: &str) -> Answer {
    post_from(app, who, path, body, Some("same-origin")).await
}

pub async fn post_from(
    app: &Router,
    who: &Who,
    path: &str,
    body: &str,
    site: Option<&str>,
) -> Answer {
    let kind = match body.starts_with('{') {
        true => "application/json",
        false => "application/x-www-form-urlencoded",
    };
    let mut request = Request::post(format!("{BASE}{path}")).header("x-who", who.header());
    request = request.header("content-type", kind).header("host", "app.example");
    if let Some(site) = site {
        request = request.header("sec-fetch-site", site);
    }
    send(app, request.body(Body::from(body.to_owned())).expect("a request")).await
}
