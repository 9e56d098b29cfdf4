//! The coordinator: starts the processes, lets the faults happen, heals, drains, and holds the
//! ledger against the store.

use std::{
    collections::BTreeMap,
    fs::DirBuilder,
    io::ErrorKind,
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use jobs_core::Admin;
use tokio::{
    runtime::Builder,
    select,
    time::{Instant, sleep_until},
    try_join,
};
use uuid::Uuid;

use super::{
    Done, Soak, Trouble,
    check::{self, Evidence, Violation},
    danger::Danger,
    faults::{Disturber, LEAVE, LEFT},
    figures::Figures,
    ledger::{Event, Pen},
    left::{self, Open},
    opened, probe,
    process::Process,
    producer::NOISY,
    read::Ledger,
    schedule::{Fault, schedule},
    store,
    strict::Strict,
};

/// How long what is left may take to drain.
const DRAIN: Duration = Duration::from_secs(120);
/// When every lost lease was swept, and its worker counts it no more.
pub const FOUND: Duration = Duration::from_secs(13);
/// How often the store is asked about its soundness while the run goes on.
const LOOKS: u32 = 20;
const LEFT_OPEN: &str = "nothing is left";
/// Violations that are shown in full.
const SHOWN: usize = 10;
/// Lines of the ledger shown for each.
const LINES: usize = 40;

/// What was asked for.
#[derive(Clone, Copy, Debug)]
pub struct Wanted {
    length: Duration,
    seed: u64,
    /// It ends when its standard input does.
    pub leashed: bool,
}

impl Wanted {
    /// From the command line.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn read(arguments: &[String]) -> Done<Self> {
        let mut wanted =
            Self { length: Duration::from_secs(180), seed: fastrand::u64(..), leashed: false };
        let mut arguments = arguments.iter();
        while let Some(argument) = arguments.next() {
            let mut value = |what: &str| {
                let value = arguments.next();
                value.ok_or_else(|| format!("{argument} needs {what}")).cloned()
            };
            match argument.as_str() {
                "--minutes" => {
                    let minutes = value("a number of minutes")?;
                    let minutes: f64 =
                        minutes.parse().map_err(|_| format!("{minutes} minutes?"))?;
                    let length = Duration::try_from_secs_f64(minutes * 60.0);
                    wanted.length = length.map_err(|error| error.to_string())?;
                }
                "--seed" => {
                    let seed = value("a number")?;
                    wanted.seed = seed.parse().map_err(|_| format!("{seed} is no seed"))?;
                }
                "--leashed" => wanted.leashed = true,
                other => return Err(format!("{other}: use --minutes N, --seed S")),
            }
        }
        Ok(wanted)
    }

    /// What a test runs.
    pub fn short() -> Self {
        Self { length: Duration::from_secs(25), seed: 20_26, leashed: false }
    }
}

/// Runs it.
///
/// # Errors
/// What is out of place, or why it could not be run.
pub fn run(soak: &dyn Soak, wanted: &Wanted) -> Done {
    let directory = fresh(&std::env::temp_dir())?;
    let (seed, seconds) = (wanted.seed, wanted.length.as_secs());
    println!("soak of {}, {seconds} s, seed {seed}, in {}", soak.name(), directory.display());
    let faults = schedule(seed, wanted.length, soak.faults());
    let runtime = || Builder::new_current_thread().enable_all().build().map_err(|e| e.to_string());
    left::listen()?;
    // A server of the store's own stays for as long as the store does.
    let url = soak.url(&directory)?;
    let before = Open::now();
    let violations = {
        // Children are tied to the thread that starts them: it is this one.
        let runtime = runtime()?;
        let disturbed = runtime.block_on(async {
            let whole = disturb(soak, &url, &directory, wanted, &faults);
            select! {
                done = whole => done,
                () = interrupted() => Err("interrupted".to_owned()),
            }
        });
        disturbed.and_then(|()| runtime.block_on(judge(soak, &url, &directory, wanted, &faults)))
    };
    let mut violations = violations.map_err(|why| format!("{why} (seed {seed})"))?;
    let left = [before.left(), left::strangers(soak, &directory)].concat();
    violations.extend(left.into_iter().map(|what| Violation::new(LEFT_OPEN, None, what)));
    if violations.is_empty() {
        println!("nothing out of place, seed {seed}");
        return std::fs::remove_dir_all(&directory).map_err(|error| error.to_string());
    }
    show(&directory, &violations);
    let (number, kept) = (violations.len(), directory.display());
    Err(format!("{number} out of place, seed {seed}; the ledger is kept in {kept}"))
}

/// A directory of the run's own that was not there before: an earlier ledger would be taken for
/// this one's.
fn fresh(parent: &Path) -> Done<PathBuf> {
    loop {
        let path = parent.join(format!("jobs-soak-{}", Uuid::new_v4().simple()));
        match DirBuilder::new().mode(0o700).create(&path) {
            Ok(()) => return Ok(path),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => return Err(format!("{}: {error}", path.display())),
        }
    }
}

