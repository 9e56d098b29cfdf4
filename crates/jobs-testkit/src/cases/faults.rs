//! Cases: faults. The connection breaks after the first round trip of an operation, after the
//! second, and so on until the operation gets through; each time the caller, who cannot know what
//! happened, repeats the call and gets a consistent answer (F1).
//!
//! Here those of the worker's own methods; an operator's are in [`cut_verbs`](super::cut_verbs).

use std::{collections::BTreeSet, future::Future, sync::Arc};

use jobs_core::{
    Admin, Claim, Error, Job, JobRef, Nonce, Outcome, OutcomeKind, Settled, Settlement, State,
    queue::{Lease, Pushed, Renewed, Reserve, Reserved},
    state::Facts,
};

use crate::{
    invariants,
    kit::{Kit, checked, job, push},
    ops::{
        LAPSE, LATER, cancel, from_queue, hold, outcomes, record, renew, settle, state, sweep_all,
    },
};

super::cases![
    f1_cut_after_every_round_trip_enqueue,
    f1_cut_after_every_round_trip_reserve,
    f1_cut_after_every_round_trip_settle,
    f1_cut_after_every_round_trip_settle_and_reserve,
    f1_cut_after_every_round_trip_renew,
    f1_cut_after_every_round_trip_sweep,
];

/// More round trips than any operation has any business making.
const MOST: usize = 64;

/// One turn of a fault case.
pub(super) struct Turn {
    /// The handle that is going to break.
    pub cut: Arc<dyn Admin>,
    /// Where to repeat the call.
    pub again: Again,
    /// A queue and key of this turn's own.
    pub place: String,
}

/// Where a call is repeated: on the handle that broke in every other turn, else on a fresh one.
pub(super) struct Again {
    same: Option<Arc<dyn Admin>>,
    fresh: Arc<dyn Admin>,
}

impl Again {
    /// A handle that has not broken yet still will, so it repeats nothing.
    pub fn after(&self, was_cut: bool) -> &dyn Admin {
        self.same.as_ref().filter(|_| was_cut).map_or(&*self.fresh, |same| &**same)
    }
}

/// Plays `turn` with the connection cut after 1, 2, … round trips, until it answers that nothing
/// was cut; each twice, repeated on either handle. Then the store is sound.
pub(super) async fn every_cut<F, R>(kit: &Kit, store: &dyn Admin, op: &str, turn: F)
where
    F: Fn(Turn) -> R,
    R: Future<Output = bool>,
{
    let (mut cuts, mut through) = (0, false);
    for trips in 1..=MOST {
        for same in [true, false] {
            let cut = kit.fixture.make_cut(&kit.namespace, trips).await;
            let broken = same.then(|| cut.clone());
            let again = Again { same: broken, fresh: kit.handle().await };
            let place = format!("{op}-{trips}-{same}");
            let was_cut = turn(Turn { cut, again, place }).await;
            cuts += usize::from(was_cut);
            through = !was_cut;
        }
        invariants::hold(store).await;
        if through {
            assert!(cuts > 0, "nothing was ever cut, so nothing was shown");
            drains(kit, store).await;
            return;
        }
    }
    panic!("{op} was still cut after {MOST} round trips");
}

/// A cut call fails in a way that says to repeat it.
pub(super) fn cut_or<T>(answer: Result<T, Error>) -> Option<T> {
    match answer {
        Ok(answer) => Some(answer),
        Err(error) => {
            assert!(error.is_transient(), "a broken connection is worth a repetition: {error:?}");
            None
        }
    }
}

/// Nothing is stuck: in an hour all that is live and not parked can be taken, each job once.
async fn drains(kit: &Kit, store: &dyn Admin) {
    kit.age(LATER * 6 + LAPSE).await;
    sweep_all(store).await;
    let records = invariants::hold(store).await;
    let mut queues = BTreeSet::new();
    let mut live = BTreeSet::new();
    for (job, record) in &records {
        if matches!(record.view.state, State::Ready | State::Scheduled) {
            queues.insert(record.view.job.queue.clone());
            live.insert(job.clone());
        }
    }
    for queue in queues {
        loop {
            let request = from_queue(&queue, "drain", 100);
            let taken = store.reserve(&request).await.expect("the store answers").deliveries;
            for held in &taken {
                assert!(live.remove(&held.claim.job), "{} is delivered twice", held.claim.job);
                settle(store, &held.claim, Outcome::Done).await;
            }
            if taken.is_empty() {
                break;
            }
        }
    }
    assert!(live.is_empty(), "stored, listed, due and never delivered: {live:?}");
    invariants::hold(store).await;
}

