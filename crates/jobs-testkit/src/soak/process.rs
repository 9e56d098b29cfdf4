//! The processes of a run: how they are started, signalled, and ended with the one that started
//! them, whatever becomes of it.

use std::{
    fs::File,
    io::{Read, Write},
    os::unix::process::ExitStatusExt,
    path::{Path, PathBuf},
    process::{Child, ChildStdin, Command, ExitStatus, Stdio},
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};

use super::{BROKEN, Done, Trouble};

/// What a process is told on its command line.
#[derive(Clone, Debug, PartialEq)]
pub struct Orders {
    /// `worker` or `producer`.
    pub role: String,
    /// Its name in the ledger.
    pub label: String,
    /// The store.
    pub url: String,
    /// Where the ledger is.
    pub directory: PathBuf,
    /// Of its random choices.
    pub seed: u64,
    /// What goes wrong in it.
    pub trouble: Trouble,
}

/// The first argument of a process of a run.
pub const ROLE: &str = "--soak-role";

impl Orders {
    fn arguments(&self) -> [String; 9] {
        let [once, every] = [self.trouble.cut_after, self.trouble.cut_every]
            .map(|cut| cut.unwrap_or(0).to_string());
        [
            ROLE.to_owned(),
            self.role.clone(),
            self.label.clone(),
            self.url.clone(),
            self.directory.display().to_string(),
            self.seed.to_string(),
            once,
            every,
            self.trouble.clock_off.to_string(),
        ]
    }

    /// From this process's arguments, without the program; `None` when it has no role.
    pub fn read(arguments: &[String]) -> Option<Self> {
        let [first, role, label, url, directory, seed, once, every, clock_off] = arguments else {
            return None;
        };
        if first != ROLE {
            return None;
        }
        let cut = |text: &String| text.parse().ok().map(|cut: usize| (cut > 0).then_some(cut));
        let (cut_after, cut_every) = (cut(once)?, cut(every)?);
        Some(Self {
            role: role.clone(),
            label: label.clone(),
            url: url.clone(),
            directory: PathBuf::from(directory),
            seed: seed.parse().ok()?,
            trouble: Trouble { cut_after, cut_every, clock_off: clock_off.parse().ok()? },
        })
    }
}

/// A child process; dropped, it is killed.
#[derive(Debug)]
pub struct Process {
    /// Its name in the ledger.
    pub label: String,
    child: Child,
    /// It ends when this is closed.
    stdin: Option<ChildStdin>,
}

impl Process {
    /// Starts this program again in a role.
    ///
    /// # Errors
    /// The system's.
    pub fn start(orders: &Orders) -> Done<Self> {
        let said = |error: std::io::Error| format!("{} does not start: {error}", orders.label);
        let program = std::env::current_exe().map_err(said)?;
        let log = orders.directory.join(format!("{}.log", orders.label));
        let log = File::options().create(true).append(true).open(log).map_err(said)?;
        let mut command = Command::new(program);
        command.args(orders.arguments()).stdin(Stdio::piped());
        // Some handlers panic by design, and on a busy machine a backtrace takes the one thread of all
        // handlers for seconds.
        command.env("RUST_BACKTRACE", "0");
        command.stdout(log.try_clone().map_err(said)?).stderr(log);
        let mut child = command.spawn().map_err(said)?;
        let stdin = child.stdin.take();
        Ok(Self { label: orders.label.clone(), child, stdin })
    }

    fn signal(&self, signal: Signal) {
        // It may have ended by itself, which is noticed where its status is read.
        let _ = kill_process(Pid::from_child(&self.child), signal);
    }

    /// Asks it to end in order.
    pub fn terminate(&self) {
        self.signal(Signal::TERM);
    }

    /// Stops it where it is.
    pub fn stop(&self) {
        self.signal(Signal::STOP);
    }

    /// Lets it go on.
    pub fn go_on(&self) {
        self.signal(Signal::CONT);
    }

    /// Ends it at once.
    pub fn kill(&mut self) {
        // As above.
        let _ = self.child.kill();
    }

    /// Tells a producer to finish.
    pub fn finish(&mut self) {
        if let Some(stdin) = &mut self.stdin {
            // As above.
            let _ = stdin.write_all(b"f");
        }
    }

    /// Its status, once it has ended.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// Waits for its end, no longer than `limit`.
    pub async fn end(&mut self, limit: Duration) -> Option<ExitStatus> {
        let until = Instant::now() + limit;
        loop {
            let status = self.ended();
            if status.is_some() || Instant::now() > until {
                return status;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Did it end because somebody killed it? One that crashed just before did not.
pub fn was_killed(status: ExitStatus) -> bool {
    status.signal() == Some(Signal::KILL.as_raw())
}

/// Ends this process when the one that started it is gone: a stopped one by the kernel, where it
/// does that, and any other when its standard input ends. `word` is called for each byte there.
///
/// # Errors
/// The system gives no thread.
pub fn leash(word: impl Fn() + Send + 'static) -> Done {
    #[cfg(target_os = "linux")]
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))
        .map_err(|error| error.to_string())?;
    let hear = move || {
        let mut byte = [0];
        while std::io::stdin().read(&mut byte).is_ok_and(|read| read > 0) {
            word();
        }
        std::process::exit(BROKEN.into());
    };
    let thread = std::thread::Builder::new().name("soak-leash".to_owned()).spawn(hear);
    thread.map(drop).map_err(|error| error.to_string())
}

/// Files of a directory by name.
pub fn files(directory: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let mut names: Vec<_> =
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort_unstable();
    names
}

#[cfg(test)]
mod tests {
    use rustix::process::{WaitId, WaitIdOptions, waitid};

    use super::*;

    fn child(script: &str) -> Process {
        let mut command = Command::new("sh");
        let child = command.args(["-c", script]).stdin(Stdio::piped()).spawn().unwrap();
        Process { label: "w0.1".into(), child, stdin: None }
    }

    #[tokio::test]
    async fn a_crash_is_no_kill() {
        for (script, clean) in [("exit 3", false), ("kill -ABRT $$", false), ("cat", true)] {
            let mut process = child(script);
            if !clean {
                // Dead and not waited for, as in the moment before it is killed.
                let pid = Pid::from_child(&process.child);
                let dead = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
                waitid(WaitId::Pid(pid), dead).unwrap();
            }
            process.kill();
            let status = process.end(Duration::from_secs(10)).await.unwrap();
            assert_eq!(was_killed(status), clean, "{script}: {status}");
        }
    }

    #[test]
    fn orders_arrive() {
        for (cut_after, cut_every) in [(None, None), (Some(3), None), (None, Some(4))] {
            let orders = Orders {
                role: "worker".into(),
                label: "w1".into(),
                url: "store://here".into(),
                directory: "/tmp/x y".into(),
                seed: u64::MAX,
                trouble: Trouble { cut_after, cut_every, clock_off: -5 },
            };
            assert_eq!(Orders::read(&orders.arguments()), Some(orders));
        }
        assert_eq!(Orders::read(&["--minutes".into()]), None);
    }
}
