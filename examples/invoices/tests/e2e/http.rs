//! HTTP by hand, so that nothing of the application under test is on this side.

use std::{
    io::{BufRead, BufReader, Write},
    net::TcpStream,
};

use serde_json::Value;

/// An answer.
#[derive(Debug)]
pub struct Response {
    pub status: u16,
    pub body: String,
}

impl Response {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

/// One request on a connection of its own; `user` is who asks.
pub fn request(address: &str, user: &str, method: &str, path: &str, body: &str) -> Response {
    let kind = if body.starts_with('{') { "application/json" } else { "text/csv" };
    let mut stream = TcpStream::connect(address).expect("it listens");
    let length = body.len();
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\
         authorization: Bearer {user}-token\r\ncontent-type: {kind}\r\n\
         content-length: {length}\r\n\r\n{body}"
    )
    .expect("it reads");
    let (head, body) = message(&mut BufReader::new(stream)).expect("it answers");
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
    Response { status: status.unwrap_or_else(|| panic!("{head}")), body }
}

/// The head and the body of a message whose length is told.
pub fn message(from: &mut impl BufRead) -> std::io::Result<(String, String)> {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if from.read_line(&mut head)? == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
    }
    let length = header(&head, "content-length").unwrap_or("0");
    let mut body = vec![0; length.parse().expect("a number")];
    from.read_exact(&mut body)?;
    Ok((head, String::from_utf8(body).expect("text")))
}

/// A header of a head.
pub fn header<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    let headers = head.lines().filter_map(|line| line.split_once(':'));
    let mut found = headers.filter(|(given, _)| given.eq_ignore_ascii_case(name));
    found.next().map(|(_, value)| value.trim())
}
