//! The soak on Redis: `cargo xtask soak redis [--minutes N] [--seed S]`.

mod server;

use std::process::ExitCode;

fn main() -> ExitCode {
    jobs_testkit::soak::main(server::Server::default())
}
