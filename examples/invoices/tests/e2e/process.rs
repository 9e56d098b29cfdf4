//! A process of the program, ended with its handle.

use std::{
    io::{BufRead, BufReader, Read},
    process::{Child, Command},
    thread::JoinHandle,
    time::{Duration, Instant},
};

use crate::{
    http::{Response, request},
    mail::PATIENCE,
    place::Place,
};

/// A running `serve` or `worker`.
pub struct Process {
    child: Child,
    /// Of `serve`, where it listens.
    pub address: String,
    said: Option<JoinHandle<String>>,
}

impl Process {
    /// Requests at a port of its own.
    pub fn serve(place: &Place) -> Self {
        let mut process = Self::start(place.command("serve --listen 127.0.0.1:0"));
        let out = process.child.stdout.take().expect("it is piped");
        let mut line = String::new();
        BufReader::new(out).read_line(&mut line).expect("text");
        let address = line.trim().strip_prefix("listening on http://");
        process.address = match address {
            Some(address) => address.to_owned(),
            None => panic!("it does not listen: {line}{:?}", process.end()),
        };
        process
    }

    /// A worker that mails by this service.
    pub fn worker(place: &Place, words: &str, mail: &str) -> Self {
        let mut command = place.command(&format!("worker {words}"));
        command.env("INVOICES_MAIL", mail);
        Self::start(command)
    }

    fn start(mut command: Command) -> Self {
        let mut child = command.spawn().expect("it starts");
        let mut err = child.stderr.take().expect("it is piped");
        // Read at once, or the pipe fills and the process waits.
        let said = std::thread::spawn(move || {
            let mut said = String::new();
            err.read_to_string(&mut said).map(|_| said).expect("text")
        });
        Self { child, address: String::new(), said: Some(said) }
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// SIGTERM or SIGKILL.
    pub fn signal(&self, name: &str) {
        let sent = Command::new("kill").args([format!("-{name}"), self.id().to_string()]).status();
        assert!(sent.expect("the kill command").success());
    }

    /// Its exit status and what it said.
    pub fn end(mut self) -> (Option<i32>, String) {
        let start = Instant::now();
        let status = loop {
            if let Some(status) = self.child.try_wait().expect("a child") {
                break status.code();
            }
            assert!(start.elapsed() < PATIENCE, "it does not end");
            std::thread::sleep(Duration::from_millis(10));
        };
        (status, self.said.take().and_then(|said| said.join().ok()).unwrap_or_default())
    }

    /// Told to stop, it ends in order.
    pub fn stop(self) -> String {
        self.signal("TERM");
        let (status, said) = self.end();
        assert_eq!(status, Some(0), "{said}");
        said
    }

    /// A request to it.
    pub fn post(&self, user: &str, path: &str, body: &str) -> Response {
        request(&self.address, user, "POST", path, body)
    }

    /// A request to it.
    pub fn get(&self, user: &str, path: &str) -> Response {
        request(&self.address, user, "GET", path, "")
    }

    /// An invoice of a tenant, stored and with its job.
    pub fn issue(&self, user: &str, tenant: &str, cents: u32) -> String {
        let body = format!(r#"{{"customer":"Hooli","cents":{cents},"month":"2026-11"}}"#);
        let answer = self.post(user, &format!("/tenants/{tenant}/invoices"), &body);
        assert_eq!(answer.status, 202, "{answer:?}");
        answer.json()["id"].as_str().expect("an id").to_owned()
    }

    /// Waits until a tenant has so many invoices, so many of them mailed.
    pub fn until_sent(&self, user: &str, tenant: &str, invoices: u32, sent: u32) {
        let wanted = serde_json::json!({ "invoices": invoices, "sent": sent });
        let path = format!("/tenants/{tenant}/invoices");
        until(|| {
            let found = self.get(user, &path).json();
            if found == wanted { Ok(()) } else { Err(format!("{tenant} has {found}")) }
        });
    }
}

/// Waits for what other processes bring about.
pub fn until<T>(mut is: impl FnMut() -> Result<T, String>) -> T {
    let start = Instant::now();
    loop {
        match is() {
            Ok(found) => return found,
            Err(why) => assert!(start.elapsed() < PATIENCE, "not within a minute: {why}"),
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
