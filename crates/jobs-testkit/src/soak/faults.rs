//! Carries out the schedule, on the worker processes and the store.

use std::{
    cell::RefCell,
    future::Future,
    path::PathBuf,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use futures::{StreamExt, stream::FuturesUnordered};
use jobs_core::{
    Admin,
    admin::{LaneChange, LaneRef, Pause, Tuned},
};
use tokio::time::{Instant, sleep, sleep_until};

use super::{
    Done, Soak, Trouble,
    ledger::{Event, Pen},
    process::{Orders, Process, was_killed},
    producer::{self, NOISY, SMALL},
    schedule::{Fault, Kind},
    verbs,
    worker::QUEUES,
};
use crate::kit::operator;

/// Worker processes at a time.
pub const WORKERS: usize = 4;
/// How long a worker may take to end in order: its grace and what a slow store adds.
pub const LEAVE: Duration = Duration::from_secs(40);

/// The exit status of a worker that left something (K8).
pub const LEFT: i32 = 3;

/// The part of a run that disturbs it.
pub struct Disturber<'a> {
    /// The store's own faults.
    pub soak: &'a dyn Soak,
    /// A handle.
    pub store: Arc<dyn Admin>,
    /// Where the store is.
    pub url: String,
    /// Where the ledger is.
    pub directory: PathBuf,
    /// Its seed.
    pub seed: u64,
    /// The coordinator's part of the ledger.
    pub pen: Arc<Pen>,
    /// The workers; `None` while one of them is disturbed.
    workers: RefCell<Vec<Option<Process>>>,
    started: RefCell<Vec<u32>>,
    paused: RefCell<Vec<LaneRef>>,
}

/// Lanes to pause, and whole queues, from one of them on.
fn lanes(first: usize) -> impl Iterator<Item = LaneRef> {
    let tenants = [None, Some(NOISY), Some(SMALL[1]), Some(SMALL[2])];
    let number = QUEUES.len() * tenants.len();
    (first..first + number).map(move |at| LaneRef {
        queue: QUEUES[at % QUEUES.len()].0.to_owned(),
        tenant: tenants[at / QUEUES.len() % tenants.len()].map(str::to_owned),
    })
}

impl<'a> Disturber<'a> {
    /// Starts the workers.
    ///
    /// # Errors
    /// One does not start.
    pub fn start(
        soak: &'a dyn Soak,
        store: Arc<dyn Admin>,
        (url, directory, seed): (String, PathBuf, u64),
        pen: Arc<Pen>,
    ) -> Done<Self> {
        let (workers, started) = (RefCell::default(), RefCell::new(vec![0; WORKERS]));
        let paused = RefCell::default();
        let this = Self { soak, store, url, directory, seed, pen, workers, started, paused };
        for worker in 0..WORKERS {
            let process = this.start_worker(worker, Trouble::default())?;
            this.workers.borrow_mut().push(Some(process));
        }
        Ok(this)
    }

    fn start_worker(&self, worker: usize, trouble: Trouble) -> Done<Process> {
        let mut started = self.started.borrow_mut();
        started[worker] += 1;
        let label = format!("w{worker}.{}", started[worker]);
        let seed = self.seed.wrapping_mul(31).wrapping_add(u64::from(started[worker]));
        Process::start(&self.orders("worker", label, seed, trouble))
    }

    /// The orders of a process of this run.
    pub fn orders(&self, role: &str, label: String, seed: u64, trouble: Trouble) -> Orders {
        let (role, url, directory) = (role.to_owned(), self.url.clone(), self.directory.clone());
        Orders { role, label, url, directory, seed, trouble }
    }