/// Pushes and holds `jobs` jobs on `queue`, in the order of their ids.
pub(super) async fn held(store: &dyn Admin, queue: &str, jobs: usize) -> Vec<Claim> {
    for _ in 0..jobs {
        push(store, job("acme").on(queue)).await;
    }
    let held = hold(store, &from_queue(queue, "suite", jobs), jobs).await;
    let mut claims: Vec<_> = held.into_iter().map(|held| held.claim).collect();
    claims.sort_unstable_by_key(|claim| claim.job.id);
    claims
}

/// Plain, delayed, keyed in both ways, a second one for a key, and twice the same.
async fn f1_cut_after_every_round_trip_enqueue(kit: &Kit) {
    let store = &kit.handle().await;
    every_cut(kit, &**store, "enqueue", async |Turn { cut, again, place }| {
        let mine = |job: Job| checked(job.on(place.as_str()));
        let first = mine(job("acme"));
        let keyed = mine(job("acme").key(format!("{place} finished")));
        let jobs = [
            first.clone(),
            mine(job("other").after(LATER)),
            keyed.clone(),
            mine(job("acme").key(format!("{place} finished"))),
            mine(job("acme").key_until_started(format!("{place} started"))),
            mine(job("acme").key_until_started(format!("{place} started"))),
            first.clone(),
        ];
        let told: Vec<_> = cut.enqueue(&jobs).await.into_iter().map(cut_or).collect();
        let was_cut = told.iter().any(Option::is_none);
        let repeated = again.after(was_cut).enqueue(&jobs).await;
        assert_eq!((told.len(), repeated.len()), (jobs.len(), jobs.len()));
        let stored_as = [State::Ready, State::Scheduled];
        for (at, (told, repeated)) in told.iter().zip(repeated).enumerate() {
            let repeated = repeated.expect("it is cut once");
            let fits = match at {
                3 | 5 => {
                    repeated == Pushed::KeyHeld(jobs[at - 1].id, State::Ready)
                        && told.is_none_or(|told| told == repeated)
                }
                6 => repeated == Pushed::Duplicate(State::Ready),
                _ => {
                    let duplicate = Pushed::Duplicate(stored_as[usize::from(at == 1)]);
                    let known = told.is_some();
                    told.is_none_or(|told| told == Pushed::Stored)
                        && (repeated == duplicate || !known && repeated == Pushed::Stored)
                }
            };
            assert!(fits, "job {at}: {told:?}, repeated {repeated:?}");
        }
        for at in [0, 1, 2, 4] {
            let state = state(&**store, &jobs[at].job_ref()).await;
            assert_eq!(state, stored_as[usize::from(at == 1)]);
        }
        for at in [3, 5] {
            assert!(crate::ops::look(&**store, &jobs[at].job_ref()).await.is_none());
        }
        // The key is its holder's, and free after it.
        cancel(&**store, &keyed.job_ref()).await;
        push(&**store, jobs[3].clone().into_job()).await;
        was_cut
    })
    .await;
}

fn claims(reserved: &Reserved) -> BTreeSet<(JobRef, i64, Nonce)> {
    let claims = reserved.deliveries.iter().map(|delivery| &delivery.claim);
    claims.map(|claim| (claim.job.clone(), claim.fence, claim.nonce)).collect()
}

/// The store holds for `request` exactly what it answered, and of `pushed` nothing else runs.
async fn exactly_these(store: &dyn Admin, request: &Reserve, answer: &Reserved, pushed: &[JobRef]) {
    let mut running = BTreeSet::new();
    for job in pushed {
        let record = record(store, job).await;
        if record.view.state == State::Running {
            assert_eq!(record.view.attempt, 1, "{job}: a lost answer spends nothing");
            running.insert((job.clone(), record.fence, request.nonce_of()));
        }
    }
    assert_eq!(running, claims(answer), "what runs is what was answered");
    for delivery in &answer.deliveries {
        assert_eq!(renew(store, &delivery.claim).await, Renewed::Held);
    }
}

