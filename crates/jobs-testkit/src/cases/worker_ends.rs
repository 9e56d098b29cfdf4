//! Cases: how runs end, and with which authority they run.

use std::time::Duration;

use jobs_core::{
    Cause, Job, OutcomeKind, PushError, Refusal, State,
    authorized::Field,
    job::{RunAt, Timeout},
    queue::Pushed,
    view::JobRecord,
    worker::{Context, Failure, StartError, Worker},
};

use super::worker_help::{
    Gate, Work, elsewhere, kept, look, push_all, short, state, until, work, worker,
};
use crate::kit::{Kit, QUEUE, grant, operator, permit, push};

super::cases![
    g4_a_handler_gets_the_same_authority_and_no_more,
    p5_a_handlers_limit_is_its_workers,
    k5_every_failure_is_on_record,
    k5_a_handler_decides,
    k5_a_requested_cancel_reaches_the_handler,
    k5_a_handler_stuck_for_ever,
    k5_a_stuck_handler_does_not_stop_a_drain,
    k6_own_backoff,
    k6_a_backoff_that_panics,
    k7_registration_is_checked,
    k7_extreme_settings_are_refused_or_clamped,
];

/// The handler's Grant is the pusher's authority, and what it pushes carries the person on.
async fn g4_a_handler_gets_the_same_authority_and_no_more(kit: &Kit) {
    let store = kit.handle().await;
    let parent = push(&*store, work("acme", 1)).await;
    let handler = async |context: Context, Work(number): Work| {
        let granted = context.grant();
        assert_eq!((granted.tenant(), granted.action()), (Some("acme"), "work.do"));
        assert_eq!((granted.subject(), granted.on_behalf_of()), ("system", Some("system:suite")));
        assert!(granted.check("work.other").is_err());
        if number == 1 {
            let foreign = Job { tenant: "other".to_owned(), ..work("acme", 3) };
            let refused = context.push(foreign).await;
            let is_forged =
                |refusal: &Refusal| matches!(refusal, Refusal::Forged { field: Field::Tenant, .. });
            assert!(matches!(refused, Err(PushError::Refused(why)) if is_forged(&why)));
            let child = Job::of(context.grant(), &Work(2))?;
            assert_eq!(context.push(child).await?, Pushed::Stored);
        }
        Ok::<(), Failure>(())
    };
    let ended = worker(store.clone()).handle(handler).run_until_idle().await.expect("it starts");
    assert_eq!(ended.settled, 2, "the parent and its child");
    let done = look(&*store, &parent).await;
    assert_eq!((done.view.state, done.attempts.len()), (State::Done, 1));
    let list = jobs_core::view::List::default();
    let page = store.list(&permit("acme"), &list).await.expect("the store answers");
    assert_eq!(page.jobs.len(), 2);
    for view in page.jobs {
        assert_eq!((view.state, view.last_cause), (State::Done, None));
        assert_eq!((&*view.job.authorized_by, &*view.job.action), ("system:suite", "work.do"));
    }
}

/// A handler pushes what its worker allows.
async fn p5_a_handlers_limit_is_its_workers(kit: &Kit) {
    let store = kit.handle().await;
    for (limit, state_of) in [(None, State::Parked), (Some(100_000), State::Done)] {
        let job = push(&*store, work("acme", 1).max_attempts(1)).await;
        let handler = async |context: Context, _: Work| {
            let large = Job::new(context.grant(), "large", &"x".repeat(70_000))?;
            assert_eq!(context.push(large.on("elsewhere")).await?, Pushed::Stored);
            Ok::<(), Failure>(())
        };
        let worker = worker(store.clone()).handle(handler);
        let worker = match limit {
            Some(limit) => worker.payload_limit(limit),
            None => worker,
        };
        assert_eq!(worker.run_until_idle().await.expect("it starts").settled, 1);
        assert_eq!(state(&*store, &job).await, state_of);
    }
}

fn cause(record: &JobRecord) -> &str {
    record.view.last_cause.as_ref().map(Cause::as_str).unwrap_or_default()
}

