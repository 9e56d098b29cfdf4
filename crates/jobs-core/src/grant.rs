//! The Grant: who may do which one action, in which tenant; and the doors that mint one.
//!
//! - **G1** A Grant holds a subject, exactly one action and a scope. Its fields are private, it is
//!   neither `Deserialize` nor `Default`, and nobody can edit a clone
//!   (`g1_a_grant_cannot_be_forged`: programs that must not compile; `g1_no_derive_makes_a_grant`).
//! - **G1** The doors are exactly these, and each refuses an empty, malformed or reserved subject, a malformed
//!   action or tenant before it asks anybody (`g1_the_doors_refuse_bad_input`,
//!   `g1_an_empty_subject_never_reaches_the_policy`, `g1_operators_are_refused_by_default`), and
//!   says what was allowed, no more (`g1_a_grant_is_what_the_policy_allowed`):
//!   1. [`Policy::authorize`]: a subject in one tenant, by the application's policy;
//!   2. [`Policy::authorize_operator`]: a subject over all tenants, by another method of the policy;
//!   3. [`grant_without_user`]: code that no user started (cron, seeders), found by its name;
//!   4. the worker's re-issue, not public: see G4.
//! - **G4** The worker re-issues a Grant from the stored job: same tenant, same action, subject
//!   `system` on behalf of the recorded authorized-by, which jobs pushed under it carry on
//!   (`g4_a_handler_gets_the_same_authority_and_no_more`).

use std::future::Future;

use crate::{
    Job,
    authorized::MAX_AUTHORIZED_BY,
    names::{is_name, is_tenant},
    payload,
};

/// The subject of a re-issued Grant.
pub const SYSTEM: &str = "system";

/// Proof that a subject may do one action in one scope. Made by the doors of [this module](self),
/// valid until dropped; check it again for the next request rather than keeping it.
#[derive(Clone, Debug)]
pub struct Grant {
    subject: String,
    on_behalf_of: Option<String>,
    action: String,
    scope: Scope,
    payload_limit: usize,
}

/// Where a Grant is valid. Operator is a kind of its own, never an empty tenant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scope {
    /// One tenant.
    Tenant(String),
    /// Every tenant, to look and to intervene; pushes nothing.
    Operator,
}

/// The application's rules. Implement [`allows`](Self::allows); call
/// [`authorize`](Self::authorize). Not object-safe, because its methods are async: where more than
/// one policy may be given, take it as `fn routes<P: Policy>(policy: P)`.
///
/// ```
/// use jobs_core::grant::{Denied, Policy};
///
/// struct MembersOnly;
///
/// impl Policy for MembersOnly {
///     async fn allows(&self, subject: &str, action: &str, tenant: &str) -> Result<(), Denied> {
///         match (subject, action, tenant) {
///             ("ada", "invoice.send", "acme") => Ok(()),
///             _ => Err(Denied::because("not a member")),
///         }
///     }
/// }
/// ```
pub trait Policy: Sync {
    /// May `subject` do `action` in `tenant`? All three are well formed when this is asked.
    fn allows(
        &self,
        subject: &str,
        action: &str,
        tenant: &str,
    ) -> impl Future<Output = Result<(), Denied>> + Send;

    /// May `subject` do `action` over all tenants? No, unless the application says so here.
    fn allows_operator(
        &self,
        _subject: &str,
        _action: &str,
    ) -> impl Future<Output = Result<(), Denied>> + Send {
        async { Err(Denied::because("this policy has no operators")) }
    }

    /// Door 1: a Grant for one tenant.
    ///
    /// # Errors
    /// [`Forbidden`]: a malformed argument (the policy is not asked), or the policy's refusal.
    fn authorize(
        &self,
        subject: &str,
        action: &str,
        tenant: &str,
    ) -> impl Future<Output = Result<Grant, Forbidden>> + Send {
        async move {
            check_user(subject)?;
            check(subject, action, Some(tenant))?;
            self.allows(subject, action, tenant)
                .await
                .map_err(|denied| denied.into_forbidden(subject, action, tenant))?;
            Ok(Grant::mint(subject, action, Scope::Tenant(tenant.to_owned())))
        }
    }

    /// Door 2: a Grant over all tenants.
    ///
    /// # Errors
    /// [`Forbidden`]: a malformed argument (the policy is not asked), or the policy's refusal.
    fn authorize_operator(
        &self,
        subject: &str,
        action: &str,
    ) -> impl Future<Output = Result<Grant, Forbidden>> + Send {
        async move {
            check_user(subject)?;
            check(subject, action, None)?;
            self.allows_operator(subject, action)
                .await
                .map_err(|denied| denied.into_forbidden(subject, action, "every tenant"))?;
            Ok(Grant::mint(subject, action, Scope::Operator))
        }
    }
}

/// Door 3: a Grant for code that no user started, such as a schedule or a seeder. `purpose` is
/// recorded as `system:purpose`. In a request handler this is the wrong door: it asks no policy.
///
/// # Errors
/// [`Forbidden`] for a malformed argument.
pub fn grant_without_user(purpose: &str, action: &str, tenant: &str) -> Result<Grant, Forbidden> {
    if purpose.is_empty() {
        return Err(Forbidden::NoSubject);
    }
    let subject = format!("{SYSTEM}:{purpose}");
    check(&subject, action, Some(tenant))?;
    Ok(Grant::mint(&subject, action, Scope::Tenant(tenant.to_owned())))
}

