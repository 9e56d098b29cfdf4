//! A TCP proxy on loopback in front of a server, that loses, delays and cuts what it carries.
//!
//! It knows no protocol. On a connection, the client's first bytes, and those after bytes of the
//! server, begin a **request**; the server's first bytes after a request begin its **reply**, and
//! with them the **round trip** is counted. What a server says unasked (a notification) belongs to
//! no round trip, unless it comes between a request and its reply.
//!
//! It runs on a thread of its own: it carries bytes while the runtime under test is blocked, and
//! its calls neither block nor need a runtime.
//!
//! ```no_run
//! # async fn example(url: &str) -> Result<(), String> {
//! use jobs_testkit::proxy::{Mode, Proxy};
//!
//! let proxy = Proxy::before(url)?;
//! let through = proxy.url(url); // connect a driver to this one
//! proxy.cut_after(2); // the second round trip from now is done and its reply lost
//! // ... call the driver ...
//! assert!(!proxy.disarm(), "the call made two round trips");
//! proxy.silence(|_| true); // every connection of now is dead, and nobody is told
//! proxy.set(Mode::Refuse); // and there are no new ones
//! proxy.set(Mode::Pass);
//! # Ok(())
//! # }
//! ```
//!
//! Why not stop the server's process: what is in the socket of a stopped process is applied when it
//! goes on, so nothing was lost.

mod connection;
mod shared;

use std::{
    net::{Ipv4Addr, SocketAddr, TcpListener, ToSocketAddrs},
    sync::Arc,
    thread::JoinHandle,
    time::Duration,
};

use tokio::{net, sync::oneshot};
use url::Url;

use shared::{Cut, End, Shared};

/// What becomes of new connections and of bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// They are carried.
    #[default]
    Pass,
    /// Each request and each reply is held for so long first: a round trip takes twice that more.
    Delay(Duration),
    /// Half-open: connections are made and stay, and their bytes get lost in both directions. One
    /// that lost bytes never carries any again, whatever the mode is later: its ends do not know
    /// of each other any more.
    Silent,
    /// New connections are reset at once; those of before are carried.
    Refuse,
}

/// What has happened since the proxy was started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Connections to the server.
    pub connections: usize,
    /// Requests that began, those before which was cut included.
    pub requests: usize,
    /// Round trips, those whose reply was lost included.
    pub round_trips: usize,
    /// Cuts by [`Proxy::cut_after`] and [`Proxy::cut_before`], counted when the client's side is
    /// closed.
    pub cuts: usize,
    /// Pieces lost in silent connections.
    pub lost: usize,
}

/// The proxy. Dropped, it closes everything.
#[derive(Debug)]
pub struct Proxy {
    port: u16,
    shared: Arc<Shared>,
    /// Taken by drop, which ends the thread.
    running: Option<(oneshot::Sender<()>, JoinHandle<()>)>,
}

impl Proxy {
    /// In front of this server, on a free port of 127.0.0.1.
    ///
    /// # Errors
    /// The address means nothing, or the system gives no port, thread or runtime.
    pub fn start(server: impl ToSocketAddrs) -> Result<Self, String> {
        let said = |error: std::io::Error| format!("no proxy: {error}");
        let server = server.to_socket_addrs().map_err(said)?.next();
        let server = server.ok_or("no proxy: the server has no address")?;
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(said)?;
        listener.set_nonblocking(true).map_err(said)?;
        let port = listener.local_addr().map_err(said)?.port();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(said)?;
        let shared = Arc::new(Shared::default());
        let (stop, stopped) = oneshot::channel();
        let run = {
            let shared = shared.clone();
            move || {
                runtime.block_on(async {
                    tokio::select! {
                        () = accept(listener, server, &shared) => {}
                        _ = stopped => {}
                    }
                });
            }
        };
        let thread = std::thread::Builder::new().name("proxy".to_owned()).spawn(run);
        Ok(Self { port, shared, running: Some((stop, thread.map_err(said)?)) })
    }