/// Error, panic, timeout and undecodable payload: a failed attempt each, and the worker goes on.
async fn k5_every_failure_is_on_record(kit: &Kit) {
    jobs_core::worker::install_panic_hook();
    let store = kit.handle().await;
    let mut jobs: Vec<_> = (0..4).map(|number| work("acme", number).max_attempts(1)).collect();
    jobs[2].timeout = Timeout::After(Duration::from_millis(100));
    jobs[3].payload = jobs_core::Payload::encode("no number").expect("JSON");
    push_all(&*store, &jobs).await;
    let retried = push(&*store, work("acme", 0)).await;
    let handler = async |_: Context, Work(number): Work| {
        match number {
            0 => Err("x".parse::<u8>().map(drop).expect_err("no number"))?,
            1 => panic!("boom {number}"),
            _ => std::future::pending().await,
        }
        Ok::<(), Failure>(())
    };
    let ended = worker(store.clone()).handle(handler).run_until_idle().await.expect("it starts");
    assert_eq!((ended.exit_code(), ended.settled), (0, 5));
    let texts = ["invalid digit", "boom 1", "timed out after 100ms", "the payload is no "];
    for (job, text) in jobs.iter().zip(texts) {
        let record = look(&*store, job).await;
        assert_eq!(record.view.state, State::Parked);
        assert_eq!(record.attempts.len(), 1);
        assert!(cause(&record).contains(text), "{} in {}", text, cause(&record));
    }
    let panicked = look(&*store, &jobs[1]).await;
    assert!(cause(&panicked).contains("worker_ends.rs"), "no location in {}", cause(&panicked));
    let record = look(&*store, &retried).await;
    assert_eq!(
        (record.view.state, record.attempts[0].outcome),
        (State::Scheduled, OutcomeKind::Retry)
    );
}

/// A handler can say what becomes of its job.
async fn k5_a_handler_decides(kit: &Kit) {
    let store = kit.handle().await;
    let jobs: Vec<_> = (0..4).map(|number| work("acme", number)).collect();
    push_all(&*store, &jobs).await;
    let hour = Duration::from_secs(3600);
    let handler = async |_: Context, Work(number): Work| {
        let hour = Duration::from_secs(3600);
        Err::<(), Failure>(match number {
            0 => Failure::park("a person decides"),
            1 => Failure::snooze(hour),
            2 => Failure::cancel("not any more"),
            _ => Failure::retry_after(hour, "later"),
        })
    };
    let ended = worker(store.clone()).handle(handler).run_until_idle().await.expect("it starts");
    assert_eq!(ended.settled, 4);
    let mut records = Vec::new();
    for job in &jobs {
        records.push(look(&*store, job).await);
    }
    let states: Vec<_> = records.iter().map(|record| record.view.state).collect();
    assert_eq!(states, [State::Parked, State::Scheduled, State::Cancelled, State::Scheduled]);
    assert_eq!([cause(&records[0]), cause(&records[2])], ["a person decides", "not any more"]);
    assert_eq!((records[1].view.attempt, records[1].snoozes), (0, 1));
    assert_eq!((records[3].view.attempt, cause(&records[3])), (1, "later"));
    for record in [&records[1], &records[3]] {
        let wait = wait(record);
        assert!(wait <= hour && wait > hour - Duration::from_secs(60), "{wait:?}");
    }
}

/// How long until it is due.
fn wait(record: &JobRecord) -> Duration {
    let RunAt::At(due) = record.view.job.run_at else { panic!("no due time") };
    Duration::try_from(due.duration_since(record.now)).unwrap_or_default()
}

/// An operator's cancel: the token, then the future is dropped, and the job ends as cancelled.
async fn k5_a_requested_cancel_reaches_the_handler(kit: &Kit) {
    let store = kit.handle().await;
    let jobs: Vec<_> = (0..2).map(|number| work("acme", number)).collect();
    push_all(&*store, &jobs).await;
    let handler = async |context: Context, Work(number): Work| {
        match number {
            0 => context.cancelled().await,
            // Deaf, but it can be dropped.
            _ => std::future::pending().await,
        }
        Err::<(), Failure>(Failure::retry("told to"))
    };
    let runs = worker(store.clone()).lease(short()).handle(handler).run_until_idle();
    let cancels = async {
        for job in &jobs {
            until("it runs", || async { state(&*store, job).await == State::Running }).await;
            store.cancel(&permit("acme"), &[job.job_ref()]).await.expect("the store answers");
        }
    };
    let (ended, ()) = tokio::join!(runs, cancels);
    assert_eq!(ended.expect("it starts").exit_code(), 0);
    for job in &jobs {
        assert_eq!(state(&*store, job).await, State::Cancelled);
    }
}

