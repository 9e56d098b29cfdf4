//! The way to a Grant: the scope that was typed, and the application's function.

use std::{future::Future, pin::Pin};

use jobs_core::{Grant, JobId, JobRef, Permit, Scope, names::is_tenant, permit::Verb};

use crate::{
    command::ScopeArgs,
    stop::{AnyError, Stop, advised, is_forbidden},
    text,
};

/// The application's function from (action, scope) to Grant.
pub(crate) type Grants = dyn Fn(&'static str, Scope) -> Asking;
pub(crate) type Asking = Pin<Box<dyn Future<Output = Result<Grant, AnyError>>>>;

const NO_GRANTS: &str = "\
this program says nobody may look at jobs or change them: it gave jobs-cli no function that makes \
Grants.
Give one, with your policy and the person at the keyboard in it:

    Jobs::on(open).grants(async |action, scope| match scope {
        Scope::Tenant(tenant) => policy.authorize(&who, action, &tenant).await,
        Scope::Operator => policy.authorize_operator(&who, action).await,
    })";

const NO_SCOPE: &str = "\
whose jobs? Pick one:
    --tenant <TENANT>   that tenant's jobs
    --operator          all tenants' jobs, if you are an operator";

/// Whose jobs, and who says that this person may.
pub(crate) struct Access {
    scope: Scope,
    /// What an operator narrows to; in a tenant's scope, the tenant.
    pub tenant: Option<String>,
    grants: Box<Grants>,
    /// For the action that the command is about.
    first: Grant,
}

impl Access {
    pub async fn new(
        typed: ScopeArgs,
        grants: Option<Box<Grants>>,
        action: &'static str,
    ) -> Result<Self, Stop> {
        let grants = grants.ok_or_else(|| Stop::refused(NO_GRANTS))?;
        let scope = match (&typed.tenant, typed.operator) {
            (_, true) => Scope::Operator,
            (Some(tenant), false) => Scope::Tenant(tenant.clone()),
            (None, false) => return Err(Stop::refused(NO_SCOPE)),
        };
        let first = ask(&grants, action, &scope).await?;
        Ok(Self { scope, tenant: typed.tenant, grants, first })
    }

    /// Leave for the verb that the callee wants.
    pub async fn permit<V: Verb>(&self) -> Result<Permit<V>, Stop> {
        match self.first.action() == V::ACTION {
            true => Ok(self.first.permit()?),
            false => Ok(ask(&self.grants, V::ACTION, &self.scope).await?.permit()?),
        }
    }

    /// Is this an operator's look at all tenants? Then ids are written with their tenant.
    pub fn sees_all(&self) -> bool {
        self.tenant.is_none()
    }

    /// The job of an id as it is typed: `tenant/id`, or `id` where the tenant is given.
    pub fn job(&self, typed: &str) -> Result<JobRef, Stop> {
        let (tenant, id) = match typed.split_once('/') {
            Some((tenant, id)) => (Some(tenant), id),
            None => (self.tenant.as_deref(), typed),
        };
        let shown = text::line(text::cut(typed, 120).as_ref()).into_owned();
        let Some(tenant) = tenant else {
            return Err(Stop::refused(format!(
                "{shown} is a job of which tenant? Ids are a tenant's own: write <TENANT>/{shown}"
            )));
        };
        // A tenant's Grant lets the store answer: a foreign id is an unknown one.
        if self.scope == Scope::Operator && self.tenant.as_deref().is_some_and(|own| own != tenant)
        {
            let what = "--tenant narrows to another tenant: leave it out";
            return Err(Stop::refused(format!("{shown}: {what}")));
        }
        match id.parse::<JobId>() {
            Ok(id) if is_tenant(tenant) => Ok(JobRef { tenant: tenant.to_owned(), id }),
            _ => Err(Stop::refused(format!(
                "{shown} is no job's id: write <TENANT>/<UUID>, as `jobs list` shows it"
            ))),
        }
    }

    /// `in tenant acme`, `in all tenants`.
    pub fn words(&self) -> String {
        match &self.tenant {
            Some(tenant) => format!("in tenant {tenant}"),
            None => "in all tenants".to_owned(),
        }
    }
}

async fn ask(grants: &Grants, action: &'static str, scope: &Scope) -> Result<Grant, Stop> {
    let grant =
        grants(action, scope.clone()).await.map_err(|error| match is_forbidden(&error) {
            true => Stop::refused(format!("refused: {}", advised(&error))),
            false => Stop::failed(format!("who may do this cannot be told: {}", advised(&error))),
        })?;
    // A mistake in the application's function must not show one tenant another's jobs.
    if grant.scope() != scope {
        let (asked, got) = (in_words(scope), in_words(grant.scope()));
        let what = "fix the function given to grants(…)";
        return Err(Stop::refused(format!(
            "a Grant for {asked} was asked for, and this program gave one for {got}: {what}"
        )));
    }
    Ok(grant)
}

fn in_words(scope: &Scope) -> String {
    match scope {
        Scope::Tenant(tenant) => format!("tenant {tenant}"),
        Scope::Operator => "all tenants".to_owned(),
    }
}
