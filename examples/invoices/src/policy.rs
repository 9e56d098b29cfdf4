//! Who may do what, in which tenant.

use jobs_core::{Denied, Forbidden, Grant, Policy, Scope};

/// Issue an invoice and have it mailed.
pub const SEND: &str = "invoice.send";
/// Look at invoices and reports.
pub const READ: &str = "invoice.read";
/// Have a month added up.
pub const REPORT: &str = "report.build";
/// Upload a file of invoices.
pub const IMPORT: &str = "invoice.import";

/// Somebody who can log in. Here they are written down; in an application they are its users.
#[derive(Debug)]
struct User {
    name: &'static str,
    /// The bearer token of a session.
    token: &'static str,
    /// `None` for the operator, who is in every tenant and issues no invoices.
    tenant: Option<&'static str>,
    role: Role,
}

#[derive(Clone, Copy, Debug)]
enum Role {
    Clerk,
    Accountant,
    Operator,
}

const fn user(name: &'static str, token: &'static str, tenant: &'static str, role: Role) -> User {
    User { name, token, tenant: Some(tenant), role }
}

const USERS: &[User] = &[
    user("ada", "ada-token", "acme", Role::Accountant),
    user("bob", "bob-token", "acme", Role::Clerk),
    user("eve", "eve-token", "globex", Role::Accountant),
    user("ivy", "ivy-token", "initech", Role::Accountant),
    User { name: "root", token: "root-token", tenant: None, role: Role::Operator },
];

/// The user of a bearer token.
pub fn user_of(token: &str) -> Option<&'static str> {
    USERS.iter().find(|user| user.token == token).map(|user| user.name)
}

impl Role {
    fn may(self, action: &str) -> bool {
        match self {
            Self::Clerk => [SEND, READ, "jobs.read"].contains(&action),
            Self::Accountant => {
                [SEND, READ, REPORT, IMPORT].contains(&action) || action.starts_with("jobs.")
            }
            Self::Operator => action.starts_with("jobs."),
        }
    }
}

/// A user's role decides, in the user's own tenant.
#[derive(Clone, Copy, Debug)]
pub struct Roles;

impl Policy for Roles {
    async fn allows(&self, subject: &str, action: &str, tenant: &str) -> Result<(), Denied> {
        let user = USERS.iter().find(|user| user.name == subject);
        let user = user.ok_or_else(|| Denied::because("nobody is called so"))?;
        if user.tenant != Some(tenant) {
            return Err(Denied::because("not a member"));
        }
        match user.role.may(action) {
            true => Ok(()),
            false => Err(Denied::because(format!("{:?}s may not", user.role).to_lowercase())),
        }
    }

    async fn allows_operator(&self, subject: &str, action: &str) -> Result<(), Denied> {
        let user = USERS.iter().find(|user| user.name == subject && user.tenant.is_none());
        match user.is_some_and(|user| user.role.may(action)) {
            true => Ok(()),
            false => Err(Denied::because("not an operator")),
        }
    }
}

/// Who sits at the keyboard of `jobs …`: whoever `INVOICES_USER` says. Who can set it can read the
/// store's URL too.
///
/// # Errors
/// [`Forbidden`]: the policy refuses.
pub async fn at_the_keyboard(action: &'static str, scope: Scope) -> Result<Grant, Forbidden> {
    let who = std::env::var("INVOICES_USER").unwrap_or_default();
    match scope {
        Scope::Tenant(tenant) => Roles.authorize(&who, action, &tenant).await,
        Scope::Operator => Roles.authorize_operator(&who, action).await,
    }
}
