//! The soak on MongoDB: `cargo xtask soak mongo [--minutes N] [--seed S]`.

mod server;

use std::process::ExitCode;

fn main() -> ExitCode {
    jobs_testkit::soak::main(server::Server::default())
}
