//! What users wrote, and what reads the output, must not disturb the terminal or the process.

use std::{io::Read, process::Stdio};

use jobs_core::{Job, Outcome, Payload};
use jobs_testkit::kit;

use crate::place::{Place, settle, take};

crate::tests![crate::ALL; no_control_character_gets_through, a_reader_that_leaves_is_no_failure_and_hides_none];

/// Clears the screen, sets a title, begins a sequence with one character, turns the text around.
const NASTY: &str = "\u{1b}[2J\u{1b}]0;owned\u{7}\u{9b}31m\r\u{202e}\u{7f}\u{85}";

async fn no_control_character_gets_through(place: &Place) {
    let store = place.store().await;
    // JSON itself lets none below U+0020 stand in a text; the others are the store's to keep.
    let inside: String = NASTY.chars().filter(|char| *char >= ' ').collect();
    let text = format!("{{\"name\":\t\"{inside}\\u001b[31m\"\r\n}}");
    let payload = Payload::from_json(text.as_str()).expect("JSON");
    let job = Job { payload, ..kit::job("acme") }.key(NASTY).meta("note", NASTY);
    let job = kit::push(&*store, job).await;
    let held = take(&*store, &job).await;
    settle(&*store, &held, Outcome::Park { cause: format!("{NASTY}\nmore {NASTY}").into() }).await;
    for words in ["list".to_owned(), format!("show {}", job.id)] {
        for json in ["", " --json"] {
            let ran = place.run(&format!("jobs {words} --tenant acme{json}"));
            assert_eq!(ran.status, 0, "{ran:?}");
            let bad = |char: &char| char.is_control() && *char != '\n' || *char == '\u{202e}';
            let found: Vec<_> = ran.out.chars().chain(ran.err.chars()).filter(bad).collect();
            assert!(found.is_empty(), "{words}{json}: {found:?} in {ran:?}");
        }
    }
    let shown = place.json(&format!("jobs show {} --tenant acme", job.id));
    assert_eq!(shown["payload"]["name"], format!("{inside}\u{1b}[31m"), "the value is the same");
    assert_eq!(shown["job"]["last_cause"], format!("{NASTY}\nmore {NASTY}"));
    let ran = place.run(&format!("jobs show {} --tenant acme", job.id));
    ran.says(0, &["\\u{1b}[2J", "\\u{9b}31m"]);
}

async fn a_reader_that_leaves_is_no_failure_and_hides_none(place: &Place) {
    let store = place.store().await;
    kit::push(&*store, kit::job("acme")).await;
    let unknown = format!("jobs retry {} --tenant acme", crate::place::unknown());
    let verbs = [("jobs list --tenant acme", 0), (unknown.as_str(), 1)];
    let both = verbs.into_iter().flat_map(|verb| [(verb, ""), (verb, " --json")]);
    for ((words, status), json) in both {
        let mut command = place.command(&format!("{words}{json}"));
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let mut child = command.stdout(writer).stderr(Stdio::piped()).spawn().expect("it starts");
        drop(command);
        let mut said = String::new();
        let mut stderr = child.stderr.take().expect("it is piped");
        stderr.read_to_string(&mut said).expect("text");
        assert_eq!((child.wait().expect("it ends").code(), said.as_str()), (Some(status), ""));
    }
}
