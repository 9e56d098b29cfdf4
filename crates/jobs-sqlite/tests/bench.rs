//! Every workload of the benchmark, small. This program is the benchmark where a test starts it so.

use std::{
    alloc::System,
    collections::HashMap,
    process::{Command, ExitCode, Output},
};

use libtest_mimic::{Arguments, Failed, Trial};
use serde_json::Value;
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

#[path = "../examples/store/mod.rs"]
mod store;

#[global_allocator]
static COUNTED: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

fn main() -> ExitCode {
    if std::env::args().any(|word| word == "--url") {
        let counted = || COUNTED.stats().allocations as u64;
        return jobs_testkit::bench::main_counting(store::Files, counted);
    }
    let tests: [(&str, fn()); 7] = [
        ("pushes_are_stored", pushes_are_stored),
        ("a_drain_counts_each_job_once", a_drain_counts_each_job_once),
        ("latencies_within_and_across_processes", latencies_within_and_across_processes),
        ("reserves_at_a_depth", reserves_at_a_depth),
        ("an_idle_worker_has_a_size", an_idle_worker_has_a_size),
        ("allocations_are_counted", allocations_are_counted),
        ("what_cannot_be_measured_is_an_error", what_cannot_be_measured_is_an_error),
    ];
    let trials = tests.map(|(name, test)| {
        Trial::test(name, move || {
            test();
            Ok::<(), Failed>(())
        })
    });
    libtest_mimic::run(&Arguments::from_args(), trials.into()).exit_code()
}

/// This program as the benchmark.
fn program(path: &std::path::Path, words: &str) -> Output {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.arg("--url").arg(path).args(words.split(' '));
    command.output().expect("it runs")
}

/// The line of a run on a file of its own.
fn bench(words: &str) -> HashMap<String, Value> {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let output = program(&folder.path().join("bench.db"), words);
    assert!(output.status.success(), "{words}: {}", String::from_utf8_lossy(&output.stderr));
    let line: HashMap<String, Value> = serde_json::from_slice(&output.stdout).expect("one line");
    assert_eq!((&line["peer"], &line["durability"]), (&"jobs-sqlite".into(), &"full".into()));
    let mode = words.split(' ').nth(1).expect("a mode first");
    assert_eq!((&line["mode"], &line["payload"]), (&mode.into(), &100.into()));
    assert!(number(&line, "seconds") > 0.0, "{line:?}");
    line
}

fn number(line: &HashMap<String, Value>, field: &str) -> f64 {
    let value = line.get(field).and_then(Value::as_f64);
    value.unwrap_or_else(|| panic!("no number {field} in {line:?}"))
}

fn pushes_are_stored() {
    for mode in ["push-one", "push-bulk"] {
        let line = bench(&format!("--mode {mode} --jobs 30 --concurrency 3"));
        assert_eq!((&line["jobs"], &line["concurrency"]), (&30.into(), &3.into()));
        assert!(number(&line, "jobs_per_s") > 0.0, "{line:?}");
    }
}

fn a_drain_counts_each_job_once() {
    for spread in ["", " --tenants 5 --names 3 --handler-ms 1"] {
        let line = bench(&format!("--mode drain --jobs 100 --concurrency 10{spread}"));
        let counts = ["runs", "distinct", "dups", "left_in_store", "history"];
        assert_eq!(counts.map(|field| number(&line, field)), [100.0, 100.0, 0.0, 0.0, 100.0]);
    }
}

fn latencies_within_and_across_processes() {
    for mode in ["latency", "latency-across"] {
        let line = bench(&format!("--mode {mode} --jobs 10"));
        let of = ["p50_ms", "p95_ms", "p99_ms", "max_ms"].map(|field| number(&line, field));
        assert!(of[0] > 0.0 && of.is_sorted(), "{line:?}");
        assert_eq!((number(&line, "seen"), number(&line, "dups")), (10.0, 0.0));
    }
}

fn reserves_at_a_depth() {
    let line = bench("--mode reserve --jobs 2500 --tenants 50 --names 3");
    assert!(number(&line, "reserve_8_us") > 0.0 && number(&line, "reserve_100_us") > 0.0);
}

fn an_idle_worker_has_a_size() {
    let line = bench("--mode idle --jobs 3000 --seconds 1");
    assert!(number(&line, "rss_mib") > 1.0 && number(&line, "cpu_percent") < 50.0, "{line:?}");
}

fn allocations_are_counted() {
    let line = bench("--mode allocations --jobs 100");
    let (push, run) = (number(&line, "push_allocations"), number(&line, "run_allocations"));
    assert!(push > 1.0 && run > 1.0, "{line:?}");
}

fn what_cannot_be_measured_is_an_error() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let path = folder.path().join("bench.db");
    let said = |words: &str| {
        let output = program(&path, words);
        assert!(!output.status.success() && output.stdout.is_empty(), "{output:?}");
        String::from_utf8(output.stderr).expect("words")
    };
    let words = said("--mode push-one --durability wishful");
    assert!(words.contains("--durability is one of full, normal"), "{words}");
    assert!(program(&path, "--mode push-one --jobs 1").status.success());
    let words = said("--mode drain --jobs 1");
    assert!(words.contains("has jobs: name one without"), "{words}");
}
