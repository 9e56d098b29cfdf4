//! A short soak with a fixed seed; the long one is `cargo xtask soak sqlite`.

#[path = "../examples/soak/files.rs"]
mod files;

use std::process::ExitCode;

fn main() -> ExitCode {
    jobs_testkit::soak::test(files::Files)
}