/// The same deliveries by the nonce, nothing held without an answer.
async fn f1_cut_after_every_round_trip_reserve(kit: &Kit) {
    let store = &kit.handle().await;
    every_cut(kit, &**store, "reserve", async |Turn { cut, again, place }| {
        let mut pushed = Vec::new();
        for tenant in ["acme", "acme", "acme", "other", "other"] {
            pushed.push(push(&**store, job(tenant).on(place.as_str())).await.job_ref());
        }
        let request = from_queue(&place, "suite", 3);
        let told = cut_or(cut.reserve(&request).await);
        let repeated = again.after(told.is_none()).reserve(&request).await.expect("it is cut once");
        assert_eq!(repeated.deliveries.len(), 3, "as many as asked, and no more");
        exactly_these(&**store, &request, &repeated, &pushed).await;
        if let Some(told) = &told {
            assert_eq!(claims(told), claims(&repeated));
        }
        let third = store.reserve(&request).await.expect("the store answers");
        assert_eq!(claims(&third), claims(&repeated));
        told.is_none()
    })
    .await;
}

fn ends(outcome: &Outcome) -> State {
    let event = outcome.event();
    match jobs_core::state::step(State::Running, event, Facts::default()) {
        jobs_core::state::Step::To(state) => state,
        other => panic!("{outcome:?} of a running job is {other:?}"),
    }
}

/// Applied once, whoever was told.
async fn settled_once(store: &dyn Admin, batch: &[Settlement], answers: &[Settled]) {
    assert_eq!(batch.len(), answers.len());
    for (Settlement { claim, outcome }, answer) in batch.iter().zip(answers) {
        let applied = Settled::Applied(ends(outcome));
        let before = Settled::AlreadyApplied(outcome.kind());
        assert!([applied, before].contains(answer), "{outcome:?}: {answer:?}");
        let record = record(store, &claim.job).await;
        let recorded = record.attempts.iter().filter(|a| a.fence == claim.fence).count();
        assert_eq!(recorded, usize::from(outcome.kind().is_recorded()), "{outcome:?}");
        let counted = (record.releases, record.snoozes);
        let kind = outcome.kind();
        let (release, snooze) = (kind == OutcomeKind::Release, kind == OutcomeKind::Snooze);
        assert_eq!(counted, (u32::from(release), u32::from(snooze)), "{outcome:?}");
    }
}

/// One of each outcome in one batch, and one settlement alone: the commonest call of all.
async fn f1_cut_after_every_round_trip_settle(kit: &Kit) {
    let store = &kit.handle().await;
    for (at, outcomes) in [outcomes().to_vec(), vec![Outcome::Done]].iter().enumerate() {
        every_cut(kit, &**store, &format!("settle-{at}"), async |Turn { cut, again, place }| {
            let claims = held(&**store, &place, outcomes.len()).await;
            let settlements = claims.into_iter().zip(outcomes.iter().cloned());
            let batch: Vec<_> =
                settlements.map(|(claim, outcome)| Settlement { claim, outcome }).collect();
            let told = cut_or(cut.settle(&batch).await);
            let repeated =
                again.after(told.is_none()).settle(&batch).await.expect("it is cut once");
            settled_once(&**store, &batch, &repeated).await;
            if let Some(told) = &told {
                let applied = |answer: &Settled| matches!(answer, Settled::Applied(_));
                assert!(told.iter().all(applied), "{told:?}");
                assert!(!repeated.iter().any(applied), "applied twice: {repeated:?}");
            }
            for Settlement { claim, outcome } in &batch {
                assert_eq!(state(&**store, &claim.job).await, ends(outcome));
            }
            told.is_none()
        })
        .await;
    }
}

