//! The soak on SQLite: `cargo xtask soak sqlite [--minutes N] [--seed S]`.

mod files;

use std::process::ExitCode;

fn main() -> ExitCode {
    jobs_testkit::soak::main(files::Files)
}
