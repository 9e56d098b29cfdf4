//! The operator's verbs, one file each: what can be typed, what it does, what it says.

use jobs_core::{
    Admin, Permit,
    permit::Read,
    view::{List, Page},
};

use crate::{access::Access, command::Filter, out::Out, stop::Stop};

pub(crate) mod cancel;
pub(crate) mod delete;
pub(crate) mod doctor;
#[cfg(test)]
mod doctor_tests;
mod lane;
pub(crate) mod list;
mod many;
pub(crate) mod migrate;
#[cfg(test)]
mod model;
pub(crate) mod pause;
pub(crate) mod resume;
pub(crate) mod retry;
pub(crate) mod show;
pub(crate) mod stats;
pub(crate) mod workers;

/// What a verb works with.
pub(crate) struct Session<A> {
    pub store: A,
    pub access: Access,
    pub out: Out,
}

/// Most jobs of one page of a walk.
const PAGE: usize = 1000;

impl<A: Admin> Session<A> {
    /// The list that a filter stands for, in the scope that was typed.
    fn list_of(&self, filter: &Filter) -> List {
        let Filter { queue, state, name, cause } = filter.clone();
        let tenant = self.access.tenant.clone();
        List { queue, tenant, state, name, cause, page: PAGE, ..List::default() }
    }

    /// Walks a list to its end, page by page.
    async fn walk(
        &self,
        permit: &Permit<Read>,
        mut list: List,
        mut each: impl AsyncFnMut(Page) -> Result<(), Stop>,
    ) -> Result<(), Stop> {
        loop {
            let page = self.store.list(permit, &list).await?;
            list.after = page.next.clone();
            each(page).await?;
            if list.after.is_none() {
                return Ok(());
            }
        }
    }
}