async fn interrupted() {
    let Ok([mut terminate, mut interrupt]) = left::signals() else {
        return std::future::pending().await;
    };
    select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
}

async fn disturb(
    soak: &dyn Soak,
    url: &str,
    directory: &Path,
    wanted: &Wanted,
    faults: &[Fault],
) -> Done {
    let pen = Arc::new(Pen::open(directory, "coordinator")?);
    let store = opened(soak, url, Trouble::default()).await?;
    let store: Arc<dyn Admin> = Arc::new(Strict::new(store, pen.clone()));
    let place = (url.to_owned(), PathBuf::from(directory), wanted.seed);
    let disturber = Disturber::start(soak, store.clone(), place, pen.clone())?;
    let producer = |label: &str| {
        let orders =
            disturber.orders("producer", label.to_owned(), wanted.seed, Trouble::default());
        Process::start(&orders)
    };
    let mut producers = vec![producer(&format!("{NOISY}.1"))?, producer("small.1")?];
    let begun = Instant::now();
    {
        let until = begun + wanted.length;
        let faults = async {
            disturber.disturb(faults, begun).await?;
            sleep_until(until).await;
            Done::Ok(())
        };
        // What pushes comes to its own end.
        let active = async { try_join!(faults, probe::newcomers(&*store, &pen, until)) };
        let look = (wanted.length / LOOKS).max(Duration::from_secs(1));
        select! {
            done = active => drop(done?),
            done = disturber.look_after_workers() => done?,
            () = probe::soundness(soak, url, &pen, look) => {}
            () = probe::clock(&*store, &pen) => {}
            () = probe::keys(&*store, &pen) => {}
        }
    }
    println!("faults are over after {:?}, draining", begun.elapsed());
    let healed = heal(&disturber, &*store, &mut producers);
    select! {
        () = healed => {}
        () = probe::clock(&*store, &pen) => {}
    }
    drop(disturber);
    Ok(())
}

/// Lets the producers finish and the workers drain, and ends them in order.
async fn heal(disturber: &Disturber<'_>, store: &dyn Admin, producers: &mut [Process]) {
    let over = Instant::now();
    for producer in &mut *producers {
        producer.finish();
    }
    for producer in producers {
        let status = producer.end(LEAVE).await;
        let clean = status.is_some_and(|status| status.success());
        let (who, status) = (producer.label.clone(), format!("{status:?}"));
        disturber.pen.write(Event::Gone { who, status, clean, left: false });
    }
    store::drained(store, DRAIN).await;
    probe::look_at_keys(store, &disturber.pen).await;
    // For that long a worker that lost a lease reports the job as left: nobody may have it yet.
    // What is lost after it is judged by when it was (`check/reach.rs`).
    sleep_until(over + FOUND).await;
    for mut worker in disturber.workers() {
        disturber.leave(&mut worker, &[0, LEFT]).await;
    }
}

async fn judge(
    soak: &dyn Soak,
    url: &str,
    directory: &Path,
    wanted: &Wanted,
    faults: &[Fault],
) -> Done<Vec<Violation>> {
    let ledger = Ledger::read(directory)?;
    let handle = opened(soak, url, Trouble::default()).await?;
    let mut store = store::read(&*handle, &ledger).await?;
    drop(handle);
    store.findings.extend(soak.unsound(url).await?);
    let danger = Danger::new(&ledger);
    let scheduled = faults.iter().map(|fault| fault.kind).collect();
    let evidence =
        Evidence { ledger, store, danger, length: wanted.length, has: soak.faults(), scheduled };
    let mut violations = check::all(&evidence);
    let left = left::connections(soak, url).await?;
    violations.extend(left.into_iter().map(|what| Violation::new(LEFT_OPEN, None, what)));
    let figures = Figures::new(&evidence).of_run(wanted.seed, violations.len());
    println!("{}", serde_json::to_string(&figures).map_err(|error| error.to_string())?);
    Ok(violations)
}

fn show(directory: &Path, violations: &[Violation]) {
    let mut promises: BTreeMap<&str, usize> = BTreeMap::new();
    violations.iter().for_each(|violation| *promises.entry(violation.promise).or_default() += 1);
    println!("broken promises: {promises:?}");
    for violation in violations.iter().take(SHOWN) {
        println!("out of place: {violation}");
        if let Some(job) = &violation.job {
            let lines = check::lines_about(directory, &job.id.to_string());
            lines.iter().take(LINES).for_each(|line| println!("    {line}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_run_has_a_directory_of_its_own() {
        let parent = fresh(&std::env::temp_dir()).unwrap();
        let [one, other] = [(), ()].map(|()| fresh(&parent).unwrap());
        assert!(one != other && one.is_dir() && other.is_dir());
        std::fs::remove_dir_all(&parent).unwrap();
        assert!(fresh(&parent).unwrap_err().contains("jobs-soak-"), "its parent is gone");
    }
}
