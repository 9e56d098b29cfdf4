//! Where everything is printed, and the only place that does: nothing a user wrote reaches the
//! terminal as a control character, in either form.

use std::io::{self, Write};

use serde::Serialize;

use crate::{stop::Stop, text};

/// Answers go to stdout, remarks to stderr, so that a pipe gets answers only.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Out {
    /// Is the answer one JSON object?
    pub json: bool,
}

impl Out {
    /// A line, or several, of an answer for people.
    pub fn say(self, words: impl AsRef<str>) -> Result<(), Stop> {
        write(&text::printable(words.as_ref()))
    }

    /// A remark about the answer. Nobody may listen.
    pub fn remark(self, words: impl AsRef<str>) {
        let _ = writeln!(io::stderr().lock(), "{}", text::printable(words.as_ref()));
    }

    /// The answer for machines, on one line.
    pub fn object(self, answer: &impl Serialize) -> Result<(), Stop> {
        let json = serde_json::to_string(answer).map_err(io::Error::from)?;
        write(&safe_json(&json))
    }
}

/// What reads the output may end before it, as `head` does. That is no failure, and hides none: the
/// command goes on to the exit status that it would have had.
fn write(answer: &str) -> Result<(), Stop> {
    let mut stdout = io::stdout().lock();
    match writeln!(stdout, "{answer}").and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(()),
    }
}

/// The same JSON without characters that a terminal obeys. Inside texts JSON has no C0 controls, so
/// those that are there stand between values and are space; all others are inside texts.
fn safe_json(json: &str) -> String {
    let mut safe = String::with_capacity(json.len());
    let mut units = [0; 2];
    for char in json.chars() {
        match char {
            '\n' | '\r' | '\t' => safe.push(' '),
            char if text::is_unsafe(char) => {
                for unit in char.encode_utf16(&mut units) {
                    safe.push_str(&format!("\\u{unit:04x}"));
                }
            }
            char => safe.push(char),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_stays_the_same_value_and_has_no_controls() {
        let json = "{\"a\":\n\t[1e999, \"\u{9b}31m\u{7f}\u{202e}é\\u001b\\n\"]}";
        let safe = safe_json(json);
        assert!(!safe.contains(text::is_unsafe), "{safe}");
        assert!(safe.contains("[1e999, "), "numbers are not read and written again: {safe}");
        let text = |json: &str| -> String {
            let start = json.find("[1e999, ").unwrap() + 8;
            serde_json::from_str(&json[start..json.len() - 2]).unwrap()
        };
        assert_eq!(text(&safe), text(json));
    }
}
