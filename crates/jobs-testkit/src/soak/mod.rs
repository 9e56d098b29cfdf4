//! The soak: producers, worker processes and faults for minutes, and then the ledger against the
//! store.
//!
//! A driver opts in with a [`Soak`] and an example that calls [`main`]; the same program is
//! coordinator, worker and producer. Everything random comes from one seed: the schedule of faults
//! is the same for the same seed, what the machine makes of it is not.
//!
//! | to know | open |
//! |---|---|
//! | which faults there are, and when | `schedule.rs`, carried out in `faults.rs`, `verbs.rs`, `late.rs` |
//! | what is pushed | `producer.rs`, `probe.rs` |
//! | how it is run | `worker.rs`, watched by `watched.rs`, `claims.rs`, `strict.rs` |
//! | what is written down | `ledger.rs`, read by `read.rs` |
//! | what must hold in the end | `check/`, a file for each promise |
//! | what went wrong for whom, and what of it excuses a lost lease | `danger.rs`, `lease.rs` |
//! | what a run must have been through to prove anything | `check/covered.rs` |

mod check;
mod claims;
mod danger;
mod faults;
mod figures;
mod late;
mod lease;
mod ledger;
mod left;
mod lists;
mod probe;
mod process;
mod producer;
mod read;
mod run;
mod schedule;
mod store;
mod strict;
mod verbs;
mod watched;
mod worker;

use std::{path::Path, process::ExitCode, sync::Arc, time::Duration};

use jobs_core::{Admin, Result, async_trait};
use libtest_mimic::{Arguments, Failed, Trial};

use process::Orders;
use tokio::time::{Instant, sleep};

use crate::harness::REQUIRE;

/// The result of a part of the soak; the error is a sentence.
type Done<T = ()> = Result<T, String>;

/// The lease of its workers.
const LEASE: Duration = Duration::from_secs(2);
/// The exit status of a process that could not do its part.
const BROKEN: u8 = 70;

/// A store that can be soaked.
#[async_trait]
pub trait Soak: Send + Sync + 'static {
    /// For reports.
    fn name(&self) -> &'static str;

    /// Why there is none here, with what to do about it: the short soak is then skipped under plain
    /// `cargo test`.
    fn unavailable(&self) -> Option<String> {
        None
    }

    /// Where a new, empty store is made; `directory` is the run's own, for one in files. A server of
    /// the run's own is started here, once, and ends with `self`.
    ///
    /// # Errors
    /// There is no server, or it does not start.
    fn url(&self, directory: &Path) -> Result<String, String>;

    /// A handle on it, migrated, that keeps all history, with this trouble.
    async fn open(&self, url: &str, trouble: Trouble) -> Result<Arc<dyn Admin>>;

    /// The same, for a thread of its own.
    fn opener(&self) -> Arc<dyn Soak>;

    /// Which faults it has.
    fn faults(&self) -> Faults;

    /// Makes the store slow for everybody for this long, and calls `begun` once it is: the fault
    /// is in force from then until this returns. Where it could not be made slow, `begun` is not
    /// called. An error ends the run.
    async fn hold(&self, _url: &str, _length: Duration, _begun: Begun<'_>) -> Result<(), String> {
        Ok(())
    }

    /// Restarts its server, and calls `begun` before it takes that away. An error ends the run.
    async fn restart(&self, _url: &str, _begun: Begun<'_>) -> Result<(), String> {
        Ok(())
    }

    /// What only the store itself can say about its soundness: one sentence for each thing that is
    /// wrong with what is stored, above all where its parts disagree. Asked all along, while others
    /// write, so it looks at one moment; and in the end.
    async fn unsound(&self, url: &str) -> Result<Vec<String>, String>;

    /// How many connections its server has now, but for the one that asks; zero where there is none.
    async fn connections(&self, _url: &str) -> Result<usize, String> {
        Ok(0)
    }

    /// May this file be in the run's directory at the end?
    fn leaves(&self, file: &str) -> bool;
}

/// Says that a fault is in force.
pub type Begun<'a> = &'a (dyn Fn() + Sync);

/// What goes wrong in one handle.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Trouble {
    /// Its connection breaks once, after this round trip and before the answer is seen.
    pub cut_after: Option<usize>,
    /// Its connection breaks again and again, each time after so many round trips.
    pub cut_every: Option<usize>,
    /// Its process's clock is off by so many milliseconds.
    pub clock_off: i64,
}

/// Which faults a store has, beside those of processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Faults {
    /// Connections can be broken after a reply.
    pub cut: bool,
    /// A process's clock can be off.
    pub clock: bool,
    /// The store can be made slow.
    pub hold: bool,
    /// There is a server to restart.
    pub restart: bool,
}

/// How long a store may be away.
const AWAY: Duration = Duration::from_secs(60);

/// A handle, asked for until the store is there: where programs run, one that ends because its store
/// is away is started again.
async fn opened(soak: &dyn Soak, url: &str, trouble: Trouble) -> Done<Arc<dyn Admin>> {
    let until = Instant::now() + AWAY;
    loop {
        match soak.open(url, trouble).await {
            Ok(store) => return Ok(store),
            Err(error) if error.is_transient() && Instant::now() < until => {
                sleep(Duration::from_millis(100)).await;
            }
            Err(error) => return Err(error.to_string()),
        }
    }
}

/// The `main` of a driver's soak: `[--minutes N] [--seed S] [--leashed]`.
pub fn main(soak: impl Soak) -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let Some(status) = role(&soak, &arguments) {
        return status;
    }
    let wanted = run::Wanted::read(&arguments).and_then(|wanted| {
        if wanted.leashed {
            process::leash(|| {})?;
        }
        run::run(&soak, &wanted)
    });
    match wanted {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}

/// The `main` of a driver's test: a short soak with a fixed seed, as a test of `cargo test`.
pub fn test(soak: impl Soak) -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let Some(status) = role(&soak, &arguments) {
        return status;
    }
    let missing = soak.unavailable();
    let skip = missing.is_some() && std::env::var_os(REQUIRE).is_none();
    if let (Some(why), true) = (&missing, skip) {
        eprintln!("{} is not here, its soak is skipped: {why}", soak.name());
    }
    let trial = Trial::test("a_short_soak", move || {
        let wanted = run::Wanted::short();
        match missing {
            Some(why) => Err(Failed::from(why)),
            None => run::run(&soak, &wanted).map_err(Failed::from),
        }
    })
    .with_ignored_flag(skip);
    libtest_mimic::run(&Arguments::from_args(), vec![trial]).exit_code()
}

/// This program as a process of a run.
fn role(soak: &dyn Soak, arguments: &[String]) -> Option<ExitCode> {
    let orders = Orders::read(arguments)?;
    let answer = match orders.role.as_str() {
        "worker" => worker::run(soak, &orders),
        "producer" => producer::run(soak, &orders),
        other => Err(format!("there is no role {other}")),
    };
    let status = worker::status(answer);
    // A runtime that is dropped waits for handlers that block.
    std::process::exit(status.into());
}
