//! Counts what `cargo test` says, line by line.
//!
//! Read are the headings by which cargo announces a test binary, and the `test result:` lines by
//! which libtest, rustdoc and libtest-mimic all end one. A binary that was announced and gave no
//! result died or tested nothing; both are failures here, and so is a skipped test.

use std::fmt;

/// The counts so far.
#[derive(Debug, Default)]
pub struct Tally {
    passed: u64,
    failed: u64,
    /// The announced binary that gave no result yet.
    open: Option<String>,
    /// What failed, in words.
    findings: Vec<String>,
    /// How long each binary's tests took, in seconds.
    took: Vec<(f64, String)>,
}

impl Tally {
    /// Looks at one line of output.
    pub fn line(&mut self, line: &str) {
        // Cargo right-aligns its verb to twelve columns, which a test's own words do not.
        let heading = ["     Running ", "   Doc-tests "].iter().find_map(|h| line.strip_prefix(h));
        if let Some(binary) = heading {
            self.close();
            self.open = Some(binary.to_owned());
        } else if let Some(test) = failed(line) {
            let binary = self.binary();
            self.findings.push(format!("{test} failed in {binary}"));
        } else if let Some(result) = line.strip_prefix("test result: ") {
            let binary = self.binary();
            let took = result
                .rsplit_once("finished in ")
                .and_then(|(_, took)| took.strip_suffix('s').and_then(|took| took.parse().ok()));
            self.took.extend(took.map(|took| (took, binary.clone())));
            let count = |word| count(result, word);
            self.passed += count("passed");
            self.failed += count("failed");
            for word in ["ignored", "filtered out"] {
                let skipped = count(word);
                if skipped > 0 {
                    self.findings.push(format!("{skipped} tests were {word} in {binary}"));
                    self.failed += skipped;
                }
            }
            self.open = None;
        }
    }

    /// The output is over, and this is whether cargo was content.
    pub fn end(&mut self, success: bool) {
        self.close();
        if !success && self.failed == 0 {
            self.fail("cargo test failed before a test did".to_owned());
        }
        if self.passed + self.failed == 0 {
            self.fail("no test ran".to_owned());
        }
    }

    /// Something failed that is no test.
    pub fn fail(&mut self, finding: String) {
        self.failed += 1;
        self.findings.push(finding);
    }

    /// What failed, in words.
    pub fn findings(&self) -> &[String] {
        &self.findings
    }

    /// Did something pass and nothing fail?
    pub fn is_good(&self) -> bool {
        self.failed == 0 && self.passed > 0
    }

    /// The binaries that took longest, in seconds, the longest first.
    pub fn slowest(&mut self, most: usize) -> &[(f64, String)] {
        self.took.sort_by(|one, other| other.0.total_cmp(&one.0));
        &self.took[..most.min(self.took.len())]
    }

    fn binary(&self) -> String {
        self.open.clone().unwrap_or_else(|| "a test binary".to_owned())
    }

    fn close(&mut self) {
        if let Some(binary) = self.open.take() {
            self.fail(format!("no result came from {binary}"));
        }
    }
}

/// The last line of a run.
impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} passed, {} failed", self.passed, self.failed)
    }
}

/// The test that `test the::name ... FAILED` names; libtest-mimic aligns the dots.
fn failed(line: &str) -> Option<&str> {
    let (test, end) = line.strip_prefix("test ")?.split_once(" ... ")?;
    (end == "FAILED").then_some(test.trim_end())
}

/// The number before `word` in `ok. 3 passed; 0 failed; ...`.
fn count(result: &str, word: &str) -> u64 {
    let part = result.split("; ").find_map(|part| part.strip_suffix(word));
    let number = part.and_then(|part| part.split_whitespace().next_back());
    number.and_then(|number| number.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally(lines: &str, success: bool) -> Tally {
        let mut tally = Tally::default();
        lines.lines().for_each(|line| tally.line(line));
        tally.end(success);
        tally
    }

    fn result(passed: u32, failed: u32, ignored: u32, filtered: u32) -> String {
        format!(
            "test result: ok. {passed} passed; {failed} failed; {ignored} ignored; 0 measured; \
             {filtered} filtered out; finished in 0.01s\n"
        )
    }

    #[test]
    fn unit_tests_cases_and_doc_tests_add_up() {
        let run = format!(
            "   Compiling a v0.1.0\n     Running unittests src/lib.rs (target/debug/deps/a-1)\n\
             \nrunning 2 tests\n{}     Running tests/model.rs (target/debug/deps/model-1)\n{}   \
             Doc-tests a\n{}{}",
            result(2, 0, 0, 0),
            result(40, 0, 0, 0),
            result(3, 0, 0, 0),
            result(1, 0, 0, 0),
        );
        let tally = tally(&run, true);
        assert_eq!((tally.to_string().as_str(), tally.is_good()), ("46 passed, 0 failed", true));
    }

    #[test]
    fn a_skip_is_a_failure() {
        for run in [result(2, 0, 3, 0), result(2, 0, 0, 3)] {
            let tally = tally(&run, true);
            assert_eq!(
                (tally.to_string().as_str(), tally.is_good()),
                ("2 passed, 3 failed", false)
            );
        }
    }

    #[test]
    fn a_binary_that_died_is_a_failure() {
        let heading = "     Running tests/a.rs (target/debug/deps/a-1)\n";
        let run = format!("{heading}{heading}{}{heading}", result(1, 0, 0, 0));
        assert_eq!(tally(&run, false).to_string(), "1 passed, 2 failed");
    }

    #[test]
    fn nothing_is_a_failure() {
        assert_eq!(tally("", true).to_string(), "0 passed, 1 failed");
        assert_eq!(tally("error: could not compile\n", false).to_string(), "0 passed, 1 failed");
        assert_eq!(tally(&result(0, 0, 0, 0), true).to_string(), "0 passed, 1 failed");
    }

    #[test]
    fn a_failed_test_is_named_and_counted_once() {
        for line in ["test a::b ... FAILED", "test a::b      ... FAILED"] {
            let run = format!("     Running tests/a.rs (a-1)\n{line}\n{}", result(4, 1, 0, 0));
            let tally = tally(&run, false);
            let said = (tally.to_string(), tally.is_good());
            assert_eq!(said, ("4 passed, 1 failed".to_owned(), false));
            assert_eq!(tally.findings(), ["a::b failed in tests/a.rs (a-1)"]);
        }
    }

    #[test]
    fn the_slowest_come_first() {
        let slow = result(1, 0, 0, 0).replace("0.01", "61.50");
        let run = format!("     Running a\n{}     Running b\n{slow}", result(1, 0, 0, 0));
        let mut tally = tally(&run, true);
        assert_eq!(tally.slowest(1), [(61.5, "b".to_owned())]);
        assert_eq!(tally.slowest(9).len(), 2);
    }
}