/// A handler that blocks its thread past its timeout, for ever: its job is settled without it,
/// its slot is reported, and the worker lives on.
async fn k5_a_handler_stuck_for_ever(kit: &Kit) {
    let store = kit.handle().await;
    let stuck = work("acme", 0).max_attempts(1).timeout(Timeout::After(Duration::from_secs(1)));
    let stuck = push(&*store, stuck).await;
    let (gate, stop) = (Gate::default(), std::sync::Arc::new(tokio::sync::Notify::new()));
    let application = {
        let (fixture, namespace) = (kit.fixture.clone(), kit.namespace.clone());
        let (gate, stop) = (gate.clone(), stop.clone());
        elsewhere(2, move || async move {
            let store = fixture.make(&namespace, Default::default()).await;
            let handler = move |_: Context, Work(number): Work| {
                let gate = gate.clone();
                async move {
                    if number == 0 {
                        gate.block();
                    }
                    Ok::<(), Failure>(())
                }
            };
            let worker = worker(store).concurrency(2).lease(kept()).handle(handler);
            worker.run_until(async move { stop.notified().await }).await.expect("it starts")
        })
    };
    until("it is settled", || async { state(&*store, &stuck).await == State::Parked }).await;
    let record = look(&*store, &stuck).await;
    assert!(cause(&record).contains("timed out after 1s"), "{}", cause(&record));
    let other = push(&*store, work("acme", 1)).await;
    until("another job", || async { state(&*store, &other).await == State::Done }).await;
    let reported = || async {
        let workers = store.workers(&operator().await).await.expect("the store answers");
        workers.iter().any(|view| view.worker.stuck == 1)
    };
    until("the slot is reported", reported).await;
    stop.notify_one();
    // It can return while the handler blocks, because the runtime has another thread; the runtime
    // itself ends when the gate opens.
    tokio::time::sleep(Duration::from_secs(3)).await;
    gate.open();
    let ended = tokio::task::spawn_blocking(|| application.join()).await.expect("joined");
    let ended = ended.expect("no panic");
    assert_eq!((ended.exit_code(), ended.stuck, ended.left), (3, 1, 0));
    assert_eq!(state(&*store, &stuck).await, State::Parked, "its late result changes nothing");
}

/// A worker with one slot, and a handler that blocks it for ever: what can be done is done, and
/// the worker says that something is left.
async fn k5_a_stuck_handler_does_not_stop_a_drain(kit: &Kit) {
    let store = kit.handle().await;
    let stuck = work("acme", 0).max_attempts(1).timeout(Timeout::After(Duration::from_millis(200)));
    let stuck = push(&*store, stuck).await;
    let (fixture, namespace) = (kit.fixture.clone(), kit.namespace.clone());
    let application = elsewhere(2, move || async move {
        let store = fixture.make(&namespace, Default::default()).await;
        let gate = Gate::default();
        let blocks = gate.clone();
        let handler = move |_: Context, _: Work| {
            let gate = blocks.clone();
            async move {
                gate.block();
                Ok::<(), Failure>(())
            }
        };
        let runs = worker(store).concurrency(1).handle(handler).run_until_idle();
        let ended = tokio::time::timeout(Duration::from_secs(60), runs).await;
        gate.open();
        ended
    });
    let ended = tokio::task::spawn_blocking(|| application.join()).await.expect("joined");
    let ended = ended.expect("no panic").expect("it returns").expect("it starts");
    assert_eq!((ended.exit_code(), ended.stuck, ended.left), (3, 1, 0));
    assert_eq!(state(&*store, &stuck).await, State::Parked);
}

/// A job type of its own.
#[derive(serde::Serialize, serde::Deserialize)]
struct Other;

impl jobs_core::JobType for Other {
    const NAME: &'static str = "other";
    const QUEUE: &'static str = QUEUE;
}

/// The worker's backoff, and the type's own.
async fn k6_own_backoff(kit: &Kit) {
    let store = kit.handle().await;
    let first = push(&*store, work("acme", 0)).await;
    let second = push(&*store, Job::of(&grant("acme"), &Other).expect("JSON")).await;
    let seconds = |attempt: u32| Duration::from_secs(1000 * u64::from(attempt));
    let worker = worker(store.clone())
        .backoff(seconds)
        .handle(async |_: Context, _: Work| Err::<(), _>(Failure::retry("no")))
        .handle(async |_: Context, _: Other| Err::<(), _>(Failure::retry("no")))
        .backoff_of::<Other>(|_| Duration::from_secs(5000));
    assert_eq!(worker.run_until_idle().await.expect("it starts").settled, 2);
    for (job, delay) in [(first, 1000), (second, 5000)] {
        // Jitter takes up to a tenth, the machine a moment.
        let wait = wait(&look(&*store, &job).await).as_secs();
        assert!((delay * 9 / 10 - 60..=delay).contains(&wait), "{wait} of {delay}");
    }
}

