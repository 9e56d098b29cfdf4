//! `worker`: runs jobs, and says why it ended.

use std::time::Duration;

use clap::Args;
use jobs_core::{
    StartError, Worker,
    queue::Lease,
    worker::{Ended, How, exit_code},
};

use crate::{
    command::{duration, name},
    text::count,
};

/// For the help, and for a process manager.
pub(crate) const STATUSES: &str = "\
Exit status:
  0    told to stop, and drained
  1    the worker itself failed
  2    refused to start
  3    told to stop, and a job was left to its lease
  130  a second signal ended it at once

A process manager should start it again after 1 and 3, and wait for --grace, --lease and 5 seconds
together (50 seconds unless they are set) before it kills.";

/// What is set here goes before what the application set.
#[derive(Debug, Default, Args)]
pub struct WorkerArgs {
    /// Work this queue, and no other that is not named; more than once, each with its share of the
    /// work against the others [default: the queues of the application's jobs]
    #[arg(long = "queue", value_name = "NAME[=WEIGHT]", value_parser = queue)]
    queues: Vec<(String, u32)>,
    /// How many jobs run at once [default: the application's, else 4]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    concurrency: Option<u32>,
    /// After how long a silent worker's jobs run elsewhere, 1s to 1h [default: the application's,
    /// else 20s]
    #[arg(long, value_name = "TIME", value_parser = lease)]
    lease: Option<Lease>,
    /// How long jobs may go on after a signal [default: the application's, else 25s]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    grace: Option<Duration>,
    /// A name for people, shown beside its jobs
    #[arg(long)]
    label: Option<String>,
}

impl WorkerArgs {
    /// The application's worker, as the command line has it.
    pub(crate) fn set(self, worker: Worker) -> Worker {
        let Self { queues, concurrency, lease, grace, label } = self;
        let worker = if queues.is_empty() { worker } else { worker.only_queues(queues) };
        let worker = concurrency.into_iter().fold(worker, |w, n| w.concurrency(n as usize));
        let worker = lease.into_iter().fold(worker, Worker::lease);
        let worker = grace.into_iter().fold(worker, Worker::grace);
        label.into_iter().fold(worker, Worker::label)
    }
}

/// Runs it to its end; the exit status, and why.
pub(crate) async fn run(worker: Worker) -> (u8, String) {
    let ended = worker.run().await;
    (exit_code(&ended), in_words(&ended))
}

fn in_words(ended: &Result<Ended, StartError>) -> String {
    let status = exit_code(ended);
    let why = match ended {
        Err(refused) => format!("it did not start: {refused}"),
        Ok(Ended { how, settled, left, stuck }) => {
            let ran = count(*settled, "run");
            match how {
                How::Stopped if left + stuck == 0 => {
                    format!("told to stop, and drained: {ran} settled, nothing left")
                }
                How::Stopped => {
                    let (left, stuck) =
                        (count(*left as u64, "job"), count(*stuck as u64, "handler"));
                    format!(
                        "told to stop: {ran} settled; {left} left, to run again after the lease; \
                         {stuck} did not end"
                    )
                }
                How::SecondSignal => format!(
                    "a second signal ended it at once: {ran} settled, what ran runs again when its \
                     lease is over"
                ),
                How::Failed(what) => format!("it failed after {ran}: {what}"),
                other => format!("{other:?} after {ran}"),
            }
        }
    };
    format!("worker: {why} (exit status {status})")
}

fn queue(text: &str) -> Result<(String, u32), String> {
    let (queue, weight) = text.split_once('=').unwrap_or((text, "1"));
    let weight = weight.parse().ok().filter(|weight| *weight > 0);
    let weight = weight.ok_or("a weight is a whole number from 1 on: mail=3")?;
    Ok((name(queue)?, weight))
}

fn lease(text: &str) -> Result<Lease, String> {
    Lease::new(duration(text)?).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_is_told() {
        let say = |how: How, left, stuck| in_words(&Ok(Ended { how, settled: 2, left, stuck }));
        let words = say(How::Stopped, 0, 0);
        assert!(words.contains("drained: 2 runs settled") && words.ends_with("(exit status 0)"));
        let words = say(How::Stopped, 1, 0);
        assert!(
            words.contains("1 job left, to run again") && words.ends_with("(exit status 3)"),
            "{words}"
        );
        let words = say(How::SecondSignal, 0, 0);
        assert!(words.ends_with("(exit status 130)"), "{words}");
        let words = say(How::Failed("the thread died".into()), 0, 0);
        assert!(words.contains("the thread died") && words.ends_with("(exit status 1)"), "{words}");
        let words = in_words(&Err(StartError::NoHandlers));
        assert!(words.contains("no handlers") && words.ends_with("(exit status 2)"), "{words}");
    }

    #[test]
    fn queues_have_weights() {
        assert_eq!(queue("mail=3"), Ok(("mail".to_owned(), 3)));
        assert_eq!(queue("mail"), Ok(("mail".to_owned(), 1)));
        for bad in ["mail=0", "mail=", "mail=-1", "Mail", "", "=1"] {
            assert!(queue(bad).is_err(), "{bad}");
        }
        assert!(lease("500ms").is_err() && lease("1s").is_ok() && lease("2h").is_err());
    }
}
