//! What the network and the server do to a handle that works: the connection cut at every round
//! trip, the backend terminated, silence, a server that is killed.
//!
//! | what goes wrong | open |
//! |---|---|
//! | a connection at every round trip of every verb, or its backend in the middle | `cuts.rs`, `terminated.rs`, `others.rs` |
//! | delay, silence, resets, refusals | `network.rs` |
//! | the connection that listens | `listener.rs` |
//! | the server | `restart.rs` |

#[path = "../common/mod.rs"]
mod common;
mod cuts;
mod listener;
mod network;
mod others;
mod restart;
mod terminated;

use std::{process::ExitCode, sync::Arc};

use jobs_servers::PrivatePostgres;
use jobs_testkit::{
    cases::{self, Case},
    fixture::Fixture,
    harness::{REQUIRE, run_case},
};
use libtest_mimic::{Arguments, Failed, Trial};

use crate::{
    common::{URL, schemas::Schemas, variable},
    cuts::{Cuts, Way},
};

/// A fixture for each case: its proxies end with it.
type Make = fn() -> Arc<dyn Fixture>;

const WAYS: [(&str, Make); 3] = [
    ("cut_before_the_request", || Arc::new(Cuts::new(Way::Before))),
    ("cut_before_the_reply", || Arc::new(Cuts::new(Way::After))),
    ("backend_terminated", || Arc::new(Cuts::new(Way::Terminated))),
];

fn main() -> ExitCode {
    let missing = variable(URL).err();
    let required = std::env::var_os(REQUIRE).is_some();
    let trial = |name: String, missing: Option<String>, run: Box<dyn Fn() + Send>| {
        let skip = missing.is_some() && !required;
        if let (Some(why), true) = (&missing, skip) {
            eprintln!("{name} is skipped: {why}");
        }
        let run = move || match &missing {
            Some(why) => Err(Failed::from(why)),
            None => {
                run();
                Ok(())
            }
        };
        Trial::test(name, run).with_ignored_flag(skip)
    };
    let case = |name: String, make: Make, case: &'static Case| {
        let run = move || run_case(make(), case).unwrap_or_else(|why| panic!("{why:?}"));
        trial(name, missing.clone(), Box::new(run))
    };
    let mut trials = Vec::new();
    for (way, make) in WAYS {
        let repeated = cases::all().filter(|case| case.name.starts_with("f1_cut"));
        let all = repeated.chain([&others::CASE]);
        trials.extend(all.map(|one| case(format!("{way}_{}", one.name), make, one)));
    }
    assert!(trials.len() >= 3 * 10, "the suite's cases of lost answers are here");
    let make: Make = || Arc::new(Schemas::direct("postgres", variable(URL)));
    let all = network::CASES.iter().chain(listener::CASES);
    trials.extend(all.map(|one| case(one.name.to_owned(), make, one)));
    let none = PrivatePostgres::find().is_none().then(|| "install PostgreSQL".to_owned());
    for (name, run) in restart::TRIALS {
        trials.push(trial((*name).to_owned(), none.clone(), Box::new(run)));
    }
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}
