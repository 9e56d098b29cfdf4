//! What README, ARCHITECTURE and CONTRIBUTING say is true: their paths, cases and commands exist.

use std::{collections::BTreeSet, process::Command};

mod files;
use files::{read, root, walk};

const PAGES: [&str; 3] = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"];
/// The README's only commands: the first job, and all tests.
const COMMANDS: [&str; 2] = ["cargo run -p quickstart", "cargo xtask test --install"];

/// What stands between single backticks, outside code blocks.
fn quoted(page: &str) -> Vec<String> {
    let outside = page.split("```").step_by(2);
    let quoted = outside.flat_map(|text| text.split('`').skip(1).step_by(2));
    quoted.map(str::to_owned).collect()
}

/// Targets of `[text](target)`.
fn links(page: &str) -> Vec<String> {
    let targets = page.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    targets.filter(|target| !target.starts_with("http")).map(str::to_owned).collect()
}

/// `s2_stale_writes_are_lost`: a law's letter and number, and words.
fn is_case(word: &str) -> bool {
    let mut parts = word.split('_');
    let law = parts.next().unwrap_or_default();
    let numbered = law.len() >= 2 && law[1..].bytes().all(|byte| byte.is_ascii_digit());
    let plain = word.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_');
    plain && numbered && law.as_bytes()[0].is_ascii_lowercase() && parts.next().is_some()
}

/// Something with a folder in it, or a file at the root; a `*` or `<name>` stands for many.
fn is_path(word: &str) -> bool {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"._-/".contains(&b);
    let file = |end: &str| word.ends_with(end);
    word.bytes().all(plain) && (word.contains('/') || file(".rs") || file(".md") || file(".toml"))
}

#[test]
fn every_path_exists() {
    let mut missing = Vec::new();
    for page in PAGES {
        let text = read(page);
        let mut paths = links(&text);
        paths.extend(quoted(&text).into_iter().filter(|word| is_path(word)));
        assert!(!paths.is_empty(), "{page} names no file");
        paths.retain(|path| !root().join(path.split('#').next().unwrap()).exists());
        missing.extend(paths.into_iter().map(|path| format!("{page}: {path}")));
    }
    assert_eq!(missing, [""; 0]);
}

#[test]
fn every_case_exists() {
    let sources =
        walk(&root().join("crates")).into_iter().filter(|p| p.to_string_lossy().ends_with(".rs"));
    let functions: BTreeSet<String> = sources
        .flat_map(|path| {
            let text = std::fs::read_to_string(path).unwrap();
            let names = text.split("fn ").skip(1).filter_map(|rest| rest.split(['(', '<']).next());
            names.map(str::to_owned).collect::<Vec<_>>()
        })
        .collect();
    let mut missing = Vec::new();
    for page in PAGES {
        let cases = quoted(&read(page)).into_iter().filter(|word| is_case(word));
        let unknown = cases.filter(|case| !functions.contains(case));
        missing.extend(unknown.map(|case| format!("{page}: {case}")));
    }
    assert_eq!(missing, [""; 0]);
}

#[test]
fn the_readmes_commands_are_the_ones_that_ci_runs() {
    let readme = read("README.md");
    let blocks = readme.split("```").skip(1).step_by(2);
    let shell = blocks.filter_map(|block| block.strip_prefix("sh\n"));
    let commands: Vec<&str> = shell.flat_map(str::lines).collect();
    assert_eq!(commands, COMMANDS);
    let ci = read(".ci/run");
    assert_eq!(ci.lines().next_back(), Some(COMMANDS[1]), "CI ends with the same test command");
}

/// The other command is the one that runs this test.
#[test]
fn the_readmes_first_command_runs_the_first_job() {
    // Below the workspace, so that cargo finds it, in a folder that a fresh clone ignores.
    let folder = root().join("target/readme");
    std::fs::create_dir_all(&folder).unwrap();
    let mut words = COMMANDS[0].split(' ');
    assert_eq!(words.next(), Some("cargo"));
    let output = Command::new(env!("CARGO")).current_dir(&folder).args(words).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let complained = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}{complained}");
    assert!(said.ends_with("Run me again: history survives.\n"), "{said}");
}

#[test]
fn words_are_told_apart() {
    assert!(is_case("s2_stale_writes_are_lost") && is_case("k10_identity"));
    assert!(!is_case("jobs_core") && !is_case("s2") && !is_case("S2_x") && !is_case("u64"));
    assert!(is_path("crates/jobs-core/src/queue.rs") && is_path("README.md") && is_path(".ci/run"));
    assert!(!is_path("2·T·b") && !is_path("cargo test") && !is_path("jobs_core::Queue"));
}