/// Both halves, also when the cut fell between them.
async fn f1_cut_after_every_round_trip_settle_and_reserve(kit: &Kit) {
    let store = &kit.handle().await;
    every_cut(kit, &**store, "both", async |Turn { cut, again, place }| {
        let claims_held = held(&**store, &place, 2).await;
        let mut pushed = Vec::new();
        for _ in 0..3 {
            pushed.push(push(&**store, job("acme").on(place.as_str())).await.job_ref());
        }
        let batch: Vec<_> = claims_held
            .into_iter()
            .zip([Outcome::Done, Outcome::Park { cause: "no".into() }])
            .map(|(claim, outcome)| Settlement { claim, outcome })
            .collect();
        let request = from_queue(&place, "suite", 2);
        let told = cut_or(cut.settle_and_reserve(&batch, &request).await);
        let (settled, reserved) = again
            .after(told.is_none())
            .settle_and_reserve(&batch, &request)
            .await
            .expect("it is cut once");
        settled_once(&**store, &batch, &settled).await;
        assert_eq!(reserved.deliveries.len(), 2, "as many as asked, and no more");
        exactly_these(&**store, &request, &reserved, &pushed).await;
        if let Some((_, told)) = &told {
            assert_eq!(claims(told), claims(&reserved));
        }
        told.is_none()
    })
    .await;
}

/// Held before and after, and still the same claim.
async fn f1_cut_after_every_round_trip_renew(kit: &Kit) {
    let store = &kit.handle().await;
    every_cut(kit, &**store, "renew", async |Turn { cut, again, place }| {
        let claims = held(&**store, &place, 3).await;
        kit.age_secs(15).await;
        let told = cut_or(cut.renew(Lease::default(), &claims).await);
        let repeated = again
            .after(told.is_none())
            .renew(Lease::default(), &claims)
            .await
            .expect("it is cut once");
        assert_eq!(repeated, [Renewed::Held; 3]);
        assert!(told.as_ref().is_none_or(|told| *told == repeated));
        kit.age_secs(15).await;
        let lost = sweep_all(&**store).await;
        assert!(lost.iter().all(|lost| lost.queue != place), "renewed, and lost: {lost:?}");
        for claim in &claims {
            let done = settle(&**store, claim, Outcome::Done).await;
            assert_eq!(done, Settled::Applied(State::Done));
        }
        told.is_none()
    })
    .await;
}

/// What the lost answer named is taken back once: into its state, with one attempt on record.
async fn f1_cut_after_every_round_trip_sweep(kit: &Kit) {
    let store = &kit.handle().await;
    every_cut(kit, &**store, "sweep", async |Turn { cut, again, place }| {
        let mut claims = held(&**store, &place, 2).await;
        push(&**store, job("acme").on(place.as_str()).max_attempts(1).key(place.as_str())).await;
        let last = hold(&**store, &from_queue(&place, "suite", 1), 1).await.remove(0).claim;
        let unwanted = held(&**store, &place, 1).await.remove(0);
        cancel(&**store, &unwanted.job).await;
        let due = push(&**store, job("acme").on(place.as_str()).after(LAPSE)).await.job_ref();
        kit.age(LAPSE).await;
        kit.age_secs(5).await;
        let told = cut_or(cut.sweep().await);
        let mut repeated = again.after(told.is_none()).sweep().await.expect("it is cut once");
        while repeated.more {
            repeated.lost.extend(store.sweep().await.expect("the store answers").lost);
            repeated.more = false;
        }
        let expected = [State::Ready, State::Ready, State::Parked, State::Cancelled];
        claims.extend([last, unwanted]);
        for (claim, to) in claims.iter().zip(expected) {
            let record = record(&**store, &claim.job).await;
            assert_eq!(record.view.state, to, "{}", claim.job);
            let outcomes: Vec<_> = record.attempts.iter().map(|a| (a.fence, a.outcome)).collect();
            assert_eq!(outcomes, [(claim.fence, OutcomeKind::Lost)]);
            assert_eq!(settle(&**store, claim, Outcome::Done).await, Settled::Lost);
        }
        let named: Vec<_> = told.iter().flat_map(|told| &told.lost).chain(&repeated.lost).collect();
        let unique: BTreeSet<_> = named.iter().map(|lost| &lost.job).collect();
        assert_eq!(unique.len(), named.len(), "answered twice: {named:?}");
        if told.is_some() {
            let mine = named.iter().filter(|lost| lost.queue == place).count();
            assert_eq!(mine, 4, "an answer that arrived names them all");
        }
        assert!(matches!(state(&**store, &due).await, State::Ready | State::Scheduled));
        told.is_none()
    })
    .await;
}
