//! Delay, silence, resets and refusals: no call takes longer than its deadline and a margin, the
//! error is typed and says to try again, and the handle works again by itself.

use std::{sync::Arc, time::Duration};

use jobs_core::{
    Admin, Claim, ErrorKind, Job, JobRef, Outcome, Queue, QueueExt, Result, Settlement,
    admin::{LaneChange, LaneRef, Pause},
    queue::{Lease, Pushed, Worker},
    view::{Lanes, List},
};
use jobs_postgres::{Options, Postgres};
use jobs_testkit::{
    cases::Case,
    kit::{Kit, QUEUE, checked, grant, job, operator, take_one, wants},
    proxy::{Mode, Proxy},
};
use tokio::{
    task::JoinSet,
    time::{Instant, sleep, timeout},
};
use uuid::Uuid;

use crate::common;

/// Of each call.
const DEADLINE: Duration = Duration::from_secs(2);
/// What a busy machine may add.
const MARGIN: Duration = Duration::from_secs(1);
/// All verbs.
const VERBS: [&str; 16] = [
    "enqueue",
    "enqueue 3000",
    "reserve",
    "renew",
    "settle",
    "settle_and_reserve",
    "sweep",
    "announce",
    "get",
    "list",
    "counts",
    "retry 3000",
    "cancel",
    "delete",
    "set_lane",
    "check",
];

macro_rules! case {
    ($name:ident) => {
        Case { name: stringify!($name), crosses_processes: false, run: |kit| Box::pin($name(kit)) }
    };
}

/// The cases.
pub const CASES: &[Case] = &[
    case!(a_delay_within_the_deadline_is_only_slow),
    case!(a_delay_beyond_the_deadline_is_a_timeout),
    case!(a_silent_network_is_a_timeout),
    case!(a_dropped_call_takes_its_silent_neighbours_with_it),
    case!(a_reset_is_an_error_at_once),
    case!(a_refusal_is_an_error_at_once),
];

/// A handle behind a proxy of its own, and a job that it holds.
#[derive(Clone)]
struct Far {
    store: Postgres,
    proxy: Arc<Proxy>,
    claim: Claim,
    jobs: Vec<Job>,
}

impl Far {
    /// With several idle connections.
    async fn new(kit: &Kit) -> Self {
        let url = common::url();
        let proxy = Arc::new(Proxy::before(&url).expect("a proxy"));
        let options = Options::new(&proxy.url(&url)).and_then(|o| o.schema(&kit.namespace));
        let options = options.expect("a URL and a name").deadline(DEADLINE);
        let store = Postgres::open(options).await.expect("the server answers");
        let tenant = format!("t{}", Uuid::new_v4().simple());
        let jobs: Vec<Job> = (0..3000).map(|_| job(&tenant)).collect();
        let near = kit.handle().await;
        let pushed = near.push(&grant(&tenant), jobs[0].clone()).await;
        assert_eq!(pushed.expect("the server answers"), Pushed::Stored);
        let claim = take_one(&*near).await.claim;
        let far = Self { store, proxy, claim, jobs };
        while far.proxy.ports().len() < 4 {
            let read = operator().await;
            let all = List::default();
            let calls = [(); 8].map(|()| far.store.list(&read, &all));
            let [a, b, c, d, e, f, g, h] = calls;
            let _ = tokio::join!(a, b, c, d, e, f, g, h);
        }
        far
    }

    async fn ask(&self, verb: &str) -> Result<()> {
        let (store, read) = (&self.store, operator().await);
        let job = self.claim.job.clone();
        let done = [Settlement { claim: self.claim.clone(), outcome: Outcome::Done }];
        let first = |answers: Vec<Result<Pushed>>| {
            answers.into_iter().find_map(Result::err).map_or(Ok(()), Err)
        };
        // Kept as it is, so that every call finds it: another's claim settles nothing.
        let mut others = done.clone();
        others[0].claim.fence += 1;
        match verb {
            "enqueue" => first(store.enqueue(&[checked(self.jobs[1].clone())]).await),
            "enqueue 3000" => {
                let jobs: Vec<_> = self.jobs.iter().cloned().map(checked).collect();
                first(store.enqueue(&jobs).await)
            }
            "reserve" => store.reserve(&wants(1)).await.map(drop),
            "renew" => {
                let claims = std::slice::from_ref(&self.claim);
                store.renew(Lease::default(), claims).await.map(drop)
            }
            "settle" => store.settle(&done).await.map(drop),
            "settle_and_reserve" => store.settle_and_reserve(&others, &wants(1)).await.map(drop),
            "sweep" => store.sweep().await.map(drop),
            "announce" => {
                let id = Uuid::new_v4();
                let (label, queues, names) = ("suite".to_owned(), Vec::new(), Vec::new());
                let worker = Worker {
                    id,
                    label,
                    queues,
                    names,
                    slots: 1,
                    busy: 0,
                    stuck: 0,
                    leaving: false,
                };
                store.announce(&worker).await
            }
            "get" => store.get(&read, &job).await.map(drop),
            "list" => store.list(&read, &List::default()).await.map(drop),
            "counts" => store.counts(&read, &Lanes::default()).await.map(drop),
            "retry 3000" => {
                let jobs: Vec<JobRef> = self.jobs.iter().map(Job::job_ref).collect();
                store.retry(&operator().await, &jobs).await.map(drop)
            }
            "cancel" => store.cancel(&operator().await, &[self.jobs[2].job_ref()]).await.map(drop),
            "delete" => store.delete(&operator().await, &[self.jobs[2].job_ref()]).await.map(drop),
            "set_lane" => {
                let lane = LaneRef { queue: QUEUE.to_owned(), tenant: Some(job.tenant) };
                let change = LaneChange { pause: Some(Pause::Off), ..LaneChange::default() };
                store.set_lane(&operator().await, &lane, change).await.map(drop)
            }
            "check" => store.check(&read).await.map(drop),
            other => panic!("no verb {other}"),
        }
    }