    /// Carries out `faults`, which may overlap, and ends when the last one is over.
    ///
    /// # Errors
    /// A process does not start, or the store's fault cannot be made.
    pub async fn disturb(&self, faults: &[Fault], begun: Instant) -> Done {
        type Running<'f> = Pin<Box<dyn Future<Output = Done> + 'f>>;
        let all = faults.iter().enumerate().map(|(number, fault)| -> Running<'_> {
            Box::pin(async move {
                sleep_until(begun + fault.at).await;
                self.one(number, fault).await
            })
        });
        let mut all: FuturesUnordered<_> = all.collect();
        while let Some(done) = all.next().await {
            done?;
        }
        Ok(())
    }

    fn say(&self, number: usize, kind: Kind, who: Option<String>, over: bool) {
        self.pen.write(Event::Fault { number, kind, who, over });
    }

    async fn one(&self, number: usize, fault: &Fault) -> Done {
        let kind = fault.kind;
        match kind {
            Kind::Kill | Kind::Stop | Kind::Nap | Kind::Cut | Kind::Clock => {
                // All of them may be busy with a fault that takes long.
                let Some((worker, process)) = self.take(fault.target).await else { return Ok(()) };
                let who = Some(process.label.clone());
                self.say(number, kind, who.clone(), false);
                let process = self.to_worker(fault, worker, process).await?;
                self.say(number, kind, who, true);
                self.workers.borrow_mut()[worker] = Some(process);
            }
            Kind::Pause => self.pause(number, fault).await,
            Kind::Hold | Kind::Restart => self.to_store(number, fault).await?,
            Kind::Block | Kind::Verbs => {
                self.say(number, kind, None, false);
                self.to_jobs(fault).await?;
                self.say(number, kind, None, true);
            }
        }
        Ok(())
    }

    async fn take(&self, target: usize) -> Option<(usize, Process)> {
        for _ in 0..100 {
            for next in 0..WORKERS {
                let worker = (target + next) % WORKERS;
                if let Some(process) = self.workers.borrow_mut()[worker].take() {
                    return Some((worker, process));
                }
            }
            sleep(Duration::from_millis(100)).await;
        }
        None
    }

    async fn to_worker(&self, fault: &Fault, worker: usize, mut process: Process) -> Done<Process> {
        let mut trouble = Trouble::default();
        match fault.kind {
            Kind::Stop | Kind::Nap => {
                process.stop();
                sleep(fault.length).await;
                process.go_on();
                return Ok(process);
            }
            Kind::Kill => {
                process.kill();
                let status = process.end(LEAVE).await;
                // One that was gone by itself was not killed, whenever that is noticed.
                let clean = status.is_some_and(was_killed);
                let (who, status) = (process.label.clone(), format!("{status:?} when killed"));
                self.pen.write(Event::Gone { who, status, clean, left: false });
                sleep(fault.length).await;
            }
            Kind::Cut => {
                self.leave(&mut process, &[0, LEFT]).await;
                let cut = usize::try_from(fault.number).ok();
                // Half of them for as long as they live, not so often that no call comes through.
                match fault.target.is_multiple_of(2) {
                    true => trouble.cut_after = cut,
                    false => trouble.cut_every = cut.map(|cut| 60 + cut),
                }
            }
            _ => {
                self.leave(&mut process, &[0, LEFT]).await;
                trouble.clock_off = fault.number;
            }
        }
        self.start_worker(worker, trouble)
    }

    /// Asks a worker to end and waits for it; any other status than these is not clean.
    pub async fn leave(&self, process: &mut Process, expected: &[i32]) {
        let who = process.label.clone();
        self.pen.write(Event::Told { who: who.clone() });
        process.terminate();
        let status = process.end(LEAVE).await;
        let code = status.and_then(|status| status.code());
        let clean = code.is_some_and(|code| expected.contains(&code));
        let status = format!("{status:?} when told to end");
        let left = code == Some(LEFT);
        self.pen.write(Event::Gone { who, status, clean, left });
    }

    async fn to_store(&self, number: usize, fault: &Fault) -> Done {
        // It counts from when it is in force, and not from when it was asked for.
        let begun = AtomicBool::new(false);
        let (pen, kind) = (&self.pen, fault.kind);
        let begin = || {
            begun.store(true, Ordering::Relaxed);
            pen.write(Event::Fault { number, kind, who: None, over: false });
        };
        match kind {
            Kind::Hold => self.soak.hold(&self.url, fault.length, &begin).await?,
            _ => self.soak.restart(&self.url, &begin).await?,
        }
        if begun.into_inner() {
            self.say(number, kind, None, true);
        }
        Ok(())
    }

    async fn to_jobs(&self, fault: &Fault) -> Done {
        if fault.kind == Kind::Block {
            let jobs: Done<Vec<_>> =
                (0..WORKERS).map(|_| producer::job(SMALL[0], "blocks", "main")).collect();
            return producer::push(&*self.store, &self.pen, jobs?).await;
        }
        let mut random = fastrand::Rng::with_seed(fault.number.unsigned_abs());
        verbs::some(&*self.store, &self.pen, &mut random, fault.length).await;
        Ok(())
    }

    /// Pauses a lane that is not paused already: the end of one pause would be that of the other.
    async fn pause(&self, number: usize, fault: &Fault) {
        let free = |lane: &LaneRef| !self.paused.borrow().contains(lane);
        let Some(lane) = lanes(fault.target).find(free) else { return };
        self.paused.borrow_mut().push(lane.clone());
        let who = Some(format!("{}/{}", lane.queue, lane.tenant.as_deref().unwrap_or("*")));
        let paused = self.tune(&lane, Pause::On).await;
        // Between these lines it is paused: said after the answer, and before it is lifted.
        if paused {
            self.say(number, fault.kind, who.clone(), false);
        }
        sleep(fault.length).await;
        if paused {
            self.say(number, fault.kind, who, true);
        }
        self.tune(&lane, Pause::Off).await;
        self.paused.borrow_mut().retain(|other| *other != lane);
    }

    async fn tune(&self, lane: &LaneRef, pause: Pause) -> bool {
        let change = LaneChange { pause: Some(pause), ..LaneChange::default() };
        for _ in 0..20 {
            let permit = operator().await;
            if matches!(self.store.set_lane(&permit, lane, change).await, Ok(Tuned::Tuned)) {
                return true;
            }
            sleep(Duration::from_millis(200)).await;
        }
        false
    }

    /// Starts workers again that ended by themselves, and says so.
    ///
    /// # Errors
    /// One does not start.
    pub async fn look_after_workers(&self) -> Done {
        loop {
            sleep(Duration::from_millis(250)).await;
            for worker in 0..WORKERS {
                let mut workers = self.workers.borrow_mut();
                let Some(process) = &mut workers[worker] else { continue };
                let Some(status) = process.ended() else { continue };
                let (who, status) = (process.label.clone(), status.to_string());
                self.pen.write(Event::Gone { who, status, clean: false, left: false });
                workers[worker] = Some(self.start_worker(worker, Trouble::default())?);
            }
        }
    }

    /// The workers, to end them.
    pub fn workers(&self) -> Vec<Process> {
        self.workers.borrow_mut().drain(..).flatten().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_another_lane_to_pause() {
        for first in 0..20 {
            let all: Vec<LaneRef> = lanes(first).collect();
            let other = |(at, lane)| !all[..at].contains(lane);
            assert_eq!(all.len(), 8);
            assert!(all.iter().enumerate().all(other), "{all:?}");
        }
    }
}