/// Twice one name panics; no handlers, no slots and no legal name are refused.
async fn k7_registration_is_checked(kit: &Kit) {
    let store = kit.handle().await;
    let handler = || async |_: Context, _: Work| Ok::<(), Failure>(());
    let twice = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let _ = worker(store.clone()).handle(handler()).handle(handler());
    }));
    assert!(twice.is_err(), "two handlers for one name");
    let refused = worker(store.clone()).run_until_idle().await.expect_err("no handlers");
    assert!(matches!(refused, StartError::NoHandlers) && refused.exit_code() == 2);
    let none = worker(store.clone()).concurrency(0).handle(handler()).run_until_idle().await;
    assert!(matches!(none, Err(StartError::NoSlots)));
    let bad = Worker::new(store.clone()).queue("Not A Name", 1).handle(handler());
    assert!(matches!(bad.run_until_idle().await, Err(StartError::BadName(_))));
    // A type that implements the trait works like a closure.
    struct Named;
    impl jobs_core::Handler<Work> for Named {
        type Error = std::convert::Infallible;
        async fn run(&self, _: Context, _: Work) -> Result<(), Self::Error> {
            Ok(())
        }
    }
    push(&*store, work("acme", 1)).await;
    let ended = worker(store).handle_with::<Work>(Named).run_until_idle().await;
    assert_eq!(ended.expect("it starts").settled, 1);
}

/// A backoff function that panics: the attempt fails as any other, by the default's delay, and
/// nobody asks it about a job that is parked.
async fn k6_a_backoff_that_panics(kit: &Kit) {
    let store = kit.handle().await;
    let job = push(&*store, work("acme", 0)).await;
    let last = push(&*store, work("acme", 1).max_attempts(1)).await;
    let worker = worker(store.clone())
        .backoff(|attempt| panic!("no delay for {attempt}"))
        .handle(async |_: Context, _: Work| Err::<(), _>(Failure::retry("no")));
    let ended = worker.run_until_idle().await.expect("it starts");
    assert_eq!((ended.exit_code(), ended.settled), (0, 2), "{ended:?}");
    let wait = wait(&look(&*store, &job).await);
    assert!(wait <= Duration::from_secs(15), "{wait:?}");
    assert_eq!(state(&*store, &last).await, State::Parked);
}

/// A job type with a timeout and a number of attempts.
macro_rules! extreme {
    ($name:ident, $timeout:expr, $attempts:expr) => {
        #[derive(serde::Serialize, serde::Deserialize)]
        struct $name;
        impl jobs_core::JobType for $name {
            const NAME: &'static str = "extreme";
            const TIMEOUT: Timeout = $timeout;
            const MAX_ATTEMPTS: u32 = $attempts;
        }
    };
}
extreme!(Endless, Timeout::After(Duration::MAX), 5);
extreme!(Instant, Timeout::After(Duration::ZERO), 5);
extreme!(Never, Timeout::Never, 0);

/// What a type says is refused with its name where no push could say it; a grace without end is
/// the longest there is.
async fn k7_extreme_settings_are_refused_or_clamped(kit: &Kit) {
    let store = kit.handle().await;
    let on = || Worker::new(store.clone());
    let types = [
        on().handle(async |_: Context, _: Endless| Ok::<(), Failure>(())),
        on().handle(async |_: Context, _: Instant| Ok::<(), Failure>(())),
        on().handle(async |_: Context, _: Never| Ok::<(), Failure>(())),
    ];
    for worker in types {
        let refused = worker.run_until_idle().await.expect_err("it is refused");
        assert!(matches!(&refused, StartError::BadType { .. }), "{refused:?}");
        assert!(refused.to_string().contains("extreme"), "{refused}");
    }
    let twice = worker(store.clone()).queue(QUEUE, 2);
    let twice = twice.handle(async |_: Context, _: Work| Ok::<(), Failure>(()));
    assert!(matches!(twice.run_until_idle().await, Err(StartError::QueueTwice(_))));
    let job = push(&*store, work("acme", 1)).await;
    let endless = worker(store.clone()).grace(Duration::MAX);
    let endless = endless.handle(async |_: Context, _: Work| Ok::<(), Failure>(()));
    assert_eq!(endless.run_until_idle().await.expect("it starts").exit_code(), 0);
    assert_eq!(state(&*store, &job).await, State::Done);
}
