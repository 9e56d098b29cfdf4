//! The way into [`Admin`](crate::Admin): a Grant for that verb, as [`authorized`](mod@crate::authorized)
//! is the way into [`Queue::enqueue`](crate::Queue::enqueue).
//!
//! - **G6** Everything in `Admin` takes a [`Permit`] of its own verb, made only from a Grant for
//!   that verb's action; a driver or page that forgets the check does not compile
//!   (`g6_a_permit_needs_its_own_action`).
//! - **G6** A tenant's permit sees and changes only that tenant's jobs, in every list, count and
//!   verb; a foreign id answers exactly like an unknown one (`g6_a_foreign_id_is_an_unknown_id`,
//!   `g6_lists_and_counts_are_scoped`).
//! - **G6** It tunes only its own lane: pause, not weight (`g6_a_tenant_tunes_only_its_own_pause`).
//! - **G6** An operator's sees all, and who did it is recorded (`g6_an_operator_sees_all`,
//!   `g6_who_did_it_is_recorded`).

use std::marker::PhantomData;

use crate::{Grant, grant::Forbidden};

/// A verb of [`Admin`](crate::Admin) and the action that allows it.
pub trait Verb: private::Sealed + Send + Sync + 'static {
    /// The action a Grant must be for.
    const ACTION: &'static str;
}

macro_rules! verbs {
    ($($(#[$doc:meta])* $verb:ident = $action:literal;)*) => {$(
        $(#[$doc])*
        #[derive(Debug)]
        pub enum $verb {}
        impl private::Sealed for $verb {}
        impl Verb for $verb {
            const ACTION: &'static str = $action;
        }
    )*};
}

verbs! {
    /// Look: get, list, counts, pending, oldest, workers, check.
    Read = "jobs.read";
    /// Retry a parked or cancelled job.
    Retry = "jobs.retry";
    /// Cancel a job.
    Cancel = "jobs.cancel";
    /// Delete a job.
    Delete = "jobs.delete";
    /// Pause, resume and weigh lanes.
    Tune = "jobs.tune";
}

mod private {
    pub trait Sealed {}
}

/// Leave to do one verb in one scope. From [`Grant::permit`].
#[derive(Debug)]
pub struct Permit<V> {
    tenant: Option<String>,
    by: String,
    verb: PhantomData<V>,
}

impl Grant {
    /// Leave for the verb that the callee wants, if this Grant is for its action.
    ///
    /// # Errors
    /// [`Forbidden::WrongAction`] when it is for another one.
    pub fn permit<V: Verb>(&self) -> Result<Permit<V>, Forbidden> {
        self.check(V::ACTION)?;
        let tenant = self.tenant().map(str::to_owned);
        Ok(Permit { tenant, by: self.authorized_by().to_owned(), verb: PhantomData })
    }
}

impl<V> Permit<V> {
    /// The only tenant it covers; `None` covers all.
    pub fn tenant(&self) -> Option<&str> {
        self.tenant.as_deref()
    }

    /// Does it cover `tenant`?
    pub fn covers(&self, tenant: &str) -> bool {
        self.tenant.as_deref().is_none_or(|own| own == tenant)
    }

    /// Who acts, for the record.
    pub fn by(&self) -> &str {
        &self.by
    }
}
