//! What the sources are held to, beyond what the compiler and clippy check.

use std::{fs, path::PathBuf, process::Command};

mod files;
use files::{read, root, walk};

/// Longer files hold more than one concept.
const MOST_LINES: usize = 450;

fn with_extension(extensions: &[&str]) -> Vec<PathBuf> {
    let mut found = walk(&root());
    found.retain(|path| path.extension().is_some_and(|is| extensions.iter().any(|e| *e == is)));
    assert!(!found.is_empty(), "no file was looked at");
    found
}

fn names(paths: impl IntoIterator<Item = PathBuf>) -> Vec<String> {
    paths.into_iter().map(|path| path.display().to_string()).collect()
}

#[test]
fn no_file_is_too_long() {
    let long = with_extension(&["rs", "sql", "lua", "md", "sh"]).into_iter().filter_map(|path| {
        let lines = fs::read_to_string(&path).unwrap().lines().count();
        (lines > MOST_LINES).then(|| format!("{} has {lines} lines", path.display()))
    });
    assert_eq!(long.collect::<Vec<_>>(), [""; 0], "split at a concept");
}

#[test]
fn no_test_is_ignored() {
    // In two pieces, so that this file is not found.
    let attribute = concat!("#[", "ignore");
    let fence = concat!("```", "ignore");
    let found = with_extension(&["rs", "md"]).into_iter().filter(|path| {
        let text = fs::read_to_string(path).unwrap();
        text.contains(attribute) || text.contains(fence)
    });
    assert_eq!(names(found), [""; 0], "a test that is never run");
}

#[test]
fn no_case_names_a_driver() {
    let drivers = ["sqlite", "sqlx", "postgres", "mongo", "redis", "fred::"];
    let mut cases = walk(&root().join("crates/jobs-testkit/src/cases"));
    cases.retain(|path| {
        let text = fs::read_to_string(path).unwrap().to_lowercase();
        drivers.iter().any(|driver| text.contains(driver))
    });
    assert_eq!(names(cases), [""; 0], "a case holds for every store");
}

#[test]
fn the_core_knows_no_database() {
    let mut tree = Command::new(env!("CARGO"));
    tree.current_dir(root()).args(["tree", "--locked", "-p", "jobs-core", "-e", "normal"]);
    let output = tree.args(["--prefix", "none"]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("async-trait"), "this is no dependency tree: {text}");
    let databases =
        ["sqlx", "sqlite", "rusqlite", "postgres", "mongodb", "bson", "fred", "redis", "diesel"];
    for package in text.lines().filter_map(|line| line.split_whitespace().next()) {
        let is_database = databases.iter().any(|database| package.contains(database));
        assert!(!is_database, "jobs-core depends on {package}");
    }
}

#[test]
fn drivers_and_stores_of_the_test_command_are_the_same() {
    let stores = read("xtask/src/stores.rs");
    for entry in fs::read_dir(root().join("crates")).unwrap() {
        let package = entry.unwrap().file_name().into_string().unwrap();
        let is_driver = root().join("crates").join(&package).join("tests/conformance.rs").exists();
        let listed = stores.contains(&format!("package: \"{package}\""));
        assert_eq!(is_driver, listed, "{package}: add it to xtask/src/stores.rs");
    }
}
