//! One server process of our own.

use std::{
    fs::File,
    io::{self, BufRead, BufReader, PipeReader, Write},
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::mpsc::{self, Receiver, RecvTimeoutError, Sender},
    thread::JoinHandle,
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process};

use crate::{Result, leash::Leash};

/// No server takes longer to start; one that recovers after a kill needs seconds.
const PATIENCE: Duration = Duration::from_secs(60);

/// How a kind of server is started and known to be ready.
pub struct Kind {
    /// For reports.
    pub name: &'static str,
    /// A line of its log that contains this says that it takes connections.
    pub ready: &'static str,
    /// The signal at which it ends at once, without saving what is thrown away anyway.
    pub end: Signal,
}

/// A server with a folder of its own, running or not. Dropped, it is ended and the folder removed.
pub struct Process {
    kind: &'static Kind,
    folder: PathBuf,
    running: Option<Running>,
    leash: Leash,
}

struct Running {
    child: Child,
    /// Hangs up when every process that had the server's output has gone.
    gone: Receiver<()>,
    writer: JoinHandle<()>,
}

impl Process {
    /// A server that does not run yet; `folder` becomes its own.
    pub fn new(kind: &'static Kind, folder: PathBuf) -> Result<Self> {
        let leash = Leash::new(kind.end, Some(&folder))?;
        Ok(Self { kind, folder, running: None, leash })
    }

    /// Where its files are.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// All that it said, over all its starts.
    pub fn log(&self) -> PathBuf {
        self.folder.join("log")
    }

    /// Its process number, while it runs.
    pub fn id(&self) -> Option<u32> {
        self.running.as_ref().map(|running| running.child.id())
    }

    /// Starts it and waits until its log says that it is ready.
    pub fn start(&mut self, mut command: Command) -> Result {
        let name = self.kind.name;
        if self.running.is_some() {
            return Err(format!("{name} runs already"));
        }
        let said = |error: io::Error| format!("{name} does not start: {error}");
        let log = File::options().create(true).append(true).open(self.log()).map_err(said)?;
        let before = log.metadata().map_err(said)?.len();
        let (output, input) = io::pipe().map_err(said)?;
        command.stdin(Stdio::null()).stdout(input.try_clone().map_err(said)?).stderr(input);
        // Ctrl-C in a terminal goes to the whole group of its owner, which may still need it.
        let child = command.process_group(0).current_dir(&self.folder).spawn().map_err(said)?;
        // It holds ends of the pipe.
        drop(command);
        self.leash.hold(&child);
        let (ready, is_ready) = mpsc::channel();
        let (here, gone) = mpsc::channel();
        let line = self.kind.ready;
        let writer = std::thread::spawn(move || write(output, log, line, &ready, here));
        self.running = Some(Running { child, gone, writer });
        let why = match is_ready.recv_timeout(PATIENCE) {
            Ok(()) => return Ok(()),
            Err(RecvTimeoutError::Timeout) => format!("was not ready after {PATIENCE:?}"),
            Err(RecvTimeoutError::Disconnected) => "ended before it was ready".to_owned(),
        };
        // It has failed already, and that is what is told.
        let _ = self.signal_and_wait(Signal::KILL);
        Err(format!("{name} {why}; it said:\n{}", tail(&self.log(), before)))
    }

    /// Sends it a signal at which it ends, and waits until the last process of it has gone.
    pub fn signal_and_wait(&mut self, signal: Signal) -> Result {
        let name = self.kind.name;
        let Some(mut running) = self.running.take() else {
            return Err(format!("{name} does not run"));
        };
        // Where it has ended by itself there is nothing to send it to.
        let _ = kill_process(Pid::from_child(&running.child), signal);
        let gone = running.gone.recv_timeout(PATIENCE);
        if gone == Err(RecvTimeoutError::Timeout) {
            self.running = Some(running);
            return Err(format!("{name} was still there {PATIENCE:?} after {signal:?}"));
        }
        self.leash.let_go();
        let _ = running.writer.join();
        running.child.wait().map(drop).map_err(|error| format!("{name}: {error}"))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.leash.pull();
        if let Some(mut running) = self.running.take() {
            // The leash does this too, if nobody has ended its shell. Its status is taken here,
            // or it would not be seen to be gone.
            let _ = kill_process(Pid::from_child(&running.child), self.kind.end);
            let _ = running.child.wait();
        }
    }
}

/// Writes the output down until it ends, and tells of the line that says `ready`.
///
/// `here` is dropped when the last process that has the server's output has gone: a server's
/// children inherit it, and may outlive a killed parent for a moment.
fn write(output: PipeReader, mut log: File, line: &str, ready: &Sender<()>, here: Sender<()>) {
    let mut output = BufReader::new(output);
    let mut said = Vec::new();
    while output.read_until(b'\n', &mut said).is_ok_and(|read| read > 0) {
        // A full disk loses the log, not the server.
        let _ = log.write_all(&said);
        if String::from_utf8_lossy(&said).contains(line) {
            // Nobody listens the second time.
            let _ = ready.send(());
        }
        said.clear();
    }
    drop(here);
}

/// The last lines of what it said since `from`.
fn tail(log: &Path, from: u64) -> String {
    let text = std::fs::read(log).unwrap_or_default();
    let text = text.get(usize::try_from(from).unwrap_or(0)..).unwrap_or_default();
    let text = String::from_utf8_lossy(text);
    let lines: Vec<_> = text.lines().collect();
    lines[lines.len().saturating_sub(20)..].join("\n")
}
