//! `worker`: how it is set, and how it ends.

use std::{
    io::{BufRead, BufReader, Read},
    process::{Child, ChildStdout, Command, ExitStatus, Stdio},
    time::{Duration, Instant},
};

use jobs_core::{Admin, Job, State};
use jobs_testkit::kit;

use crate::{
    app::{RUNS, WITHOUT},
    place::{Place, state, until},
};

crate::tests![crate::ALL;
    sigterm_drains,
    a_second_signal_ends_at_once,
    what_ignores_the_grace_is_left,
    without_handlers_it_refuses,
    bad_words_are_refused,
    the_command_line_goes_before_the_code,
];

/// A worker process, ended with this.
struct Process {
    child: Child,
    out: BufReader<ChildStdout>,
}

impl Process {
    fn start(place: &Place, words: &str) -> Self {
        let mut command = place.command(words);
        let mut child =
            command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
        let out = BufReader::new(child.stdout.take().expect("it is piped"));
        Self { child, out }
    }

    /// Waits for a handler to start.
    fn runs(&mut self) {
        let mut line = String::new();
        while !line.contains(RUNS) {
            line.clear();
            assert!(self.out.read_line(&mut line).expect("text") > 0, "{}", self.said());
        }
    }

    fn signal(&self, name: &str) {
        let id = self.child.id().to_string();
        let sent = Command::new("kill").args([&format!("-{name}"), &id]).status();
        assert!(sent.expect("the kill command").success());
    }

    fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().expect("a child")
    }

    /// Its exit status and what it said last.
    fn end(&mut self) -> (Option<i32>, String) {
        let start = Instant::now();
        while self.ended().is_none() {
            assert!(start.elapsed() < Duration::from_secs(60), "it does not end");
            std::thread::sleep(Duration::from_millis(20));
        }
        (self.ended().and_then(|status| status.code()), self.said())
    }

    fn said(&mut self) -> String {
        let mut said = String::new();
        let stderr = self.child.stderr.as_mut().expect("it is piped");
        stderr.read_to_string(&mut said).expect("text");
        said
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

async fn push(store: &dyn Admin, name: &str) -> Job {
    kit::push(store, Job { name: name.into(), ..kit::job("acme") }).await
}

async fn sigterm_drains(place: &Place) {
    let store = place.store().await;
    let job = push(&*store, "waits").await;
    let mut process = Process::start(place, "worker");
    process.runs();
    process.signal("TERM");
    let (status, said) = process.end();
    assert_eq!(status, Some(0), "{said}");
    let last = "worker: told to stop, and drained: 1 run settled, nothing left (exit status 0)\n";
    assert!(said.ends_with(last), "{said}");
    assert_eq!(state(&*store, &job.job_ref()).await, Some(State::Done));
}

async fn a_second_signal_ends_at_once(place: &Place) {
    let store = place.store().await;
    push(&*store, "hangs").await;
    let mut process = Process::start(place, "worker --grace 1h");
    process.runs();
    process.signal("TERM");
    while process.ended().is_none() {
        // Two that come at once are one.
        std::thread::sleep(Duration::from_millis(300));
        if process.ended().is_none() {
            process.signal("INT");
        }
    }
    let (status, said) = process.end();
    assert_eq!(status, Some(130), "{said}");
    assert!(said.contains("worker: a second signal ended it at once"), "{said}");
}

/// A handler that blocks its thread cannot be dropped.
async fn what_ignores_the_grace_is_left(place: &Place) {
    let store = place.store().await;
    let job = push(&*store, "blocks").await;
    let mut process = Process::start(place, "worker --grace 100ms --lease 1s --concurrency 1");
    process.runs();
    process.signal("INT");
    let (status, said) = process.end();
    assert_eq!(status, Some(3), "{said}");
    assert!(
        said.contains("1 job left, to run again after the lease; 1 handler did not end"),
        "{said}"
    );
    assert_eq!(state(&*store, &job.job_ref()).await, Some(State::Running));
}

async fn without_handlers_it_refuses(place: &Place) {
    place.store().await;
    let ran = place.run_with(WITHOUT, "handlers", "worker");
    ran.says(2, &["it did not start: the worker has no handlers: register one with .handle(…)"]);
    let ran = place.run_with(WITHOUT, "worker", "worker");
    ran.says(2, &["has nothing that runs jobs", ".worker(|store| Worker::new(store).handle(…))"]);
}

async fn bad_words_are_refused(place: &Place) {
    for (words, why) in [
        ("--queue Mail", "a name is [a-z0-9]"),
        ("--queue mail=0", "a weight is a whole number from 1 on"),
        ("--concurrency 0", "0 is not in 1.."),
        ("--lease 10", "write 30s, 10m or 1h30m"),
        ("--lease 2h", "outside 1 s to 1 h"),
        ("--grace soon", "write 30s, 10m or 1h30m"),
    ] {
        place.run(&format!("worker {words}")).says(2, &[why]);
    }
    place.store().await;
    let twice = place.run("worker --queue mail --queue mail=2");
    twice.says(2, &["the queue mail is named twice"]);
    let help = place.run("worker --help");
    help.says(0, &["--queue", "--grace", "Exit status:", "130"]);
}

/// The code says the queue `work`; the command line says others.
async fn the_command_line_goes_before_the_code(place: &Place) {
    let store = place.store().await;
    let left = push(&*store, kit::NAME).await;
    let taken = kit::push(&*store, kit::job("acme").on("mail")).await;
    let words = "worker --queue mail=3 --queue slow --concurrency 2 --label here";
    let mut process = Process::start(place, words);
    process.runs();
    until("done", || async { state(&*store, &taken.job_ref()).await == Some(State::Done) }).await;
    let workers = store.workers(&kit::operator().await).await.expect("the store answers");
    let worker = &workers[0].worker;
    assert_eq!((workers.len(), worker.slots, worker.label.as_str()), (1, 2, "here"));
    assert_eq!(worker.queues, ["mail", "slow"]);
    process.signal("TERM");
    assert_eq!(process.end().0, Some(0));
    assert_eq!(state(&*store, &left.job_ref()).await, Some(State::Ready));
}
