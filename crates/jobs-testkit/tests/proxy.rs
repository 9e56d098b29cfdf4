//! What the proxy does to connections, seen from both their ends. Clients and the server block
//! their threads: the proxy has one of its own.

use std::{
    io::{ErrorKind, Read, Write},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    sync::mpsc::{self, Receiver},
    time::{Duration, Instant},
};

use jobs_testkit::proxy::{Mode, Proxy};

/// No event of a test takes longer.
const PATIENCE: Duration = Duration::from_secs(10);

/// What the server heard on a connection.
#[derive(Debug, PartialEq)]
enum Heard {
    Bytes(Vec<u8>),
    End,
    Reset,
}

/// A server, and what it heard from which port.
struct Server {
    address: SocketAddr,
    heard: Receiver<(u16, Heard)>,
}

impl Server {
    /// Answers each piece with itself.
    fn echo() -> Self {
        Self::new(|piece, client| client.write_all(piece).expect("a client"))
    }

    fn new(answer: fn(&[u8], &mut TcpStream)) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let (tell, heard) = mpsc::channel();
        let serve = move |mut client: TcpStream, tell: mpsc::Sender<_>| {
            let port = client.peer_addr().expect("an address").port();
            let mut piece = vec![0; 64 * 1024];
            loop {
                let what = match client.read(&mut piece) {
                    Ok(0) => Heard::End,
                    Ok(read) => Heard::Bytes(piece[..read].to_vec()),
                    Err(_) => Heard::Reset,
                };
                let bytes = if let Heard::Bytes(bytes) = &what { bytes.clone() } else { vec![] };
                // A test that has seen enough does not listen.
                let _ = tell.send((port, what));
                if bytes.is_empty() {
                    return;
                }
                answer(&bytes, &mut client);
            }
        };
        std::thread::spawn(move || {
            for client in listener.incoming() {
                let (client, tell) = (client.expect("a client"), tell.clone());
                std::thread::spawn(move || serve(client, tell));
            }
        });
        Self { address, heard }
    }

    fn proxy(&self) -> Proxy {
        Proxy::start(self.address).expect("a proxy")
    }

    #[track_caller]
    fn hears(&self, expected: Heard) -> u16 {
        let (port, heard) = self.heard.recv_timeout(PATIENCE).expect("something to hear");
        assert_eq!(heard, expected);
        port
    }

    fn hears_no_more(&self) {
        assert_eq!(self.heard.try_recv().ok(), None);
    }
}

fn bytes(text: &str) -> Heard {
    Heard::Bytes(text.as_bytes().to_vec())
}

fn client(proxy: &Proxy) -> TcpStream {
    let client = TcpStream::connect(proxy.address()).expect("a proxy");
    client.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    client
}

/// Asks, and reads so many bytes of an answer.
#[track_caller]
fn ask(client: &mut TcpStream, text: &str) -> String {
    client.write_all(text.as_bytes()).expect("a server");
    let mut answer = vec![0; text.len()];
    client.read_exact(&mut answer).expect("an answer");
    String::from_utf8(answer).expect("text")
}

/// What is left to read, up to an end in order.
fn rest(client: &mut TcpStream) -> std::io::Result<String> {
    let mut text = String::new();
    client.read_to_string(&mut text).map(|_| text)
}

#[test]
fn bytes_are_carried_and_round_trips_counted() {
    let server = Server::echo();
    let proxy = server.proxy();
    let mut one = client(&proxy);
    let mut two = client(&proxy);
    assert_eq!(ask(&mut one, "a"), "a");
    assert_eq!(ask(&mut two, "bc"), "bc");
    assert_eq!(ask(&mut one, "d"), "d");
    let seen = proxy.seen();
    assert_eq!((seen.connections, seen.requests, seen.round_trips), (2, 3, 3));
    let ports = [bytes("a"), bytes("bc"), bytes("d")].map(|heard| server.hears(heard));
    assert_eq!((ports[0], ports[0] != ports[1]), (ports[2], true));
    assert_eq!(proxy.ports(), [ports[0], ports[1]], "as the server sees them");
    // One side's end is carried, and the other side still answers.
    one.write_all(b"e").expect("a server");
    one.shutdown(Shutdown::Write).expect("open");
    assert_eq!(rest(&mut one).expect("an end"), "e");
    assert_eq!(proxy.seen().cuts, 0);
}

