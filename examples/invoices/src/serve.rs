//! `serve`: requests, until it is told to stop.

use std::net::SocketAddr;

use jobs_core::{Queue, Worker, worker::exit_code};
use tokio::{
    net::TcpListener,
    signal::unix::{SignalKind, signal},
    sync::watch,
};

use crate::{AnyError, data::Data, routes::routes};

/// Serves until `stop` says so, and answers what was asked before.
///
/// # Errors
/// The address is taken, or the store is not one that jobs can be pushed to.
pub async fn serve(
    listener: TcpListener,
    data: Data,
    relay: Option<Worker>,
    stop: watch::Receiver<bool>,
) -> Result<(), AnyError> {
    // Better to refuse to start than to refuse each request. Any call tells; a sweep is anybody's to make.
    data.jobs().sweep().await?;
    let relaying = relay.map(|relay| tokio::spawn(relay.run_until(told(stop.clone()))));
    axum::serve(listener, routes(data)).with_graceful_shutdown(told(stop)).await?;
    if let Some(relaying) = relaying {
        let ended = relaying.await?;
        if exit_code(&ended) != 0 {
            return Err(format!("the relay: {ended:?}").into());
        }
    }
    Ok(())
}

/// Listens, and says where.
///
/// # Errors
/// The address is taken.
pub async fn listen(address: SocketAddr) -> Result<TcpListener, AnyError> {
    let listener = TcpListener::bind(address).await;
    let listener = listener.map_err(|error| format!("{address} cannot be listened on: {error}"))?;
    println!("listening on http://{}", listener.local_addr()?);
    Ok(listener)
}

/// Waits until it says so.
pub async fn told(mut stop: watch::Receiver<bool>) {
    // Nobody is left who could say so: as good as said.
    let _ = stop.wait_for(|stop| *stop).await;
}

/// Says so at SIGTERM and SIGINT.
///
/// # Errors
/// The handlers cannot be installed.
pub fn at_a_signal() -> Result<watch::Receiver<bool>, AnyError> {
    let (say, stop) = watch::channel(false);
    let (mut terminate, mut interrupt) =
        (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    tokio::spawn(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        say.send_replace(true);
    });
    Ok(stop)
}
