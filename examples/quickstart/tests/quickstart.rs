//! Both programs are run as a newcomer runs them, and say what the README shows.

use std::{
    path::Path,
    process::{Command, Output},
};

fn run(program: &str, folder: &Path, arguments: &[&str]) -> String {
    let output = Command::new(program).current_dir(folder).args(arguments).output();
    words(output.expect("the program starts"))
}

fn words(output: Output) -> String {
    let said = String::from_utf8(output.stdout).expect("text");
    let complained = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}\n{said}{complained}", output.status);
    said
}

/// The id of a job is new in each run.
fn without_ids(said: &str) -> String {
    let is_id = |word: &str| word.len() == 36 && word.matches('-').count() == 4;
    let word = |word: &str| if is_id(word) { "ID".to_owned() } else { word.to_owned() };
    said.split(' ').map(word).collect::<Vec<_>>().join(" ")
}

#[test]
fn history_survives_the_process() {
    let folder = tempfile::tempdir().unwrap();
    let first = run(env!("CARGO_BIN_EXE_quickstart"), folder.path(), &["first.db"]);
    assert_eq!(
        without_ids(&first),
        "Opened first.db.\n\
         The history of acme has 0 jobs.\n\
         ada pushed invoice.send ID for acme: send invoice 1001.\n\
         A push for another tenant was refused: the job says tenant \"globex\", its Grant says \
         \"acme\": leave tenant empty or use Job::new.\n\
         The handler sent invoice 1001, attempt 1, as system on behalf of ada in acme, to do \
         invoice.send only.\n\
         The worker had nothing more to do and stopped.\n\
         The history of acme has 1 job.\n  \
         invoice.send ID by ada: done\n\
         Run me again: history survives.\n"
    );
    let second = run(env!("CARGO_BIN_EXE_quickstart"), folder.path(), &["first.db"]);
    let earlier = first.lines().find(|line| line.starts_with("  invoice.send")).unwrap();
    assert!(second.starts_with("Opened first.db.\nThe history of acme has 1 job.\n"), "{second}");
    assert_eq!(second.matches(earlier).count(), 2, "{second}");
    assert!(second.contains("send invoice 1002.\n"), "{second}");
    assert!(second.contains("The history of acme has 2 jobs.\n"), "{second}");
}

#[test]
fn the_file_is_in_the_current_folder_unless_named() {
    let folder = tempfile::tempdir().unwrap();
    let said = run(env!("CARGO_BIN_EXE_quickstart"), folder.path(), &[]);
    assert!(said.starts_with("Opened quickstart.db.\n"), "{said}");
    assert!(folder.path().join("quickstart.db").exists());
}

#[test]
fn the_readmes_program_is_small_and_says_what_the_readme_says() {
    let readme = include_str!("../../../README.md");
    let blocks: Vec<&str> = readme.split("```").skip(1).step_by(2).collect();
    let program = blocks[0].strip_prefix("rust\n").expect("the first block is the program");
    assert_eq!(program, include_str!("../src/bin/smallest.rs"), "README.md and smallest.rs");
    assert!(program.lines().count() <= 30, "{} lines", program.lines().count());
    let output = blocks[1].strip_prefix("text\n").expect("the second block is its output");
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(run(env!("CARGO_BIN_EXE_smallest"), folder.path(), &[]), output);
}
