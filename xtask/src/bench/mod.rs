//! `cargo xtask bench <store>`: the store's benchmark program, once per workload and round.
//!
//! Every run has a fresh store. Rounds go over all workloads, so that whatever else the machine
//! does falls on all alike. JSON lines go to stdout, progress to stderr.
//!
//! | to know | open |
//! |---|---|
//! | which workloads there are, and how large | [`workloads`] |
//! | how one is run | [`program`] |
//! | how another program is measured in turn | [`beside`] |

mod beside;
mod program;
mod workloads;

use std::process::ExitCode;

use clap::{Args, builder::PossibleValuesParser};
use serde_json::{Value, json};

use crate::stores;
use program::{Programs, Run};
use workloads::Workload;

/// What is measured.
#[derive(Args)]
pub struct Options {
    /// Which store.
    #[arg(value_parser = PossibleValuesParser::new(stores::names()))]
    store: String,
    /// Small sizes, one round: done within a minute.
    #[arg(long)]
    quick: bool,
    /// Only the workloads whose name contains this.
    #[arg(long)]
    only: Option<String>,
    /// How often each is run; 3 unless set, 1 with --quick.
    #[arg(long)]
    rounds: Option<usize>,
    /// How many jobs, in the workloads that push or drain.
    #[arg(long)]
    jobs: Option<usize>,
    /// About how many bytes a payload has.
    #[arg(long, default_value_t = 100)]
    payload: usize,
    /// What a commit survives, by the store's own word; its default unless given.
    #[arg(long)]
    durability: Option<String>,
    /// A program that does the same work, with its own arguments: run in turn with ours, and
    /// compared pair by pair.
    #[arg(long, value_name = "PROGRAM AND ARGUMENTS")]
    beside: Option<String>,
    /// The durability of that program, where it does not say it itself.
    #[arg(long, requires = "beside", value_name = "DURABILITY")]
    theirs: Option<String>,
}

impl Options {
    fn rounds(&self) -> usize {
        self.rounds.unwrap_or(if self.quick { 1 } else { 3 }).max(1)
    }

    fn workloads(&self) -> Vec<Workload> {
        let all = workloads::all(self.quick, self.beside.is_some());
        let wanted = |w: &Workload| self.only.as_ref().is_none_or(|only| w.name.contains(only));
        let sized = |mut workload: Workload| {
            if let (Some(jobs), true) = (self.jobs, workload.is_sized()) {
                workload.jobs = jobs;
            }
            workload
        };
        all.into_iter().filter(wanted).map(sized).collect()
    }
}

/// Measures; fails when a run did.
pub fn run(options: &Options) -> ExitCode {
    match measure(options) {
        Ok(0) => ExitCode::SUCCESS,
        Ok(failed) => {
            eprintln!("{failed} runs failed");
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// Answers how many runs failed. One that did must not hide what the others have to say.
fn measure(options: &Options) -> Result<usize, String> {
    let workloads = options.workloads();
    if workloads.is_empty() {
        return Err("no workload has such a name".to_owned());
    }
    let programs = Programs::build(options)?;
    if let Some(other) = &options.beside {
        return Ok(beside::run(options, &programs, &workloads, other));
    }
    let (rounds, mut failed) = (options.rounds(), 0);
    let mut lines: Vec<Vec<Value>> = vec![Vec::new(); workloads.len()];
    for round in 0..rounds {
        for (workload, lines) in workloads.iter().zip(&mut lines) {
            if round > 0 && workload.once {
                continue;
            }
            eprintln!("round {} of {rounds}: {}", round + 1, workload.name);
            match programs.ours(options, workload) {
                Ok(line) => lines.push(line),
                Err(error) => {
                    eprintln!("{}: {error}", workload.name);
                    failed += 1;
                }
            }
        }
    }
    for (workload, lines) in workloads.iter().zip(&lines) {
        print(options, workload, lines);
    }
    Ok(failed)
}

fn print(options: &Options, workload: &Workload, lines: &[Value]) {
    for metric in workload.metrics() {
        let figures: Vec<f64> = lines.iter().filter_map(|line| line.figure(metric.field)).collect();
        let Some(spread) = spread(figures) else { continue };
        let line = json!({
            "store": options.store,
            "durability": lines[0]["durability"],
            "workload": format!("{}{}", workload.name, metric.suffix),
            "jobs": workload.jobs,
            "slots": workload.slots,
            "unit": metric.unit,
            "median": spread.median,
            "min": spread.min,
            "max": spread.max,
            "runs": lines.len(),
        });
        println!("{line}");
    }
}

/// Where figures lie.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Spread {
    median: f64,
    min: f64,
    max: f64,
}

fn spread(mut figures: Vec<f64>) -> Option<Spread> {
    figures.sort_by(f64::total_cmp);
    let (min, max) = (*figures.first()?, *figures.last()?);
    let middle = figures[(figures.len() - 1) / 2] + figures[figures.len() / 2];
    Some(Spread { median: middle / 2.0, min, max })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spread_has_the_middle_and_both_ends() {
        let of = |figures: &[f64]| spread(figures.to_vec());
        assert_eq!(of(&[3.0, 1.0, 8.0]), Some(Spread { median: 3.0, min: 1.0, max: 8.0 }));
        assert_eq!(of(&[4.0, 2.0]), Some(Spread { median: 3.0, min: 2.0, max: 4.0 }));
        assert_eq!(of(&[]), None);
    }
}
