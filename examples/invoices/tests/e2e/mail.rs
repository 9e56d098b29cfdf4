//! A mail service outside of everything: it sees each delivery begin, and decides when it ends.

use std::{
    io::{BufReader, Write},
    net::{TcpListener, TcpStream},
    sync::mpsc::{Receiver, Sender, channel},
    thread,
    time::Duration,
};

use serde_json::Value;

use crate::http::{header, message};

/// How long anything may take to happen.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// The service.
pub struct Service {
    pub address: String,
    mails: Receiver<Mail>,
}

/// A mail that waits for its answer.
pub struct Mail {
    /// The job's: the same in each of its runs.
    pub key: String,
    /// The process that sends it.
    pub process: u32,
    pub invoice: Value,
    stream: TcpStream,
}

impl Service {
    pub fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = format!("http://{}/mail", listener.local_addr().expect("it is bound"));
        let (tell, mails) = channel();
        thread::spawn(move || {
            for stream in listener.incoming() {
                let tell = tell.clone();
                thread::spawn(move || receive(stream.expect("a connection"), &tell));
            }
        });
        Self { address, mails }
    }

    /// The next one.
    pub fn next(&self) -> Mail {
        self.mails.recv_timeout(PATIENCE).expect("a mail within a minute")
    }
}

impl Mail {
    /// It is mailed.
    pub fn take(mut self) {
        // Whoever sent it may have been killed.
        let _ = self.stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n");
    }
}

fn receive(stream: TcpStream, tell: &Sender<Mail>) {
    let mut reader = BufReader::new(stream);
    // A process that is killed may leave half a request.
    let Ok((head, body)) = message(&mut reader) else { return };
    let key = header(&head, "idempotency-key").expect("a key").to_owned();
    let process = header(&head, "user-agent").and_then(|agent| agent.split_once('/'));
    let process = process.and_then(|(_, id)| id.parse().ok()).expect("a process");
    let invoice = serde_json::from_str(&body).expect("JSON");
    // A test that failed listens no more.
    let _ = tell.send(Mail { key, process, invoice, stream: reader.into_inner() });
}
