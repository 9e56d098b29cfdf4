//! What a newcomer meets at the keyboard: each message says what to do. What is met in code is in
//! `tests/app.rs`, and a store that is not compiled in in `src/store/mod.rs`.

use crate::{
    place::{Kind, Place, ended},
    process::Process,
};

/// Nobody listens at the discard port.
pub fn no_server(place: &Place) {
    let url = place.at(match place.kind {
        Kind::Mongo => "mongodb://127.0.0.1:9/app?replicaSet=jobs",
        Kind::Redis => "redis://127.0.0.1:9",
        Kind::Sqlite | Kind::Postgres => "postgres://app@127.0.0.1:9/app",
    });
    let commands = ["serve --listen 127.0.0.1:0", "worker", "jobs list --tenant acme"];
    // A refused connection is told at once. Where the store waits for a server to come, one has to do.
    let most = if place.kind == Kind::Postgres { 3 } else { 1 };
    for words in commands.into_iter().take(most) {
        let mut command = place.command(words);
        let told = ended(command.env("INVOICES_URL", &url).env("INVOICES_USER", "ada"));
        // A process manager tries again: it may be there later.
        says(told, 1, "heck that the URL is right and the server runs.");
    }
}

pub fn no_schema(place: &Place) {
    let told = place.run("serve --listen 127.0.0.1:0");
    says(told, 1, "`jobs migrate` makes them");
    let told = place.run("worker");
    says(told, 2, "`jobs migrate` makes them");
    place.migrate();
    Process::serve(place).stop();
}

pub fn no_store(place: &Place) {
    let known = "mysql is of no store known here: write sqlite://…, postgres://…";
    for (words, status) in [("serve", 1), ("worker", 2), ("jobs list --tenant acme", 1)] {
        let mut command = place.command(words);
        let told = ended(command.args(["--url", "mysql://here"]).env("INVOICES_USER", "ada"));
        says(told, status, known);
    }
}

/// Nobody works: the doctor says so, for the names that wait.
pub fn no_handler(place: &Place) {
    let server = Process::serve(place);
    server.issue("ada", "acme", 1);
    let (status, out, err) = place.run("jobs doctor --tenant acme");
    assert_eq!(status, 1, "{out}{err}");
    assert!(out.contains("no worker is alive, and 1 job"), "{out}");
    assert!(out.contains("Start one: the `worker` command of this program."), "{out}");
    // One that works another queue only.
    let worker = Process::worker(place, "--queue default", "http://127.0.0.1:9/");
    let said = crate::process::until(|| {
        let (_, out, _) = place.run("jobs doctor --tenant acme");
        if out.contains("no worker is alive") { Err(out) } else { Ok(out) }
    });
    assert!(said.contains("no live worker works the queue mail"), "{said}");
    worker.stop();
    server.stop();
}

#[track_caller]
fn says((status, out, err): (i32, String, String), expected: i32, words: &str) {
    assert_eq!(status, expected, "{out}{err}");
    assert!(err.contains(words), "no {words:?}: {out}{err}");
}
