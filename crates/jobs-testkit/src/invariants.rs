//! What holds of a whole store at any quiet moment, whatever happened before.

use std::collections::{BTreeMap, HashMap};

use jobs_core::{
    Admin, JobRef, KeyScope, OutcomeKind, State,
    queue::KEPT_ATTEMPTS,
    view::{Count, JobRecord, List},
};

use crate::{kit::operator, ops};

/// Walks the whole store as an operator and asserts that it is consistent: every job is in exactly
/// one state and counted once, its record agrees with itself, and no key is held twice. Answers
/// the records. Nothing else may use the store meanwhile.
pub async fn hold(store: &dyn Admin) -> BTreeMap<JobRef, JobRecord> {
    let mut records = BTreeMap::new();
    let everything = List { page: 1000, ..List::default() };
    for view in ops::walk(store, &everything).await {
        let job = view.job.job_ref();
        let record = ops::record(store, &job).await;
        assert_eq!(record.view, view, "{job}: list and get agree");
        one_job(&record);
        assert!(records.insert(job.clone(), record).is_none(), "{job} is listed twice");
    }
    one_state_each(store, &records).await;
    counted_once(store, &records).await;
    keys_held_once(&records);
    records
}

/// The same, and exactly `jobs` are stored.
pub async fn hold_with(store: &dyn Admin, jobs: &[JobRef]) -> BTreeMap<JobRef, JobRecord> {
    let records = hold(store).await;
    for job in jobs {
        assert!(records.contains_key(job), "{job} is lost");
    }
    assert_eq!(records.len(), jobs.len(), "a job that nobody pushed");
    records
}

fn one_job(record: &JobRecord) {
    let JobRecord { view, attempts, now, .. } = record;
    let (job, state) = (view.job.job_ref(), view.state);
    let running = state == State::Running;
    assert_eq!(record.holder.is_some(), running, "{job}: {state} has a holder only if running");
    assert_eq!(view.finished_at.is_some(), !state.is_live(), "{job}: {state} and its end");
    assert!(running || !view.cancel_requested, "{job}: only a running job is asked to end");
    assert!(view.pushed_at <= *now, "{job} was pushed in the future");
    if matches!(state, State::Ready | State::Running) {
        assert!(ops::due(view) <= *now, "{job} is {state} before it is due");
    }
    if let Some(holder) = &record.holder {
        let ordered = holder.started_at <= holder.renewed_at
            && holder.renewed_at <= *now
            && holder.renewed_at < holder.lease_until;
        assert!(ordered, "{job}: {holder:?}");
    }
    let limit = view.job.max_attempts.expect("stored with the job");
    assert!(view.attempt <= limit, "{job}: attempt {} of {limit}", view.attempt);
    assert!(attempts.len() <= KEPT_ATTEMPTS, "{job}: {} attempts kept", attempts.len());
    assert!(attempts.windows(2).all(|pair| pair[0].fence < pair[1].fence), "{job}: {attempts:?}");
    for attempt in attempts {
        assert!(attempt.fence <= record.fence, "{job}: {attempt:?} beyond its fence");
        assert!((1..=limit).contains(&attempt.number), "{job}: {attempt:?}");
        assert!(attempt.started_at <= attempt.ended_at, "{job}: {attempt:?}");
        assert!(attempt.ended_at <= *now, "{job}: {attempt:?} ends in the future");
        assert!(attempt.outcome.is_recorded(), "{job}: {attempt:?} is counted, not recorded");
    }
    let last = attempts.last();
    // A delivery that was not given back is held now, or ended and is on record.
    let ended = view.attempt - u32::from(running);
    if ended > 0 {
        let number = last.map(|attempt| attempt.number);
        assert_eq!(number, Some(ended), "{job}: {state} in attempt {}: {attempts:?}", view.attempt);
    }
    assert!(!running || view.attempt > 0, "{job} runs in no attempt");
    let outcome = last.map(|attempt| attempt.outcome);
    match state {
        State::Done => assert_eq!(outcome, Some(OutcomeKind::Done), "{job}"),
        State::Parked => {
            let gave_up = [OutcomeKind::Park, OutcomeKind::Lost];
            assert!(
                outcome.is_some_and(|outcome| gave_up.contains(&outcome)),
                "{job}: {outcome:?}"
            );
        }
        _ => {}
    }
    if state != State::Done {
        let done = |attempt: &jobs_core::view::Attempt| attempt.outcome == OutcomeKind::Done;
        assert!(!attempts.iter().any(done), "{job}: {state} after it was done");
    }
}

