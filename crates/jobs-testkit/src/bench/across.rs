//! Workload: the latency of a worker in another process, which is this program again.

use std::{
    io::{self, BufRead, BufReader, Read, Write},
    process::{Child, ChildStdout, Command, Stdio},
    time::Instant,
};

use jobs_core::Admin;
use tokio::{sync::oneshot, task::spawn_blocking, time::sleep};

use super::{
    Args, Bench, Found, Mode, Result,
    latency::{self, SETTLES},
    work::{Running, Runs, worker},
};

/// What the worker says when it is idle.
const READY: &str = "ready";

/// The pusher.
pub(super) async fn run(store: &dyn Admin, args: &Args) -> Result<Found> {
    let mut process = Process::start(args)?;
    let output = process.output()?;
    let output = spawn_blocking(|| until_ready(output)).await??;
    let start = Instant::now();
    latency::push(store, args).await?;
    let took = start.elapsed();
    // That its input ends tells it to stop.
    drop(process.0.stdin.take());
    let said = spawn_blocking(|| io::read_to_string(output)).await??;
    let status = process.0.wait()?;
    if !status.success() {
        return Err(format!("the worker's process ended badly: {status}").into());
    }
    let (runs, sorted): (usize, Vec<f64>) = serde_json::from_str(&said)?;
    latency::found(args, took, runs, sorted)
}

/// The worker: says that it is ready, and at the end of its input what it ran.
pub(super) async fn child(store: &dyn Bench, args: &Args) -> Result<()> {
    let opened = store.open(&args.url, args.durability(store)?).await?;
    let runs = Runs::new(args.jobs);
    let running = Running::start(worker(opened, args, &runs));
    sleep(SETTLES).await;
    let (told, over) = oneshot::channel();
    // A thread of its own: a runtime would wait for a read that never ends.
    std::thread::spawn(move || {
        let _ = io::copy(&mut io::stdin(), &mut io::sink());
        let _ = told.send(());
    });
    writeln!(io::stdout(), "{READY}")?;
    over.await?;
    let ended = running.stop().await?;
    if ended.exit_code() != 0 {
        return Err(format!("the worker ended badly: {ended:?}").into());
    }
    Ok(writeln!(io::stdout(), "{}", serde_json::to_string(&(runs.total(), runs.latencies()))?)?)
}

fn until_ready(output: ChildStdout) -> Result<impl Read + Send> {
    let (mut output, mut line) = (BufReader::new(output), String::new());
    output.read_line(&mut line)?;
    if line.trim_end() == READY { Ok(output) } else { Err("the worker did not start".into()) }
}

/// A worker's process, ended with this.
struct Process(Child);

impl Process {
    fn start(args: &Args) -> Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["--mode", &Mode::Work.to_string(), "--url", &args.url]);
        for (name, value) in [
            ("--jobs", args.jobs as u64),
            ("--concurrency", args.concurrency as u64),
            ("--names", args.names as u64),
            ("--handler-ms", args.handler_ms),
        ] {
            command.args([name, &value.to_string()]);
        }
        let durability = args.durability.iter().flat_map(|name| ["--durability", name]);
        command.args(durability).stdin(Stdio::piped()).stdout(Stdio::piped());
        Ok(Self(command.spawn()?))
    }

    fn output(&mut self) -> Result<ChildStdout> {
        self.0.stdout.take().ok_or_else(|| "its output is taken".into())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It has ended by itself, unless the run failed.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
