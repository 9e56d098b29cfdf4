//! The control thread: reserve, renew, settle, sweep, announce and the clock, on a runtime and a
//! store handle of their own, so that nothing an application does to its runtime stops them (K4).

use std::{
    cell::{Cell, RefCell},
    io,
    panic::{AssertUnwindSafe, catch_unwind},
    rc::Rc,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use tokio::{
    runtime::{Builder, Handle},
    select,
    sync::{Notify, mpsc, oneshot},
    time::{Instant, sleep_until},
};
use tokio_util::sync::CancellationToken;

use crate::{
    Queue,
    worker::{
        announce::Announcer,
        call::{Retry, call},
        config::{CALL, Config, StartError},
        ended::{Ended, How},
        exchange::Exchange,
        execute::{Executor, Message},
        heartbeat::Heartbeat,
        metrics::Metrics,
        panic,
        shared::Shared,
        shutdown::Shutdown,
        signals::Signals,
        sweep::Sweeper,
        table::Table,
        timeout::Clock,
        watch::Listener,
    },
};

/// After a second signal, how long the application may take to return before the process ends.
const LEAVE_WITHIN: Duration = Duration::from_secs(1);
/// Messages taken at once.
const MESSAGES: usize = 256;

/// What the thread needs.
pub(crate) struct Control {
    pub config: Arc<Config>,
    pub app: Arc<dyn Queue>,
    /// Where handlers run.
    pub runtime: Handle,
    /// Stop in order.
    pub stop: CancellationToken,
    /// End at once, leaving everything.
    pub abandon: CancellationToken,
    /// Stop when nothing is left to do.
    pub drains: bool,
    /// Listen for SIGTERM and SIGINT.
    pub signals: bool,
    /// The answer was heard.
    pub heard: Arc<AtomicBool>,
    pub answer: oneshot::Sender<Result<Ended, StartError>>,
}

impl Control {
    /// Starts the thread.
    pub fn spawn(self) -> io::Result<thread::JoinHandle<()>> {
        thread::Builder::new().name("jobs-control".to_owned()).spawn(|| self.main())
    }

    fn main(mut self) {
        let (answer, heard) = (self.answer, self.heard.clone());
        self.answer = oneshot::channel().0;
        let result = match Builder::new_current_thread().enable_all().build() {
            Ok(runtime) => {
                let served = catch_unwind(AssertUnwindSafe(|| runtime.block_on(self.serve())));
                // A driver's background work must not outlive the worker either.
                runtime.shutdown_timeout(Duration::from_secs(1));
                served.unwrap_or_else(|panic| {
                    let how = How::Failed(panic::describe(panic.as_ref()));
                    Ok(Ended { how, settled: 0, left: 0, stuck: 0 })
                })
            }
            Err(error) => Err(StartError::Runtime(error.to_string())),
        };
        let at_once = matches!(&result, Ok(Ended { how: How::SecondSignal, .. }));
        // Nobody listens when the worker's future was dropped.
        let _ = answer.send(result);
        if at_once {
            end_at_once(&heard);
        }
    }

    async fn serve(self) -> Result<Ended, StartError> {
        let signals = if self.signals { Some(Signals::listen()?) } else { None };
        let (stop, abandon) = (self.stop.clone(), self.abandon.clone());
        select! {
            ended = self.work() => ended,
            () = twice(signals, &stop) => Ok(at_once(How::SecondSignal)),
            () = abandon.cancelled() => Ok(at_once(How::Stopped)),
        }
    }

    async fn work(self) -> Result<Ended, StartError> {
        let Some(store) = self.open().await? else { return Ok(at_once(How::Stopped)) };
        let (ended, messages) = mpsc::unbounded_channel();
        let id = uuid::Uuid::new_v4();
        let shared = Rc::new(Shared {
            name: format!("{}:{id}", self.config.label),
            metrics: Metrics::new(&self.config),
            executor: Executor { runtime: self.runtime, ended },
            config: self.config,
            app: self.app,
            apart: store.settles_apart(),
            store,
            id,
            stop: self.stop,
            table: RefCell::new(Table::default()),
            settlements: RefCell::default(),
            work: Notify::new(),
            taken: Notify::new(),
            poke: Cell::new(false),
            asking: Cell::new(false),
            settling: Cell::new(0),
            swept: Cell::new(false),
            active: Cell::new(Instant::now()),
            settled: Cell::new(0),
            left: Cell::new(0),
        });
        let _drops = DropRuns(shared.clone());
        let exchange = Exchange::new(shared.clone(), self.drains)?;
        let forever = async {
            tokio::join!(
                exchange.run(),
                Listener { shared: shared.clone() }.run(),
                Heartbeat { shared: shared.clone() }.run(),
                Clock { shared: shared.clone() }.run(),
                Sweeper { shared: shared.clone() }.run(),
                Announcer { shared: shared.clone() }.run(),
                hear(&shared, messages),
            );
        };
        let ended = select! {
            ended = Shutdown { shared: shared.clone() }.run() => ended,
            () = forever => at_once(How::Failed("a stage ended".to_owned())),
        };
        Announcer::leave(shared).await;
        Ok(ended)
    }

    /// The thread's own handle. A store that is away is waited for; one that refuses is an error.
    async fn open(&self) -> Result<Option<Arc<dyn Queue>>, StartError> {
        let mut retry = Retry::new();
        loop {
            if self.stop.is_cancelled() {
                return Ok(None);
            }
            let opened = select! {
                opened = call(CALL, "open_own", self.app.open_own()) => opened,
                () = self.stop.cancelled() => return Ok(None),
            };
            match opened {
                Ok(store) => return Ok(Some(store)),
                Err(error) if error.is_transient() => retry.failed(&error),
                Err(error) => return Err(error.into()),
            }
            select! {
                () = sleep_until(retry.at) => {}
                () = self.stop.cancelled() => {}
            }
        }
    }
}

/// Hears how runs ended.
async fn hear(shared: &Shared, mut messages: mpsc::UnboundedReceiver<Message>) {
    let mut batch = Vec::with_capacity(MESSAGES);
    while messages.recv_many(&mut batch, MESSAGES).await > 0 {
        batch.drain(..).for_each(|message| shared.ended(message));
        // Quick handlers end as fast as they are heard: a reserve shall not wait for the last of them.
        tokio::task::yield_now().await;
    }
}

/// Stops at the first signal, returns at the second.
async fn twice(signals: Option<Signals>, stop: &CancellationToken) {
    let Some(mut signals) = signals else { return std::future::pending().await };
    signals.next().await;
    tracing::info!("shutting down; a second signal ends at once");
    stop.cancel();
    signals.next().await;
}

fn at_once(how: How) -> Ended {
    Ended { how, settled: 0, left: 0, stuck: 0 }
}

/// A second signal ends the process even where a handler blocks the thread that would return.
fn end_at_once(heard: &AtomicBool) {
    let until = std::time::Instant::now() + LEAVE_WITHIN;
    while std::time::Instant::now() < until {
        if heard.load(Ordering::Acquire) {
            return;
        }
        thread::sleep(Duration::from_millis(5));
    }
    std::process::exit(130);
}

/// However the thread ends, no handler goes on without it.
struct DropRuns(Rc<Shared>);

impl Drop for DropRuns {
    fn drop(&mut self) {
        for slot in self.0.table.borrow().slots.values() {
            slot.stop.cancel();
            slot.abort.abort();
        }
    }
}
