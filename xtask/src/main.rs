//! The project's own commands: `cargo xtask test [store] [--install]`.
//!
//! | to know | open |
//! |---|---|
//! | how the tests are run and counted | [`mod@test`], [`tally`] |
//! | how stores are measured | [`mod@bench`] |
//! | which stores have a driver here | [`stores`] |
//! | how a store's server is had | [`mod@servers`] |
//! | how a store is soaked | [`mod@soak`] |
//! | what the sources and the prose are held to | `xtask/tests/` |

mod bench;
mod servers;
mod soak;
mod stores;
mod tally;
mod test;

use std::process::ExitCode;

use clap::{Parser, builder::PossibleValuesParser};

/// The project's own commands.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
enum Command {
    /// Runs the tests with skips forbidden; the last line is `N passed, N failed`.
    Test {
        /// Only the driver of this store; without it the whole workspace.
        #[arg(value_parser = PossibleValuesParser::new(stores::names()))]
        store: Option<String>,
        /// Installs servers that the stores need and this machine lacks.
        #[arg(long)]
        install: bool,
    },
    /// Measures one store, and another program beside it; prints JSON lines.
    Bench(bench::Options),
    /// Disturbs a store for minutes and checks it against a ledger outside of it.
    Soak {
        /// Which store.
        #[arg(value_parser = PossibleValuesParser::new(stores::names()))]
        store: String,
        /// How long the faults go on.
        #[arg(long, default_value_t = 3.0)]
        minutes: f64,
        /// Repeats the faults of the run that printed it.
        #[arg(long)]
        seed: Option<u64>,
    },
    /// Starts private servers for plain `cargo test` and prints the variables that it reads; they
    /// end with this command.
    Servers {
        /// Only this kind; without it all.
        #[arg(value_parser = PossibleValuesParser::new(servers::names()))]
        server: Option<String>,
        /// Installs those that this machine lacks.
        #[arg(long)]
        install: bool,
    },
}

fn main() -> ExitCode {
    match Command::parse() {
        Command::Test { store, install } => test::run(store.as_deref(), install),
        Command::Bench(options) => bench::run(&options),
        Command::Servers { server, install } => servers::run(server.as_deref(), install),
        Command::Soak { store, minutes, seed } => soak::run(&store, minutes, seed),
    }
}
