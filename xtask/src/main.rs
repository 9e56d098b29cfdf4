//! The project's own commands: `cargo xtask test [store] [--install]`.
//!
//! | to know | open |
//! |---|---|
//! | how the tests are run and counted | [`mod@test`], [`tally`] |
//! | how stores are measured | [`mod@bench`] |
//! | how a store's server is had | [`servers`] |
//! | what the sources and the prose are held to | `xtask/tests/` |

mod bench;
mod servers;
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
        #[arg(value_parser = PossibleValuesParser::new(servers::names()))]
        store: Option<String>,
        /// Installs servers that the stores need and this machine lacks.
        #[arg(long)]
        install: bool,
    },
    /// Measures one store, and another program beside it; prints JSON lines.
    Bench(bench::Options),
}

fn main() -> ExitCode {
    match Command::parse() {
        Command::Test { store, install } => test::run(store.as_deref(), install),
        Command::Bench(options) => bench::run(&options),
    }
}
