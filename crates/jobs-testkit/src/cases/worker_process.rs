//! Cases: worker processes, and how they die. Each starts this test's own program again as a
//! worker on the same namespace, and ends only what it started.

use std::{
    io::{BufRead, BufReader},
    process::{Child, Command, ExitStatus, Stdio},
    time::{Duration, Instant},
};

use jobs_core::{
    State, Worker,
    worker::{Context, Failure},
};
use tokio::time::sleep;

use super::{
    Case,
    worker_help::{Work, look, push_all, short, state, until, work, worker},
};
use crate::{
    fixture::Fixture,
    harness::CHILD,
    kit::{Kit, push},
};

macro_rules! process_cases {
    ($($name:ident),* $(,)?) => {
        /// The cases of this file.
        pub(crate) const CASES: &[Case] = &[$(Case {
            name: stringify!($name),
            crosses_processes: true,
            run: |kit| Box::pin($name(kit)),
        }),*];
    };
}

process_cases![
    x2_a_killed_workers_jobs_run_again,
    r7_one_aborting_job_among_500,
    k8_sigterm_drains_a_process,
    k8_a_second_signal_ends_at_once,
];

/// The job that kills its process.
const POISON: u64 = 250;

/// What a handler says when it starts. That the store calls the job running is earlier: its worker
/// may not know yet, and give it back unstarted when it is told to stop.
const RUNS: &str = "a handler runs";

/// What a child does; answers its exit status.
pub(crate) async fn child(fixture: &dyn Fixture, scenario: &str, namespace: &str) -> u8 {
    let store = fixture.make(namespace, Default::default()).await;
    let ended = match scenario {
        "hangs" => hangs(worker(store)).run().await,
        "aborts" => aborts(worker(store)).run_until_idle().await,
        "drains" => drains(worker(store)).run().await,
        _ => unreachable!("no scenario {scenario}"),
    };
    jobs_core::worker::exit_code(&ended)
}

fn hangs(worker: Worker) -> Worker {
    worker.lease(short()).handle(async |_: Context, _: Work| {
        println!("{RUNS}");
        std::future::pending::<()>().await;
        Ok::<(), Failure>(())
    })
}

fn aborts(worker: Worker) -> Worker {
    worker.lease(short()).handle(async |_: Context, Work(number): Work| {
        if number == POISON {
            std::process::abort();
        }
        Ok::<(), Failure>(())
    })
}

fn drains(worker: Worker) -> Worker {
    worker.lease(short()).handle(async |context: Context, _: Work| {
        println!("{RUNS}");
        context.shutting_down().await;
        sleep(Duration::from_secs(2)).await;
        Ok::<(), Failure>(())
    })
}

/// A child process, ended with this.
struct Process(Child);

impl Process {
    fn start(kit: &Kit, scenario: &str) -> Self {
        let program = std::env::current_exe().expect("this program");
        let mut command = Command::new(program);
        command.env(CHILD, format!("{scenario},{}", kit.namespace)).stdin(Stdio::null());
        command.stdout(Stdio::piped()).stderr(Stdio::null());
        command.envs(kit.fixture.child_environment());
        Self(command.spawn().expect("a child"))
    }

    /// Waits for its first handler to start.
    async fn runs(&mut self) {
        let mut said = BufReader::new(self.0.stdout.take().expect("it is piped"));
        let heard = tokio::task::spawn_blocking(move || {
            let mut line = String::new();
            while !line.contains(RUNS) {
                line.clear();
                assert!(said.read_line(&mut line).expect("text") > 0, "it ends before it runs");
            }
            said
        });
        // It is kept, or the child would write to nobody.
        self.0.stdout = Some(heard.await.expect("it runs").into_inner());
    }

    fn ended(&mut self) -> Option<ExitStatus> {
        self.0.try_wait().expect("a child")
    }

    async fn end(&mut self) -> ExitStatus {
        let start = Instant::now();
        loop {
            if let Some(status) = self.ended() {
                return status;
            }
            assert!(start.elapsed() < Duration::from_secs(60), "the child does not end");
            sleep(Duration::from_millis(20)).await;
        }
    }

    fn signal(&self, name: &str) {
        let signal = format!("-{name}");
        let sent = Command::new("kill").args([signal, self.0.id().to_string()]).status();
        assert!(sent.expect("the kill command").success());
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// SIGKILL in the middle of a job: another worker runs it within lease + 10 s, as attempt 2.
async fn x2_a_killed_workers_jobs_run_again(kit: &Kit) {
    let store = kit.handle().await;
    let job = push(&*store, work("acme", 1)).await;
    let mut killed = Process::start(kit, "hangs");
    killed.runs().await;
    killed.0.kill().expect("killed");
    killed.end().await;
    let start = Instant::now();
    let done =
        async { until("done", || async { state(&*store, &job).await == State::Done }).await };
    let handler = async |context: Context, _: Work| {
        assert_eq!(context.attempt(), 2);
        Ok::<(), Failure>(())
    };
    let ended = worker(store.clone()).lease(short()).handle(handler).run_until(done).await;
    assert_eq!(ended.expect("it starts").exit_code(), 0);
    assert!(start.elapsed() < Duration::from_secs(11), "{:?}", start.elapsed());
    assert_eq!(look(&*store, &job).await.view.attempt, 2);
}

/// It takes others down with it, but none of them for good: in the end it runs alone.
async fn r7_one_aborting_job_among_500(kit: &Kit) {
    let store = kit.handle().await;
    // The others have fewer attempts than the one that kills, so they come to their last before it.
    let attempts = |number| if number == POISON { 5 } else { [2, 3, 5][number as usize % 3] };
    let job = |number| work("acme", number).max_attempts(attempts(number));
    let jobs: Vec<_> = (0..501).map(job).collect();
    push_all(&*store, &jobs).await;
    let mut deaths = 0;
    while !Process::start(kit, "aborts").end().await.success() {
        deaths += 1;
        assert!(deaths <= 5, "five attempts, five deaths");
        // What the dead one held is over.
        kit.age_secs(2).await;
        store.sweep().await.expect("the store answers");
    }
    for (number, job) in jobs.iter().enumerate() {
        let poison = number as u64 == POISON;
        let expected = if poison { State::Parked } else { State::Done };
        assert_eq!(state(&*store, job).await, expected, "job {number}");
    }
    assert_eq!(deaths, 5);
}

/// SIGTERM while a job runs: it finishes, longer than its lease, and the process exits 0.
async fn k8_sigterm_drains_a_process(kit: &Kit) {
    let store = kit.handle().await;
    let job = push(&*store, work("acme", 1)).await;
    let mut process = Process::start(kit, "drains");
    process.runs().await;
    process.signal("TERM");
    assert_eq!(process.end().await.code(), Some(0));
    let record = look(&*store, &job).await;
    assert_eq!((record.view.state, record.view.attempt), (State::Done, 1));
}

/// The grace period is 25 s; the second signal does not wait for it.
async fn k8_a_second_signal_ends_at_once(kit: &Kit) {
    let store = kit.handle().await;
    push(&*store, work("acme", 1)).await;
    let mut process = Process::start(kit, "hangs");
    process.runs().await;
    let start = Instant::now();
    process.signal("TERM");
    while process.ended().is_none() {
        // Two that come at once are one.
        sleep(Duration::from_millis(300)).await;
        if process.ended().is_none() {
            process.signal("INT");
        }
    }
    assert_eq!(process.end().await.code(), Some(130));
    assert!(start.elapsed() < Duration::from_secs(15), "{:?}", start.elapsed());
}