#[test]
fn both_directions_are_carried_at_once() {
    const SIZE: usize = 16 * 1024 * 1024;
    let server = Server::echo();
    let proxy = server.proxy();
    // The client writes all before it reads: what comes back has to wait, what goes must not.
    let mut writing = client(&proxy);
    let mut reading = writing.try_clone().expect("the same connection");
    let sent: Vec<u8> = (0..SIZE).map(|at| (at % 251) as u8).collect();
    let expected = sent.clone();
    let writer = std::thread::spawn(move || writing.write_all(&sent));
    let mut answer = vec![0; SIZE];
    reading.read_exact(&mut answer).expect("an answer");
    writer.join().expect("no panic").expect("a server");
    assert!(answer == expected, "bytes were changed");
}

#[test]
fn a_cut_after_a_request_withholds_its_reply() {
    let server = Server::echo();
    let proxy = server.proxy();
    let mut cut = client(&proxy);
    ask(&mut cut, "before");
    server.hears(bytes("before"));
    proxy.cut_after(2);
    assert_eq!(ask(&mut cut, "first"), "first");
    server.hears(bytes("first"));
    cut.write_all(b"second").expect("a server");
    assert_eq!(rest(&mut cut).expect("an end in order"), "");
    let port = server.hears(bytes("second"));
    assert_eq!(server.hears(Heard::End), port);
    assert!(!proxy.disarm());
    let seen = proxy.seen();
    assert_eq!((seen.cuts, seen.round_trips), (1, 3));
    assert!(proxy.ports().is_empty());
    // Once: the next connection is carried.
    assert_eq!(ask(&mut client(&proxy), "third"), "third");
}

#[test]
fn a_reply_in_pieces_is_withheld_whole_and_its_server_undisturbed() {
    let server = Server::new(|_, client| {
        for piece in ["on", "ly ", "slowly"] {
            client.write_all(piece.as_bytes()).expect("nobody disturbs it");
            std::thread::sleep(Duration::from_millis(30));
        }
        // Longer than the proxy thinks that a reply takes.
        std::thread::sleep(Duration::from_millis(200));
        client.write_all(b"and ").expect("nobody disturbs it");
        // The system tells of a reset at the next write.
        std::thread::sleep(Duration::from_millis(30));
        client.write_all(b"more").expect("nobody disturbs it");
    });
    let proxy = server.proxy();
    proxy.cut_after(1);
    let mut cut = client(&proxy);
    let begun = Instant::now();
    cut.write_all(b"say").expect("a server");
    assert_eq!(rest(&mut cut).expect("an end in order"), "");
    assert!(begun.elapsed() >= Duration::from_millis(60 + 50), "before the server was quiet");
    server.hears(bytes("say"));
    server.hears(Heard::End);
}

#[test]
fn a_cut_before_a_request_forwards_nothing_of_it() {
    let server = Server::echo();
    let proxy = server.proxy();
    proxy.cut_before(2);
    let mut cut = client(&proxy);
    assert_eq!(ask(&mut cut, "first"), "first");
    cut.write_all(b"second").expect("a proxy");
    assert_eq!(rest(&mut cut).expect("an end in order"), "");
    server.hears(bytes("first"));
    server.hears(Heard::End);
    let seen = proxy.seen();
    assert_eq!((seen.cuts, seen.requests, seen.round_trips), (1, 2, 1));
}

#[test]
fn cuts_count_over_all_connections_and_can_be_called_off() {
    let server = Server::echo();
    let proxy = server.proxy();
    let (mut one, mut two) = (client(&proxy), client(&proxy));
    proxy.cut_after(3);
    ask(&mut one, "a");
    ask(&mut two, "b");
    assert!(proxy.disarm(), "it was still to come");
    ask(&mut one, "c");
    proxy.cut_before(2);
    ask(&mut one, "d");
    two.write_all(b"e").expect("a proxy");
    assert_eq!(rest(&mut two).expect("an end in order"), "");
    assert_eq!(ask(&mut one, "f"), "f", "the other connection is open");
}

#[test]
fn a_delay_holds_each_request_and_each_reply_once() {
    let server = Server::new(|_, client| client.write_all(&[b'x'; 1024 * 1024]).expect("a client"));
    let proxy = server.proxy();
    let mut slow = client(&proxy);
    let by = Duration::from_millis(100);
    proxy.set(Mode::Delay(by));
    let mut answer = vec![0; 1024 * 1024];
    let begun = Instant::now();
    slow.write_all(b"?").expect("a server");
    slow.read_exact(&mut answer).expect("an answer");
    let took = begun.elapsed();
    // Sixteen pieces at least: held one by one they would take 1.6 s.
    assert!(took >= 2 * by && took < 12 * by, "{took:?}");
}