async fn one_state_each(store: &dyn Admin, records: &BTreeMap<JobRef, JobRecord>) {
    let mut seen: HashMap<JobRef, State> = HashMap::new();
    for state in State::ALL {
        let list = List { state: Some(state), page: 1000, ..List::default() };
        for view in ops::walk(store, &list).await {
            let job = view.job.job_ref();
            assert_eq!(view.state, state, "{job} among the {state}");
            let before = seen.insert(job.clone(), state);
            assert!(before.is_none(), "{job} is {state} and {before:?}");
        }
    }
    for (job, record) in records {
        assert_eq!(seen.get(job), Some(&record.view.state), "{job} is in the list of its state");
    }
    assert_eq!(seen.len(), records.len(), "the states are the whole store");
}

/// Scheduled, waiting, running, parked.
type Tally = [u64; 4];

type Tallies = BTreeMap<(String, String), Tally>;

async fn counted_once(store: &dyn Admin, records: &BTreeMap<JobRef, JobRecord>) {
    let (expected, counted) = (tallies(records.values()), counted(store).await);
    if counted == expected {
        return;
    }
    // A lease may have ended between the two readings, which it does once.
    let mut again = Vec::new();
    for job in records.keys() {
        again.push(ops::record(store, job).await);
    }
    let counted = self::counted(store).await;
    assert_eq!(counted, tallies(&again), "scheduled, waiting, running, parked by lane");
}

/// As the records say, without the lanes that have no live jobs.
fn tallies<'r>(records: impl IntoIterator<Item = &'r JobRecord>) -> Tallies {
    let mut tallies = Tallies::new();
    for record in records {
        let job = &record.view.job;
        if let Some(column) = column(record) {
            tallies.entry((job.queue.clone(), job.tenant.clone())).or_default()[column] += 1;
        }
    }
    tallies
}

/// As the store counts, without such lanes: they may be left out.
async fn counted(store: &dyn Admin) -> Tallies {
    let counts = store.counts(&operator().await, &Default::default()).await;
    let mut counted = Tallies::new();
    for lane in counts.expect("the store answers").lanes {
        let numbers = [lane.scheduled, lane.waiting, lane.running, lane.parked];
        let lane = (lane.queue, lane.tenant);
        let before = counted.insert(lane.clone(), numbers.map(|Count { number, .. }| number));
        assert!(before.is_none(), "{lane:?} is counted twice");
    }
    counted.retain(|_, tally| *tally != [0; 4]);
    counted
}

fn column(record: &JobRecord) -> Option<usize> {
    let due = ops::due(&record.view) <= record.now;
    match record.view.state {
        State::Scheduled | State::Ready => Some(usize::from(due)),
        State::Running => {
            let valid = record.holder.as_ref().is_some_and(|h| h.lease_until > record.now);
            Some(if valid { 2 } else { 1 })
        }
        State::Parked => Some(3),
        State::Done | State::Cancelled => None,
    }
}

fn keys_held_once(records: &BTreeMap<JobRef, JobRecord>) {
    let mut holders: HashMap<(&str, &str), &JobRef> = HashMap::new();
    for (job, record) in records {
        let Some(key) = &record.view.job.key else { continue };
        let started = record.fence > 0;
        let holds = match key.scope {
            KeyScope::UntilFinished => record.view.state.is_live(),
            KeyScope::UntilStarted => record.view.state.is_live() && !started,
        };
        if holds {
            let other = holders.insert((&job.tenant, &key.text), job);
            assert!(other.is_none(), "{job} and {other:?} both hold {:?}", key.text);
        }
    }
}