    /// What it answers, within its time.
    async fn in_time(&self, verb: &str) -> Result<()> {
        let begun = Instant::now();
        let answer = timeout(4 * DEADLINE, self.ask(verb)).await;
        let took = begun.elapsed();
        assert!(took < DEADLINE + MARGIN, "{verb} took {took:?}, its deadline is {DEADLINE:?}");
        answer.expect("it took less")
    }

    /// It works, at once.
    async fn works(&self, verb: &str) {
        if let Err(error) = self.in_time(verb).await {
            panic!("{verb} does not work again: {error:?}");
        }
    }
}

/// Every verb on a handle of its own, all together: each waits for its deadline.
async fn every<F, R>(kit: &Kit, fault: F)
where
    F: Fn(Far, &'static str) -> R,
    R: Future<Output = ()> + Send + 'static,
{
    let mut all = JoinSet::new();
    for verb in VERBS {
        let far = Far::new(kit).await;
        all.spawn(fault(far, verb));
    }
    while let Some(done) = all.join_next().await {
        done.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()));
    }
}

fn failed(verb: &str, answer: Result<()>, kinds: &[ErrorKind]) {
    let Err(error) = answer else { panic!("{verb} was answered") };
    assert!(kinds.contains(&error.kind()), "{verb}: {error:?}");
    assert!(error.is_transient(), "{verb}: worth a repetition: {error:?}");
}

async fn a_delay_within_the_deadline_is_only_slow(kit: &Kit) {
    every(kit, |far, verb| async move {
        far.proxy.set(Mode::Delay(Duration::from_millis(40)));
        far.works(verb).await;
    })
    .await;
}

async fn a_delay_beyond_the_deadline_is_a_timeout(kit: &Kit) {
    every(kit, |far, verb| async move {
        far.proxy.set(Mode::Delay(DEADLINE));
        failed(verb, far.in_time(verb).await, &[ErrorKind::Timeout]);
        far.proxy.set(Mode::Pass);
        far.works(verb).await;
    })
    .await;
}

async fn a_silent_network_is_a_timeout(kit: &Kit) {
    every(kit, |far, verb| async move {
        far.proxy.set(Mode::Silent);
        failed(verb, far.in_time(verb).await, &[ErrorKind::Timeout]);
        // Connections of before stay silent: it must not try them one by one.
        far.proxy.silence(|_| true);
        far.proxy.set(Mode::Pass);
        far.works(verb).await;
    })
    .await;
}

/// As a worker does, whose calls have shorter deadlines.
async fn a_dropped_call_takes_its_silent_neighbours_with_it(kit: &Kit) {
    every(kit, |far, verb| async move {
        far.proxy.silence(|_| true);
        let dropped = timeout(DEADLINE / 4, far.ask(verb)).await;
        assert!(dropped.is_err(), "{verb}: nobody answers");
        far.works(verb).await;
    })
    .await;
}

async fn a_reset_is_an_error_at_once(kit: &Kit) {
    every(kit, |far, verb| async move {
        let kinds = [ErrorKind::Unavailable];
        // In the middle of a call, of which the reply is on its way.
        far.proxy.set(Mode::Delay(DEADLINE / 8));
        let before = far.proxy.seen().requests;
        let reset = async {
            far.proxy.until(|seen| seen.requests > before).await;
            far.proxy.set(Mode::Pass);
            far.proxy.reset(|_| true);
        };
        let (answer, ()) = tokio::join!(far.in_time(verb), reset);
        failed(verb, answer, &kinds);
        far.works(verb).await;
        // Between two calls.
        far.proxy.reset(|_| true);
        while !far.proxy.ports().is_empty() {
            sleep(Duration::from_millis(1)).await;
        }
        if let Err(error) = far.in_time(verb).await {
            failed(verb, Err(error), &kinds);
            far.works(verb).await;
        }
    })
    .await;
}

async fn a_refusal_is_an_error_at_once(kit: &Kit) {
    every(kit, |far, verb| async move {
        far.proxy.set(Mode::Refuse);
        far.proxy.close(|_| true);
        for _ in 0..3 {
            let begun = Instant::now();
            failed(verb, far.in_time(verb).await, &[ErrorKind::Unavailable]);
            assert!(begun.elapsed() < DEADLINE, "{verb}: refused, and not late");
        }
        far.proxy.set(Mode::Pass);
        far.works(verb).await;
    })
    .await;
}
