//! The cases, one file per verb. Each proves one law on any store; its name starts with the law.

use futures::future::BoxFuture;

use crate::kit::Kit;

pub mod admin;
pub mod cut_verbs;
pub mod ended;
pub mod fair;
pub mod fair_names;
pub mod faults;
pub mod flight;
pub mod fresh;
pub mod grant;
pub mod history;
pub mod hostile;
pub mod identity;
pub mod keys;
pub mod list;
pub mod many;
pub mod push;
pub mod race;
pub mod relay;
pub mod renew;
pub mod reserve;
pub mod scope;
pub mod settle;
mod stage;
pub mod stale;
pub mod sweep;
pub mod transaction;
pub mod tune;
pub mod wake;
pub mod worker;
pub mod worker_ends;
mod worker_help;
pub mod worker_lease;
pub mod worker_process;
pub mod worker_settling;
pub mod worker_shutdown;

/// One case of the suite.
pub struct Case {
    /// The law, a number and what is shown: `s3_repeating_a_settlement`.
    pub name: &'static str,
    /// Does it start processes of its own?
    pub crosses_processes: bool,
    /// Runs it; a failure is a panic.
    pub run: fn(&Kit) -> BoxFuture<'_, ()>,
}

/// Lists the cases of a file. A case that is not listed is dead code, which CI refuses.
macro_rules! cases {
    ($($name:ident),* $(,)?) => {
        /// The cases of this file.
        pub(crate) const CASES: &[$crate::cases::Case] = &[$($crate::cases::Case {
            name: stringify!($name),
            crosses_processes: false,
            run: |kit| Box::pin($name(kit)),
        }),*];
    };
}
pub(crate) use cases;

/// Every case, in the order of the files.
pub fn all() -> impl Iterator<Item = &'static Case> {
    [
        grant::CASES,
        scope::CASES,
        hostile::CASES,
        push::CASES,
        identity::CASES,
        keys::CASES,
        transaction::CASES,
        flight::CASES,
        reserve::CASES,
        fresh::CASES,
        fair::CASES,
        fair_names::CASES,
        renew::CASES,
        settle::CASES,
        ended::CASES,
        stale::CASES,
        race::CASES,
        sweep::CASES,
        admin::CASES,
        list::CASES,
        many::CASES,
        tune::CASES,
        wake::CASES,
        faults::CASES,
        cut_verbs::CASES,
        history::CASES,
        worker::CASES,
        worker_ends::CASES,
        worker_lease::CASES,
        worker_process::CASES,
        worker_settling::CASES,
        worker_shutdown::CASES,
        relay::CASES,
    ]
    .into_iter()
    .flatten()
}
