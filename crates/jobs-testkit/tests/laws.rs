//! Laws and cases name each other: every case that the contract's docs name exists, every case
//! stands in a bullet of its own law, and no law is without one.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use jobs_testkit::cases;

/// The laws of the contract.
const LAWS: [(char, std::ops::RangeInclusive<u8>); 10] = [
    ('G', 1..=6),
    ('P', 1..=7),
    ('R', 1..=8),
    ('S', 1..=5),
    ('X', 1..=2),
    ('A', 1..=7),
    ('N', 1..=2),
    ('F', 1..=1),
    ('H', 1..=1),
    ('K', 1..=11),
];

/// Laws that may still lack cases named in the docs.
const AWAITED: [&str; 0] = [];

/// One bullet of a doc comment, or a paragraph between bullets.
struct Passage {
    place: String,
    text: String,
}

#[test]
fn every_named_case_exists() {
    let known = known_cases();
    let passages = passages();
    let named = passages.iter().flat_map(|passage| names(&passage.text).map(move |n| (passage, n)));
    let missing: Vec<_> = named
        .filter(|(_, name)| !known.contains(name) && !awaited(name))
        .map(|(passage, name)| format!("{}: there is no case {name}", passage.place))
        .collect();
    assert!(missing.is_empty(), "\n{}", missing.join("\n"));
}

#[test]
fn every_case_stands_in_a_bullet_of_its_law() {
    let passages = passages();
    let stands = |case: &str| {
        passages.iter().any(|passage| {
            let named = names(&passage.text).any(|name| name == case);
            // Cases of no law (q0) have no word in bold.
            named && law_of(case).is_none_or(|law| passage.text.contains(&format!("**{law}**")))
        })
    };
    let homeless: Vec<_> =
        cases::all().map(|case| case.name).filter(|case| !stands(case)).collect();
    assert!(homeless.is_empty(), "in no bullet of their law:\n{}", homeless.join("\n"));
}

#[test]
fn no_law_is_without_a_case() {
    let (passages, known) = (passages(), known_cases());
    let named = passages.iter().flat_map(|passage| names(&passage.text));
    let proven: BTreeSet<_> =
        named.filter(|name| known.contains(name)).filter_map(|name| law_of(&name)).collect();
    let laws = LAWS
        .into_iter()
        .flat_map(|(letter, numbers)| numbers.map(move |number| format!("{letter}{number}")));
    let missing = |law: &String| !proven.contains(law) && !AWAITED.contains(&law.as_str());
    let unproven: Vec<_> = laws.filter(missing).collect();
    assert!(unproven.is_empty(), "laws without a case: {unproven:?}");
}

fn awaited(case: &str) -> bool {
    law_of(case).is_some_and(|law| AWAITED.contains(&law.as_str()))
}

/// `s3_repeating` → `S3`.
fn law_of(case: &str) -> Option<String> {
    let law = case.split('_').next()?.to_uppercase();
    (law != "Q0").then_some(law)
}

/// The suite's cases, and the tests that are proofs by themselves: programs that must not compile,
/// pure functions, and what one driver alone can show.
fn known_cases() -> BTreeSet<String> {
    let mut known: BTreeSet<_> = cases::all().map(|case| case.name.to_owned()).collect();
    for file in rust_files(&crates()) {
        let text = fs::read_to_string(&file).expect("a readable file");
        let mut lines = text.lines().map(str::trim).peekable();
        while let Some(line) = lines.next() {
            let test = line.starts_with("#[test]") || line.starts_with("#[tokio::test");
            let Some(next) = lines.peek().filter(|_| test) else { continue };
            let name = next.trim_start_matches("async ").trim_start_matches("fn ");
            known.insert(name.split('(').next().unwrap_or_default().to_owned());
        }
    }
    known
}

fn crates() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn rust_files(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).expect("a readable folder") {
        let path = entry.expect("a readable entry").path();
        if path.is_dir() && !path.ends_with("target") {
            files.extend(rust_files(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    files
}

/// The doc comments of the contract's crate.
fn passages() -> Vec<Passage> {
    let mut passages: Vec<Passage> = Vec::new();
    for file in rust_files(&crates().join("jobs-core/src")) {
        let text = fs::read_to_string(&file).expect("a readable file");
        let mut open = false;
        for (number, line) in text.lines().enumerate() {
            let line = line.trim();
            let doc = line.strip_prefix("///").or_else(|| line.strip_prefix("//!"));
            let Some(doc) = doc.map(str::trim) else {
                open = false;
                continue;
            };
            let starts = !open || doc.is_empty() || doc.starts_with("- ");
            if starts {
                let name = file.file_name().unwrap_or_default().to_string_lossy();
                let place = format!("{name}:{}", number + 1);
                passages.push(Passage { place, text: String::new() });
            }
            open = true;
            if let Some(passage) = passages.last_mut() {
                passage.text.push_str(doc);
                passage.text.push(' ');
            }
        }
    }
    passages
}

/// The case names in a text: in backticks, a letter, a number, an underscore and more.
fn names(text: &str) -> impl Iterator<Item = String> {
    let quoted = text.split('`').skip(1).step_by(2);
    quoted.filter(|word| is_case(word)).map(str::to_owned)
}

fn is_case(word: &str) -> bool {
    let Some((law, rest)) = word.split_once('_') else { return false };
    let (letter, number) = law.split_at(law.len().min(1));
    letter.chars().all(|c| c.is_ascii_lowercase())
        && !number.is_empty()
        && number.chars().all(|c| c.is_ascii_digit())
        && !rest.is_empty()
        && rest.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
}
