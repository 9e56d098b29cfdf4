//! The server is killed under load and comes back, at once or after a while. Producers push and
//! workers run all along: what was acknowledged ends once, nobody holds what another holds, and
//! everybody goes on by himself.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use jobs_core::{
    Context, Failure, JobRef, OutcomeKind, Payload, PushError, QueueExt, State, Worker,
    queue::{Lease, Pushed},
    view::JobRecord,
};
use jobs_postgres::Postgres;
use jobs_servers::PrivatePostgres;
use jobs_testkit::{
    invariants,
    kit::{NAME, QUEUE, grant, job},
    ops::record,
};
use tokio::{
    runtime::Builder,
    sync::watch,
    task::{JoinSet, spawn_blocking},
    time::{Instant, sleep, timeout},
};

/// The trials.
pub const TRIALS: &[(&str, fn())] = &[
    ("a_server_killed_under_load", || trial(Duration::ZERO, true)),
    ("a_server_away_for_six_seconds", || trial(Duration::from_secs(6), false)),
];

/// How often it goes away.
const TIMES: usize = 2;
/// Workers, each with its own handles.
const WORKERS: usize = 2;
/// Producers, each with its own handle.
const PRODUCERS: usize = 3;
/// Runs that must have ended before it goes away the next time.
const LOAD: u64 = 300;
/// Longer than an outage on a busy machine.
const LEASE: Duration = Duration::from_secs(45);
/// No phase takes longer, its outage aside.
const PATIENCE: Duration = Duration::from_secs(60);

/// What is seen from outside.
#[derive(Default)]
struct Seen {
    /// Who runs each job now.
    holders: Mutex<BTreeMap<JobRef, i64>>,
    /// What must not be.
    wrong: Mutex<Vec<String>>,
    /// Pushes that were answered, and those that had to be repeated.
    acknowledged: Mutex<BTreeSet<JobRef>>,
    repeated: AtomicU64,
    ended: AtomicU64,
    over: AtomicBool,
}

/// A handler's hold on its job, which is also over when it is dropped.
struct Hold<'s> {
    seen: &'s Seen,
    job: JobRef,
}

impl<'s> Hold<'s> {
    fn new(seen: &'s Seen, context: &Context) -> Self {
        let (job, fence) = (context.job().job_ref(), context.fence());
        let other = seen.holders.lock().expect("not poisoned").insert(job.clone(), fence);
        if let Some(other) = other {
            let what = format!("{job} has two holders: by fence {other} and {fence}");
            seen.wrong.lock().expect("not poisoned").push(what);
        }
        Self { seen, job }
    }
}

impl Drop for Hold<'_> {
    fn drop(&mut self) {
        self.seen.holders.lock().expect("not poisoned").remove(&self.job);
        self.seen.ended.fetch_add(1, Relaxed);
    }
}

fn trial(away: Duration, kill: bool) {
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.expect("a runtime").block_on(outages(away, kill));
}

async fn outages(away: Duration, kill: bool) {
    let start = || PrivatePostgres::start().expect("a server");
    let server = spawn_blocking(start).await.expect("it starts");
    let (url, server) = (server.url(), Arc::new(Mutex::new(server)));
    let store = Postgres::connect(&url).await.expect("it answers");
    store.migrate().await.expect("it migrates");
    let seen = Arc::new(Seen::default());
    let (stop, stopped) = watch::channel(false);
    let mut workers = JoinSet::new();
    for _ in 0..WORKERS {
        let store = Postgres::connect(&url).await.expect("it answers");
        workers.spawn(work(store, seen.clone(), stopped.clone()));
    }
    let mut producers = JoinSet::new();
    for number in 0..PRODUCERS {
        let store = Postgres::connect(&url).await.expect("it answers");
        producers.spawn(produce(store, seen.clone(), format!("t{number}")));
    }
    for _ in 0..TIMES {
        ran(&seen, LOAD).await;
        let server = server.clone();
        let outage = move || {
            let mut server = server.lock().expect("not poisoned");
            if kill { server.kill() } else { server.stop() }.expect("it ends");
            std::thread::sleep(away);
            server.start_again().expect("it recovers");
        };
        spawn_blocking(outage).await.expect("it comes back");
    }
    // Everybody resumes by himself, on the handles of before.
    ran(&seen, LOAD).await;
    seen.over.store(true, Relaxed);
    while let Some(done) = timeout(PATIENCE, producers.join_next()).await.expect("they go on") {
        done.expect("every push is answered in the end");
    }
    assert!(seen.repeated.load(Relaxed) > 0, "no push was disturbed, so nothing was shown");
    let jobs = seen.acknowledged.lock().expect("not poisoned").clone();
    let begun = Instant::now();
    for job in &jobs {
        while record(&store, job).await.view.state.is_live() {
            assert!(begun.elapsed() < PATIENCE, "{job} never ends");
            sleep(Duration::from_millis(20)).await;
        }
    }
    stop.send_replace(true);
    while let Some(ended) = timeout(PATIENCE, workers.join_next()).await.expect("they end") {
        ended.expect("it lives on");
    }
    judge(&store, &seen, jobs).await;
}

