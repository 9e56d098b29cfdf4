//! Installs servers with the system's package manager.

use std::{
    path::PathBuf,
    process::{Command, Output, Stdio},
};

use rustix::process::geteuid;

use crate::{Result, machine::folder_of};

/// Installs the packages `$@` and starts no service: while `policy-rc.d` says 101, packages do not
/// start theirs. One that is there already is left alone, and what it says.
const SCRIPT: &str = r#"
set -eu
export DEBIAN_FRONTEND=noninteractive
policy=/usr/sbin/policy-rc.d
if ! [ -e "$policy" ]; then
    trap 'rm -f "$policy"' EXIT
    trap 'exit 1' HUP INT TERM
    printf '#!/bin/sh\n# There while packages are installed; can be removed.\nexit 101\n' > "$policy"
    chmod 755 "$policy"
fi
apt-get -qq -o DPkg::Lock::Timeout=300 update
apt-get -qq -y -o DPkg::Lock::Timeout=300 --no-install-recommends install "$@"
"#;

/// Installs these packages of a Debian system; their services are not started.
///
/// As root without a question, else with `sudo`, which may ask for a password.
///
/// # Errors
/// There is no apt-get here, or it failed; the sentence says what to do.
pub fn install(packages: &[&str]) -> Result {
    let packages_named = packages.join(" ");
    let has = |program| folder_of(&[program], [PathBuf::from("/usr/bin")]).is_some();
    if !has("apt-get") {
        return Err(format!("there is no apt-get here to install {packages_named}"));
    }
    let mut command = if geteuid().is_root() {
        Command::new("sh")
    } else if has("sudo") {
        let mut command = Command::new("sudo");
        command.arg("sh");
        command
    } else {
        return Err(format!("installing {packages_named} needs root or sudo"));
    };
    eprintln!("installing {packages_named}");
    command.args(["-c", SCRIPT, "install"]).args(packages);
    // What packages say about themselves is of interest only where it went wrong. `sudo` asks at
    // the terminal itself.
    let output = command.stdin(Stdio::inherit()).output();
    let failed = |why: String| Err(format!("apt-get install {packages_named}: {why}"));
    match output {
        Ok(output) if output.status.success() => Ok(()),
        Ok(Output { status, stderr, .. }) => {
            failed(format!("{status}\n{}", String::from_utf8_lossy(&stderr).trim_end()))
        }
        Err(error) => failed(error.to_string()),
    }
}