impl Grant {
    fn mint(subject: &str, action: &str, scope: Scope) -> Self {
        let (subject, action) = (subject.to_owned(), action.to_owned());
        Self { subject, on_behalf_of: None, action, scope, payload_limit: payload::DEFAULT_LIMIT }
    }

    /// Door 4: the authority a stored job was pushed under, for its handler.
    ///
    /// # Errors
    /// [`Forbidden`] when the stored fields are no authority: the row was damaged.
    pub(crate) fn reissue(job: &Job) -> Result<Self, Forbidden> {
        check(&job.authorized_by, &job.action, Some(&job.tenant))?;
        let scope = Scope::Tenant(job.tenant.clone());
        let on_behalf_of = Some(job.authorized_by.clone());
        Ok(Self { on_behalf_of, ..Self::mint(SYSTEM, &job.action, scope) })
    }

    /// The same Grant with another payload limit, in bytes (P5). The limit guards the store, it
    /// is not authority: any code that holds a Grant may set it.
    pub fn with_payload_limit(self, bytes: usize) -> Self {
        Self { payload_limit: bytes, ..self }
    }

    /// Who acts: the user, or `system` in a handler.
    pub fn subject(&self) -> &str {
        &self.subject
    }

    /// For whom `system` acts, in a handler.
    pub fn on_behalf_of(&self) -> Option<&str> {
        self.on_behalf_of.as_deref()
    }

    /// What jobs pushed under this Grant record: the person at the start of the chain.
    pub fn authorized_by(&self) -> &str {
        self.on_behalf_of.as_deref().unwrap_or(&self.subject)
    }

    /// The one action.
    pub fn action(&self) -> &str {
        &self.action
    }

    /// Where.
    pub fn scope(&self) -> &Scope {
        &self.scope
    }

    /// The tenant; `None` for an operator's Grant.
    pub fn tenant(&self) -> Option<&str> {
        match &self.scope {
            Scope::Tenant(tenant) => Some(tenant),
            Scope::Operator => None,
        }
    }

    /// Largest payload it pushes, in bytes.
    pub fn payload_limit(&self) -> usize {
        self.payload_limit
    }

    /// Is this Grant for `action`? For a handler to check before it touches tenant data.
    ///
    /// # Errors
    /// [`Forbidden::WrongAction`] when it is for another one.
    pub fn check(&self, action: &str) -> Result<(), Forbidden> {
        if self.action == action {
            return Ok(());
        }
        Err(Forbidden::WrongAction { held: self.action.clone(), needed: action.to_owned() })
    }
}

/// No user is called as code without one is, in the trail of who did what.
fn check_user(subject: &str) -> Result<(), Forbidden> {
    let rest = subject.strip_prefix(SYSTEM);
    if rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(':')) {
        return Err(Forbidden::ReservedSubject(excerpt(subject)));
    }
    Ok(())
}

fn check(subject: &str, action: &str, tenant: Option<&str>) -> Result<(), Forbidden> {
    if subject.is_empty() {
        return Err(Forbidden::NoSubject);
    }
    if subject.len() > MAX_AUTHORIZED_BY || subject.contains('\0') {
        return Err(Forbidden::BadSubject);
    }
    if !is_name(action) {
        return Err(Forbidden::BadAction(excerpt(action)));
    }
    match tenant {
        Some(tenant) if !is_tenant(tenant) => Err(Forbidden::BadTenant(excerpt(tenant))),
        _ => Ok(()),
    }
}

/// The head of a text that may be a megabyte of anything, for a message.
pub(crate) fn excerpt(text: &str) -> String {
    let end = text.floor_char_boundary(80);
    let dots = if end < text.len() { "…" } else { "" };
    format!("{:?}{dots}", &text[..end])
}

/// A policy's no.
#[derive(Clone, Debug)]
pub struct Denied(String);

impl Denied {
    /// With the reason that the caller is told.
    pub fn because(reason: impl Into<String>) -> Self {
        Self(reason.into())
    }

    fn into_forbidden(self, subject: &str, action: &str, scope: &str) -> Forbidden {
        let [subject, action, scope] = [subject, action, scope].map(str::to_owned);
        Forbidden::Denied { subject, action, scope, reason: self.0 }
    }
}

/// No Grant was given, or the one at hand does not cover this.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Forbidden {
    /// Nobody asks.
    #[error("there is no subject: authenticate the request before authorizing it")]
    NoSubject,
    /// Longer than 200 bytes, or with a NUL.
    #[error("the subject is longer than 200 bytes or has a NUL: use the user's id")]
    BadSubject,
    /// `system`, or `system:…`: what re-issued Grants and code without a user are called.
    #[error("{0} is no user: `system` is who acts where no user does; use the user's id")]
    ReservedSubject(String),
    /// Not an action's alphabet.
    #[error("{0} is no action: use [a-z0-9][a-z0-9._:-]{{0,63}}")]
    BadAction(String),
    /// Not a tenant's alphabet.
    #[error("{0} is no tenant: use [a-z0-9][a-z0-9_-]{{0,63}}")]
    BadTenant(String),
    /// The policy refused.
    #[error("{subject} may not {action} in {scope}: {reason}")]
    Denied {
        /// Who asked.
        subject: String,
        /// For which action.
        action: String,
        /// In which tenant, or "every tenant".
        scope: String,
        /// The policy's words.
        reason: String,
    },
    /// The Grant is for another action.
    #[error("this Grant is for {held}, not for {needed}: authorize {needed}")]
    WrongAction {
        /// What it is for.
        held: String,
        /// What was tried.
        needed: String,
    },
}
