//! Asking before something is changed that cannot be changed back.

use std::io::{self, BufRead, IsTerminal, Write};

use crate::{stop::Stop, text};

/// Goes on only with a yes. `what` says in a question what will happen.
pub(crate) fn confirm(what: &str) -> Result<(), Stop> {
    let what = text::printable(what);
    if !io::stdin().is_terminal() {
        return Err(Stop::refused(format!(
            "there is no terminal to ask at, and nothing was changed. With --yes it is not asked:\n\
             {what}"
        )));
    }
    let mut stderr = io::stderr().lock();
    // A question that nobody can read is not answered.
    write!(stderr, "{what} [y/N] ").and_then(|()| stderr.flush()).map_err(|error| {
        Stop::refused(format!("it cannot be asked, and nothing was changed: {error}"))
    })?;
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer)?;
    match is_yes(&answer) {
        true => Ok(()),
        false => Err(Stop::refused("Nothing was changed.")),
    }
}

fn is_yes(answer: &str) -> bool {
    matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes")
}

#[cfg(test)]
mod tests {
    #[test]
    fn only_yes_is_yes() {
        for yes in ["y\n", "Y", " yes\r\n", "YES"] {
            assert!(super::is_yes(yes), "{yes:?}");
        }
        for no in ["", "\n", "n", "yep", "y y", "ja"] {
            assert!(!super::is_yes(no), "{no:?}");
        }
    }
}
