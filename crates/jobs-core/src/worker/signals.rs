//! SIGTERM and SIGINT; elsewhere, Ctrl-C.

use crate::worker::config::StartError;

/// Both signals.
pub(crate) struct Signals {
    #[cfg(unix)]
    terminate: tokio::signal::unix::Signal,
    #[cfg(unix)]
    interrupt: tokio::signal::unix::Signal,
}

impl Signals {
    /// From now on, the process no longer ends by them.
    pub fn listen() -> Result<Self, StartError> {
        #[cfg(unix)]
        {
            use tokio::signal::unix::{SignalKind, signal};
            let listen = |kind| signal(kind).map_err(|e| StartError::Runtime(e.to_string()));
            let terminate = listen(SignalKind::terminate())?;
            let interrupt = listen(SignalKind::interrupt())?;
            Ok(Self { terminate, interrupt })
        }
        #[cfg(not(unix))]
        Ok(Self {})
    }

    /// Waits for one of them.
    pub async fn next(&mut self) {
        #[cfg(unix)]
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
        #[cfg(not(unix))]
        let _ = tokio::signal::ctrl_c().await;
    }
}
