//! Ends a child process with the one that started it, whatever becomes of that: a return, a
//! panic, Ctrl-C, SIGTERM, SIGKILL.
//!
//! A shell waits at a pipe of which only the owner has the other end; the kernel closes it with
//! the owner. Rejected: the parent's death signal (it comes when the *thread* that started the
//! child ends), and handlers for signals (none runs at SIGKILL, and a test binary has its own).
//! Every normal end takes the same way, so it is not only there in an emergency.

use std::{
    fmt,
    io::Write,
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

pub use rustix::process::Signal;

use crate::Result;

/// Each line is the process to end (a group has a `-` before it), or empty. After the last: end it
/// with the signal of number `$1`, after 10 s with SIGKILL, and remove the folder `$2`.
///
/// An orphan that has ended stays a zombie where the first process of a container takes nobody's
/// status. `kill -s NAME --` would not take a number, and `kill -1 --` is unknown to dash.
const SCRIPT: &str = r#"
trap '' HUP INT TERM
there() {
    kill -0 "$pid" || return 1
    read -r _ _ state _ < "/proc/$pid/stat" || return 0
    [ "$state" != Z ]
}
pid=
while read -r line; do pid=$line; done
if [ -n "$pid" ]; then
    kill "-$1" "$pid"
    tries=0
    while there && [ "$tries" -lt 200 ]; do sleep 0.05; tries=$((tries + 1)); done
    kill -9 "$pid"
fi
[ -z "$2" ] || rm -rf -- "$2"
"#;

/// Dropped, it ends what it holds and removes the folder.
pub struct Leash {
    shell: Child,
    folder: Option<PathBuf>,
}

impl Leash {
    /// Ends what it will hold by `signal`, and removes `folder` after that.
    ///
    /// # Errors
    /// There is no shell.
    pub fn new(signal: Signal, folder: Option<&Path>) -> Result<Self> {
        let mut shell = Command::new("sh");
        shell.args(["-c", SCRIPT, "leash", &signal.as_raw().to_string()]);
        shell.arg(folder.unwrap_or(Path::new("")));
        // In a group of its own: Ctrl-C in a terminal goes to the whole group of the owner.
        shell.process_group(0).current_dir("/").stdin(Stdio::piped());
        let shell = shell.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let shell = shell.map_err(|error| format!("sh does not start: {error}"))?;
        Ok(Self { shell, folder: folder.map(Path::to_owned) })
    }

    /// From now on it holds this process and no other.
    pub fn hold(&mut self, child: &Child) {
        self.tell(format_args!("{}", child.id()));
    }

    /// From now on it holds the group that this process leads, and no other.
    pub fn hold_group(&mut self, leader: &Child) {
        self.tell(format_args!("-{}", leader.id()));
    }

    /// It holds nothing any more. Called before the process's status is taken: after that its
    /// number may become another's.
    pub fn let_go(&mut self) {
        self.tell(format_args!(""));
    }

    fn tell(&mut self, line: fmt::Arguments) {
        if let Some(stdin) = &mut self.shell.stdin {
            // Without its shell there is no leash, which is no reason to fail a test.
            let _ = writeln!(stdin, "{line}");
        }
    }

    /// From now on its owner counts as gone; dropping it waits until that is done.
    pub fn pull(&mut self) {
        self.shell.stdin = None;
    }
}

impl Drop for Leash {
    fn drop(&mut self) {
        self.pull();
        let _ = self.shell.wait();
        // Only where somebody ended the shell.
        if let Some(folder) = &self.folder {
            let _ = std::fs::remove_dir_all(folder);
        }
    }
}