#[tokio::test]
async fn silence_swallows_everything_and_never_heals() {
    let server = Server::echo();
    let proxy = server.proxy();
    let mut old = client(&proxy);
    ask(&mut old, "first");
    server.hears(bytes("first"));
    proxy.set(Mode::Silent);
    old.write_all(b"lost").expect("a proxy");
    let mut new = client(&proxy);
    new.write_all(b"lost too").expect("a proxy");
    proxy.until(|seen| seen.lost == 2).await;
    proxy.set(Mode::Pass);
    // The server would hear of these and answer.
    old.write_all(b"again").expect("a proxy");
    drop(new);
    proxy.until(|seen| seen.lost == 4).await;
    server.hears_no_more();
    assert_eq!(ask(&mut client(&proxy), "fresh"), "fresh");
    old.set_read_timeout(Some(Duration::from_millis(50))).expect("a timeout");
    let said = rest(&mut old).expect_err("silence").kind();
    assert!(matches!(said, ErrorKind::WouldBlock | ErrorKind::TimedOut), "{said:?}");
}

#[tokio::test]
async fn one_connection_is_silenced_in_the_servers_direction_too() {
    let server = Server::echo();
    let proxy = server.proxy();
    let (mut one, mut two) = (client(&proxy), client(&proxy));
    ask(&mut one, "one");
    let port = server.hears(bytes("one"));
    ask(&mut two, "two");
    proxy.silence(|which| which == port);
    assert_eq!(ask(&mut two, "more"), "more");
    one.write_all(b"lost").expect("a proxy");
    proxy.until(|seen| seen.lost == 1).await;
    // Its own end gets lost as well.
    drop(one);
    proxy.until(|seen| seen.lost == 2).await;
    let heard: Vec<_> = server.heard.try_iter().map(|(_, heard)| heard).collect();
    assert_eq!(heard, [bytes("two"), bytes("more")]);
}

#[test]
fn a_reset_is_one_at_both_ends() {
    let server = Server::echo();
    let proxy = server.proxy();
    let (mut one, mut two) = (client(&proxy), client(&proxy));
    ask(&mut one, "one");
    let port = server.hears(bytes("one"));
    ask(&mut two, "two");
    server.hears(bytes("two"));
    proxy.reset(|which| which == port);
    assert_eq!(rest(&mut one).expect_err("a reset").kind(), ErrorKind::ConnectionReset);
    assert_eq!(server.hears(Heard::Reset), port);
    assert_eq!(ask(&mut two, "still"), "still");
}

#[test]
fn a_close_is_an_end_in_order_at_both_ends() {
    let server = Server::echo();
    let proxy = server.proxy();
    let mut one = client(&proxy);
    ask(&mut one, "one");
    server.hears(bytes("one"));
    proxy.close(|_| true);
    assert_eq!(rest(&mut one).expect("an end in order"), "");
    server.hears(Heard::End);
}

#[test]
fn the_refused_are_reset_and_so_are_those_of_a_server_that_is_gone() {
    let server = Server::echo();
    let proxy = server.proxy();
    let mut old = client(&proxy);
    ask(&mut old, "old");
    proxy.set(Mode::Refuse);
    assert_eq!(rest(&mut client(&proxy)).expect_err("a reset").kind(), ErrorKind::ConnectionReset);
    assert_eq!(ask(&mut old, "old"), "old");
    assert_eq!(proxy.seen().connections, 1);
    let nobody = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = nobody.local_addr().expect("an address");
    drop(nobody);
    let proxy = Proxy::start(address).expect("a proxy");
    assert_eq!(rest(&mut client(&proxy)).expect_err("a reset").kind(), ErrorKind::ConnectionReset);
}

#[test]
fn a_dropped_proxy_closes_everything() {
    let server = Server::echo();
    let proxy = server.proxy();
    let address = proxy.address();
    let mut one = client(&proxy);
    ask(&mut one, "one");
    server.hears(bytes("one"));
    drop(proxy);
    assert_eq!(rest(&mut one).expect("an end"), "");
    server.hears(Heard::End);
    TcpStream::connect(address).expect_err("nobody listens");
}

#[test]
fn urls_are_those_of_the_proxy() {
    let server = Server::echo();
    let url = format!("postgres://ada:s%40@{}/db?x=y", server.address);
    let proxy = Proxy::before(&url).expect("a proxy");
    let address = proxy.address();
    assert_eq!(proxy.url(&url), format!("postgres://ada:s%40@{address}/db?x=y"));
    assert_eq!(ask(&mut client(&proxy), "there"), "there");
    for (wrong, why) in [("postgres:x", "no host"), ("other://here", "no port"), ("x", "base")] {
        let said = Proxy::before(wrong).expect_err(wrong);
        assert!(said.contains(why), "{said}");
    }
}