async fn judge(store: &Postgres, seen: &Seen, jobs: BTreeSet<JobRef>) {
    let wrong = seen.wrong.lock().expect("not poisoned").clone();
    assert!(wrong.is_empty(), "{wrong:#?}");
    // A push whose answer was lost is repeated until there is one, so these are all.
    assert_eq!(seen.ended.load(Relaxed), jobs.len() as u64, "each ran once");
    let records = invariants::hold_with(store, &Vec::from_iter(jobs)).await;
    for (job, record) in records {
        ended_once(&job, &record);
    }
}

/// Done, by its only delivery: no outage was longer than the lease, so nobody lost one.
fn ended_once(job: &JobRef, record: &JobRecord) {
    assert_eq!(record.view.state, State::Done, "{job}: {record:?}");
    let outcomes: Vec<_> = record.attempts.iter().map(|attempt| attempt.outcome).collect();
    assert_eq!(outcomes, [OutcomeKind::Done], "{job}: {:?}", record.attempts);
}

/// Waits for so many more runs.
async fn ran(seen: &Seen, more: u64) {
    let (begun, before) = (Instant::now(), seen.ended.load(Relaxed));
    while seen.ended.load(Relaxed) < before + more {
        assert!(begun.elapsed() < PATIENCE, "{} runs only", seen.ended.load(Relaxed) - before);
        sleep(Duration::from_millis(5)).await;
    }
}

async fn work(store: Postgres, seen: Arc<Seen>, mut stopped: watch::Receiver<bool>) {
    let worker = Worker::new(store).label("suite").queue(QUEUE, 1).concurrency(8);
    let worker = worker.lease(Lease::new(LEASE).expect("legal"));
    let worker = worker.handle_named(NAME, move |context: Context, _: Payload| {
        let seen = seen.clone();
        async move {
            let _hold = Hold::new(&seen, &context);
            // Most are quick, and some are met by whatever comes.
            let slow = fastrand::u8(0..20) == 0;
            sleep(Duration::from_millis(fastrand::u64(1..30) * if slow { 50 } else { 1 })).await;
            Ok::<_, Failure>(())
        }
    });
    let stop = async move {
        stopped.wait_for(|stopped| *stopped).await.ok();
    };
    let ended = worker.run_until(stop).await.expect("it starts");
    assert_eq!(ended.exit_code(), 0, "{ended:?}");
}

/// Pushes, and pushes again what was not answered.
async fn produce(store: Postgres, seen: Arc<Seen>, tenant: String) {
    while !seen.over.load(Relaxed) {
        let mut jobs: Vec<_> = (0..fastrand::usize(1..8)).map(|_| job(&tenant)).collect();
        let begun = Instant::now();
        while !jobs.is_empty() {
            let answers = store.push_many(&grant(&tenant), jobs.clone()).await;
            let mut again = Vec::new();
            for (job, answer) in jobs.into_iter().zip(answers) {
                match answer {
                    Ok(Pushed::Stored | Pushed::Duplicate(_)) => {
                        let mut known = seen.acknowledged.lock().expect("not poisoned");
                        known.insert(job.job_ref());
                    }
                    Ok(other) => panic!("{other:?}"),
                    Err(PushError::Store(error)) => {
                        assert!(error.is_transient(), "worth a repetition: {error:?}");
                        seen.repeated.fetch_add(1, Relaxed);
                        again.push(job);
                    }
                    Err(other) => panic!("{other:?}"),
                }
            }
            assert!(begun.elapsed() < PATIENCE, "a push is not answered");
            jobs = again;
            sleep(Duration::from_millis(20)).await;
        }
    }
}
