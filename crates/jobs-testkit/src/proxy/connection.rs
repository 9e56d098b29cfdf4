//! One connection through the proxy.

use std::{
    future::pending,
    net::SocketAddr,
    sync::{Arc, atomic::Ordering::SeqCst},
    time::Duration,
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{
        TcpStream,
        tcp::{ReadHalf, WriteHalf},
    },
    time::{sleep, timeout},
};

use super::{
    Mode,
    shared::{Cut, End, Link, Shared},
};

/// A reply is over when the server has been quiet for so long.
const QUIET: Duration = Duration::from_millis(50);

/// Why nothing is carried any more.
enum Stop {
    /// As told.
    End(End),
    /// A cut, at the client's side and then at the server's.
    Cut,
}

/// From the client's connection to its end.
pub async fn run(client: TcpStream, server: SocketAddr, shared: Arc<Shared>) {
    let refuse = |client: TcpStream| {
        // Where it has gone already there is nobody to refuse.
        let _ = client.set_zero_linger();
    };
    if shared.mode() == Mode::Refuse {
        return refuse(client);
    }
    let Ok(server) = TcpStream::connect(server).await else { return refuse(client) };
    let Ok(address) = server.local_addr() else { return refuse(client) };
    // Held-back small segments would be a delay that nobody asked for.
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let link = shared.open(address.port());
    carry(client, server, &shared, &link).await;
}

async fn carry(mut client: TcpStream, mut server: TcpStream, shared: &Shared, link: &Arc<Link>) {
    let stop = {
        let (from_client, to_client) = client.split();
        let (from_server, to_server) = server.split();
        let both = async {
            // Each by itself: a client that does not read must not keep its own bytes back.
            let up = pump(Cut::Before, from_client, to_server, shared, link);
            let down = pump(Cut::After, from_server, to_client, shared, link);
            tokio::try_join!(up, down).err().unwrap_or(Stop::End(End::Close))
        };
        let mut told = link.end.subscribe();
        let told = async {
            let end = told.wait_for(Option::is_some).await.ok().and_then(|end| *end);
            Stop::End(end.unwrap_or(End::Close))
        };
        tokio::select! {
            stop = both => stop,
            stop = told => stop,
        }
    };
    shared.closed(link);
    if let Stop::End(End::Reset) = stop {
        // Where one side has gone, the other is reset alone.
        let _ = (client.set_zero_linger(), server.set_zero_linger());
        return;
    }
    drop(client);
    if let Stop::Cut = stop {
        shared.note(|seen| seen.cuts += 1);
    }
    // It hears of the end when it has done what it was sent; closed at once, what it still says
    // would be answered with a reset, at which it may stop half-way.
    if server.shutdown().await.is_ok() {
        let mut rest = [0; 1024];
        while server.read(&mut rest).await.is_ok_and(|read| read > 0) {}
    }
}

/// Carries one direction until its end.
async fn pump(
    way: Cut,
    mut from: ReadHalf<'_>,
    mut to: WriteHalf<'_>,
    shared: &Shared,
    link: &Link,
) -> Result<(), Stop> {
    let mut bytes = vec![0; 64 * 1024];
    loop {
        let read = from.read(&mut bytes).await;
        let mode = shared.mode();
        if mode == Mode::Silent {
            link.silent.store(true, SeqCst);
        }
        // A request begins where none is open, a reply where one is.
        let begins = (way == Cut::After) == link.asked.load(SeqCst);
        if let (Mode::Delay(by), Ok(1..), true) = (mode, &read, begins) {
            sleep(by).await;
        }
        if link.silent.load(SeqCst) {
            shared.note(|seen| seen.lost += 1);
            if !more(read) {
                // An end gets lost like anything else: the other side does not hear of it.
                pending::<()>().await;
            }
            continue;
        }
        let read = read.map_err(|_| Stop::End(End::Reset))?;
        if read == 0 {
            // The other direction may still have something to say.
            return to.shutdown().await.map_err(|_| Stop::End(End::Reset));
        }
        if begins {
            link.asked.store(way == Cut::Before, SeqCst);
            if shared.reached(way) {
                if way == Cut::After {
                    while timeout(QUIET, from.read(&mut bytes)).await.is_ok_and(more) {}
                }
                return Err(Stop::Cut);
            }
        }
        to.write_all(&bytes[..read]).await.map_err(|_| Stop::End(End::Reset))?;
    }
}

fn more(read: std::io::Result<usize>) -> bool {
    read.is_ok_and(|read| read > 0)
}
