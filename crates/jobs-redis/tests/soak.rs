//! A short soak with a fixed seed; the long one is `cargo xtask soak redis`.

#[path = "../examples/soak/server.rs"]
mod server;

use std::process::ExitCode;

fn main() -> ExitCode {
    jobs_testkit::soak::test(server::Server::default())
}