    /// In front of the one server that a URL names. A client that asks a server where the others
    /// are goes round the proxy: there, each needs one.
    ///
    /// # Errors
    /// The URL names no host, or as [`start`](Self::start).
    pub fn before(url: &str) -> Result<Self, String> {
        let parsed = Url::parse(url).map_err(|error| format!("{url}: {error}"))?;
        let usual = match parsed.scheme() {
            "postgres" | "postgresql" => Some(5432),
            "mongodb" => Some(27017),
            "redis" => Some(6379),
            _ => None,
        };
        let host = parsed.host_str().ok_or_else(|| format!("{url} names no host"))?;
        let port = parsed.port().or(usual).ok_or_else(|| format!("{url} names no port"))?;
        Self::start((host.trim_matches(['[', ']']), port))
    }

    /// This URL, with the proxy's host and port instead of its own.
    ///
    /// # Panics
    /// It is the URL of no server.
    pub fn url(&self, url: &str) -> String {
        let mut parsed = Url::parse(url).unwrap_or_else(|error| panic!("{url}: {error}"));
        let host = parsed.set_host(Some("127.0.0.1")).is_ok();
        assert!(host && parsed.set_port(Some(self.port)).is_ok(), "{url} names no host");
        parsed.into()
    }

    /// Where clients connect to.
    pub fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port).into()
    }

    /// From now on.
    pub fn set(&self, mode: Mode) {
        self.shared.set(mode);
    }

    /// Once: the `n`-th request that begins from now on, over all connections, is not forwarded,
    /// and its connection is closed on both sides. Replaces an earlier cut that is still to come.
    ///
    /// A goodbye without a reply is a request too.
    ///
    /// # Panics
    /// Requests are counted from 1.
    pub fn cut_before(&self, n: usize) {
        self.shared.arm(Cut::Before, n);
    }

    /// Once: the reply of the `n`-th round trip from now on, over all connections, is withheld, and
    /// its connection is closed on both sides: the server has answered, and the client does not
    /// know. Replaces an earlier cut that is still to come.
    ///
    /// The client's side is closed when the server has been quiet for 50 ms. The server's is then
    /// half closed and read to its end, so that a server which is still at it is not disturbed.
    ///
    /// # Panics
    /// Round trips are counted from 1.
    pub fn cut_after(&self, n: usize) {
        self.shared.arm(Cut::After, n);
    }

    /// Calls off a cut; answers whether it was still to come.
    pub fn disarm(&self) -> bool {
        self.shared.disarm()
    }

    /// The open connections, each by the port from which the server sees it come; servers list
    /// their clients by it.
    pub fn ports(&self) -> Vec<u16> {
        self.shared.ports()
    }

    /// Makes these connections half-open for good: see [`Mode::Silent`]. Others go on.
    pub fn silence(&self, which: impl Fn(u16) -> bool) {
        self.shared.silence(which);
    }

    /// Closes these connections on both sides, in order. A server that is busy for one hears of it
    /// when it reads the next request.
    pub fn close(&self, which: impl Fn(u16) -> bool) {
        self.shared.end(which, End::Close);
    }

    /// Resets these connections on both sides (RST).
    pub fn reset(&self, which: impl Fn(u16) -> bool) {
        self.shared.end(which, End::Reset);
    }

    /// What has happened so far.
    pub fn seen(&self) -> Seen {
        self.shared.seen()
    }

    /// Waits until this has happened. Cancel safe.
    pub async fn until(&self, happened: impl Fn(&Seen) -> bool) -> Seen {
        self.shared.until(happened).await
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        if let Some((stop, thread)) = self.running.take() {
            // It may have panicked, which its connections have felt.
            let _ = stop.send(());
            let _ = thread.join();
        }
    }
}

/// Takes connections until it is dropped.
async fn accept(listener: TcpListener, server: SocketAddr, shared: &Arc<Shared>) {
    let Ok(listener) = net::TcpListener::from_std(listener) else { return };
    loop {
        match listener.accept().await {
            Ok((client, _)) => {
                tokio::spawn(connection::run(client, server, shared.clone()));
            }
            // The system is out of files, or the client has gone.
            Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
        }
    }
}
