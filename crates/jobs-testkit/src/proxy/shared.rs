//! What the proxy's connections share with whoever commands them.

use std::sync::{
    Arc, Mutex, MutexGuard, PoisonError,
    atomic::{AtomicBool, Ordering::SeqCst},
};

use tokio::sync::watch;

use super::{Mode, Seen};

/// How a connection is ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// In order.
    Close,
    /// By RST.
    Reset,
}

/// Where a connection is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// Before a request.
    Before,
    /// After a request, before its reply.
    After,
}

/// All of it.
#[derive(Debug)]
pub struct Shared {
    state: Mutex<State>,
    seen: watch::Sender<Seen>,
}

#[derive(Debug, Default)]
struct State {
    mode: Mode,
    /// The cut to come, and how many until it, itself included.
    cut: Option<(Cut, usize)>,
    open: Vec<Arc<Link>>,
}

/// One connection.
#[derive(Debug)]
pub struct Link {
    /// From which the server sees it come.
    pub port: u16,
    /// A request has begun and its reply has not.
    pub asked: AtomicBool,
    /// It carries nothing any more.
    pub silent: AtomicBool,
    /// How it is to be ended, once it is.
    pub end: watch::Sender<Option<End>>,
}

impl Default for Shared {
    fn default() -> Self {
        Self { state: Mutex::default(), seen: watch::Sender::new(Seen::default()) }
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        // Every change is one assignment, so what a panic left is whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn set(&self, mode: Mode) {
        self.state().mode = mode;
    }

    pub fn mode(&self) -> Mode {
        self.state().mode
    }

    pub fn arm(&self, cut: Cut, n: usize) {
        assert!(n > 0, "counted from 1");
        self.state().cut = Some((cut, n));
    }

    pub fn disarm(&self) -> bool {
        self.state().cut.take().is_some()
    }

    /// Counts; answers whether to cut here.
    pub fn reached(&self, here: Cut) -> bool {
        self.note(|seen| match here {
            Cut::Before => seen.requests += 1,
            Cut::After => seen.round_trips += 1,
        });
        let mut state = self.state();
        match &mut state.cut {
            Some((cut, 1)) if *cut == here => state.cut = None,
            Some((cut, n)) if *cut == here => {
                *n -= 1;
                return false;
            }
            _ => return false,
        }
        true
    }

    /// A connection that is now open.
    pub fn open(&self, port: u16) -> Arc<Link> {
        let [asked, silent] = [AtomicBool::new(false), AtomicBool::new(false)];
        let link = Arc::new(Link { port, asked, silent, end: watch::Sender::new(None) });
        self.state().open.push(link.clone());
        self.note(|seen| seen.connections += 1);
        link
    }

    /// It is no longer.
    pub fn closed(&self, link: &Arc<Link>) {
        self.state().open.retain(|open| !Arc::ptr_eq(open, link));
    }

    pub fn ports(&self) -> Vec<u16> {
        self.state().open.iter().map(|link| link.port).collect()
    }

    pub fn silence(&self, which: impl Fn(u16) -> bool) {
        self.each(which, |link| link.silent.store(true, SeqCst));
    }

    pub fn end(&self, which: impl Fn(u16) -> bool, end: End) {
        self.each(which, |link| _ = link.end.send_replace(Some(end)));
    }

    /// Outside the lock: `which` is the caller's.
    fn each(&self, which: impl Fn(u16) -> bool, act: impl Fn(&Link)) {
        let open = self.state().open.clone();
        open.iter().filter(|link| which(link.port)).for_each(|link| act(link));
    }

    pub fn note(&self, change: impl FnOnce(&mut Seen)) {
        self.seen.send_modify(change);
    }

    pub fn seen(&self) -> Seen {
        *self.seen.borrow()
    }

    pub async fn until(&self, happened: impl Fn(&Seen) -> bool) -> Seen {
        let mut seen = self.seen.subscribe();
        // The sender is in `self`, so the channel is open.
        seen.wait_for(happened).await.map_or_else(|_| self.seen(), |seen| *seen)
    }
}
