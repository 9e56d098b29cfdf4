//! Settle (S2–S4). Guarded by the whole claim: the job's id, the fence, and the nonce under which it
//! runs. Each call has a mark of its own, by which it knows what it applied after a lost reply.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use jobs_core::{
    Claim, Outcome, OutcomeKind, Settled, Settlement, State,
    queue::{KEPT_ATTEMPTS, STUB},
    time::{MAX_MILLIS, delay_millis},
};
use mongodb::bson::{Bson, Document, doc};

use crate::{
    Mongo,
    error::Fault,
    frontier::Line,
    row::{self, at, date, id, int, need, text, token},
};

/// Settlements of one statement: each may have a cause of 16 KiB, which stands in it twice, and a statement has 16 MiB.
const CHUNK: usize = 256;

/// Settles in order; inside one call the first for a claim wins.
pub(crate) async fn all(
    store: &Mongo,
    settlements: &[Settlement],
) -> std::result::Result<Vec<Settled>, Fault> {
    let mut answers = Vec::with_capacity(settlements.len());
    for part in settlements.chunks(CHUNK) {
        answers.extend(some(store, part).await?);
    }
    Ok(answers)
}

/// What names one delivery.
type Key = (String, i64, i64);

fn key(claim: &Claim) -> Key {
    (id(&claim.job), claim.fence, claim.nonce.0)
}

async fn some(
    store: &Mongo,
    settlements: &[Settlement],
) -> std::result::Result<Vec<Settled>, Fault> {
    let token = token();
    let mut firsts = HashMap::new();
    for settlement in settlements {
        firsts.entry(key(&settlement.claim)).or_insert(settlement);
    }
    let mut distinct: Vec<&Settlement> = firsts.values().copied().collect();
    distinct.sort_by_key(|settlement| id(&settlement.claim.job));
    let statements = statements(&distinct, token, false);
    let written = store.db.update("jobs", statements).await?;
    let all = written.count == distinct.len();
    let queue = |claim: &Claim| store.remembered(claim.nonce);
    // A failure is counted by its queue, which the claim does not say.
    let known = |settlement: &&Settlement| {
        settlement.outcome == Outcome::Done || queue(&settlement.claim).is_some()
    };
    let mut results = HashMap::new();
    if all && distinct.iter().all(known) {
        for settlement in &distinct {
            let kind = settlement.outcome.kind();
            let queue = queue(&settlement.claim).unwrap_or_default();
            applied(store, &queue, &settlement.claim.job.tenant, kind, state_of(kind));
            results.insert(key(&settlement.claim), Settled::Applied(state_of(kind)));
        }
    } else {
        let mut count = written.count;
        let mut found = look(store, &distinct).await?;
        // An operator asked them to end: then every end but done is cancelled.
        let asks = |settlement: &&&Settlement| {
            found.get(&id(&settlement.claim.job)).is_some_and(|row| {
                holds(row, &settlement.claim) && row.get_bool("cancel").unwrap_or(false)
            })
        };
        let asked: Vec<&Settlement> = distinct.iter().filter(asks).copied().collect();
        if !asked.is_empty() {
            let statements = self::statements(&asked, token, true);
            count += store.db.update("jobs", statements).await?.count;
            found = look(store, &distinct).await?;
        }
        let mut gone = Vec::new();
        for settlement in &distinct {
            let row = found.get(&id(&settlement.claim.job));
            let answer = match row.filter(|row| is_of(row, &settlement.claim)) {
                Some(row) => answer(store, row, settlement, token)?,
                None => {
                    gone.push(*settlement);
                    Settled::Lost
                }
            };
            count = count.saturating_sub(usize::from(matches!(answer, Settled::Applied(_))));
            results.insert(key(&settlement.claim), answer);
        }
        // Applied, and before the look deleted, or taken by another: as many as the count has more.
        if count > 0 && count == gone.len() {
            for settlement in gone {
                let state = state_of(settlement.outcome.kind());
                results.insert(key(&settlement.claim), Settled::Applied(state));
            }
        }
    }
    wake(store, &distinct, &results);
    let mut told = BTreeSet::new();
    let answers = settlements.iter().map(|settlement| {
        let key = key(&settlement.claim);
        let answer = results.get(&key).copied().unwrap_or(Settled::Lost);
        let first = firsts.get(&key).map_or(settlement.outcome.kind(), |s| s.outcome.kind());
        match answer {
            Settled::Applied(_) if !told.insert(key) => Settled::AlreadyApplied(first),
            answer => answer,
        }
    });
    Ok(answers.collect())
}

/// Where a run that nobody asked to end comes to.
fn state_of(kind: OutcomeKind) -> State {
    match kind {
        OutcomeKind::Done => State::Done,
        OutcomeKind::Retry | OutcomeKind::Snooze => State::Scheduled,
        OutcomeKind::Release => State::Ready,
        OutcomeKind::Park | OutcomeKind::Lost => State::Parked,
        OutcomeKind::Cancelled => State::Cancelled,
    }
}

/// One statement for all that end alike: with many documents it costs a third of one for each.
fn statements(settlements: &[&Settlement], token: i64, cancelled: bool) -> Vec<Document> {
    let mut groups = BTreeMap::<_, (&Outcome, Vec<String>)>::new();
    for (place, settlement) in settlements.iter().enumerate() {
        let Settlement { claim, outcome } = settlement;
        let alone = match outcome {
            Outcome::Done | Outcome::Release => 0,
            _ => place + 1,
        };
        let alike = (claim.nonce.0, claim.fence, outcome.kind() as i32, alone);
        let group = groups.entry(alike).or_insert((outcome, Vec::new()));
        group.1.push(id(&claim.job));
    }
    let mut statements = Vec::with_capacity(groups.len());
    for ((nonce, fence, ..), (outcome, ids)) in groups {
        let mut filter = doc! { "_id": { "$in": ids }, "run": nonce, "fence": fence };
        if !cancelled && *outcome != Outcome::Done {
            filter.insert("cancel", doc! { "$ne": true });
        }
        let update = update(outcome, token, cancelled);
        // The index of what runs would do as well, and the server would try both each time.
        statements.push(doc! { "q": filter, "u": update, "multi": true, "hint": "_id_" });
    }
    statements
}

/// The fields that only a running job has, and the key of one that has ended.
pub(crate) const HELD_BY: [&str; 5] = ["run", "lease_until", "renewed_at", "cancel", "line"];

/// What an outcome does to the document.
fn update(outcome: &Outcome, token: i64, cancelled: bool) -> Bson {
    if *outcome == Outcome::Done {
        // The common one without a pipeline. The document is its own last attempt.
        return Bson::Document(doc! {
            "$set": { "state": State::Done as i32, "outcome": 0_i32, "token": token },
            "$currentDate": { "ended_at": true },
            "$unset": {
                "run": "", "lease_until": "", "renewed_at": "", "cancel": "", "held": "",
            },
        });
    }
    let kind = outcome.kind();
    let to = if cancelled { State::Cancelled } else { state_of(kind) };
    let mut set = doc! { "state": to as i32, "outcome": kind as i32, "token": token };
    for field in HELD_BY {
        set.insert(field, "$$REMOVE");
    }
    set.insert("worker", "$$REMOVE");
    set.insert("started_at", "$$REMOVE");
    match kind {
        OutcomeKind::Release => {
            set.insert("releases", doc! { "$add": [{ "$ifNull": ["$releases", 0_i32] }, 1_i32] });
            set.insert("attempt", doc! { "$subtract": ["$attempt", 1_i32] });
        }
        OutcomeKind::Snooze => {
            set.insert("snoozes", doc! { "$add": [{ "$ifNull": ["$snoozes", 0_i32] }, 1_i32] });
            set.insert("attempt", doc! { "$subtract": ["$attempt", 1_i32] });
        }
        _ => {
            set.extend(recorded(kind, outcome.cause().map(|cause| cause.as_str())));
            set.insert("suspect", "$$REMOVE");
        }
    }
    if let Some(delay) = outcome.delay() {
        set.insert("run_at", after(delay_millis(delay)));
    }
    let mut stages = vec![doc! { "$set": set }];
    stages.extend(placed(to));
    Bson::Array(stages.into_iter().map(Bson::Document).collect())
}

/// The server's now plus some milliseconds, at most the last time that there is.
fn after(millis: i64) -> Document {
    doc! { "$min": [{ "$add": ["$$NOW", millis] }, at(MAX_MILLIS)] }
}

/// The fields by which a document in a state is found, from those that it has by then.
pub(crate) fn placed(to: State) -> Vec<Document> {
    let set = match to {
        State::Scheduled => doc! { "line": Line::expression(false), "cold": to as i32 },
        State::Ready => doc! { "line": Line::expression(true), "cold": "$$REMOVE" },
        State::Parked => doc! { "line": Line::parked(), "cold": to as i32 },
        State::Cancelled => doc! {
            "cold": to as i32, "ended_at": "$$NOW", "gone": "$$NOW", "held": "$$REMOVE",
        },
        State::Running | State::Done => return Vec::new(),
    };
    vec![doc! { "$set": set }]
}

/// An attempt that ended goes on record (S4), with the newest hundred.
pub(crate) fn recorded(kind: OutcomeKind, cause: Option<&str>) -> Document {
    let mut attempt = doc! {
        "number": "$attempt",
        "fence": "$fence",
        "worker": { "$ifNull": ["$worker", ""] },
        "started_at": { "$ifNull": ["$started_at", "$$NOW"] },
        "ended_at": "$$NOW",
        "outcome": kind as i32,
    };
    let mut set = Document::new();
    if let Some(cause) = cause {
        attempt.insert("cause", doc! { "$literal": cause });
        set.insert("cause", doc! { "$literal": cause });
    }
    let kept = i64::try_from(KEPT_ATTEMPTS).unwrap_or(100);
    let all = doc! { "$concatArrays": [{ "$ifNull": ["$attempts", []] }, [attempt]] };
    set.insert("attempts", doc! { "$slice": [all, -kept] });
    set
}

async fn look(
    store: &Mongo,
    settlements: &[&Settlement],
) -> std::result::Result<HashMap<String, Document>, Fault> {
    let ids: Vec<_> = settlements.iter().map(|settlement| id(&settlement.claim.job)).collect();
    let rows = store.db.rows(doc! {
        "find": store.db.name("jobs"),
        "filter": { "_id": { "$in": ids } },
        "projection": {
            "queue": 1, "tenant": 1, "state": 1, "fence": 1, "nonce": 1, "run": 1, "outcome": 1,
            "token": 1, "cancel": 1, "ended_at": 1, "stub": 1, "now": "$$NOW",
        },
    });
    let rows = rows.await?;
    Ok(rows.into_iter().filter_map(|row| Some((text(&row, "_id")?, row))).collect())
}

/// Is its newest claim this one, held or settled?
fn is_of(row: &Document, claim: &Claim) -> bool {
    int(row, "nonce") == Some(claim.nonce.0) && int(row, "fence") == Some(claim.fence)
}

/// Does it run under this claim?
fn holds(row: &Document, claim: &Claim) -> bool {
    int(row, "run") == Some(claim.nonce.0) && int(row, "fence") == Some(claim.fence)
}

fn answer(
    store: &Mongo,
    row: &Document,
    settlement: &Settlement,
    token: i64,
) -> std::result::Result<Settled, Fault> {
    let claim = &settlement.claim;
    let Some(outcome) = int(row, "outcome") else { return Ok(Settled::Lost) };
    let (kind, state) = (row::outcome_of(outcome)?, row::state(row)?);
    if int(row, "token") == Some(token) {
        let queue = text(row, "queue").unwrap_or_default();
        applied(store, &queue, &claim.job.tenant, kind, state);
        return Ok(Settled::Applied(state));
    }
    let now = need(date(row, "now"), "now")?;
    let ended = date(row, "ended_at").or_else(|| date(row, "stub"));
    let over = ended.is_some_and(|at| at + delay_millis(STUB) <= now);
    Ok(if over { Settled::Lost } else { Settled::AlreadyApplied(kind) })
}

/// What an operator cancelled did not fail. What is done is counted where it is kept.
fn applied(store: &Mongo, queue: &str, tenant: &str, kind: OutcomeKind, state: State) {
    let failed = matches!(kind, OutcomeKind::Retry | OutcomeKind::Park);
    if failed && state != State::Cancelled {
        store.minutes.failed(&store.db, queue, tenant);
    }
}

/// What is in line again, or soon will be, is looked for; who watches is woken.
fn wake(store: &Mongo, settlements: &[&Settlement], results: &HashMap<Key, Settled>) {
    let mut ready = BTreeSet::new();
    for settlement in settlements {
        let Some(Settled::Applied(state)) = results.get(&key(&settlement.claim)) else { continue };
        let queue = store.remembered(settlement.claim.nonce);
        match state {
            State::Ready => match queue {
                Some(queue) => _ = ready.insert(queue),
                None => store.frontier.look(None),
            },
            State::Scheduled => {
                let delay = settlement.outcome.delay().map(delay_millis).unwrap_or_default();
                // Where the server's time is not known just now, at once.
                let due = store.db.clock.now().map_or(i64::MIN, |now| now.saturating_add(delay));
                store.frontier.look_at(queue.as_deref(), due);
            }
            _ => {}
        }
    }
    store.put_in_line(ready.into_iter().map(|queue| (queue, None)));
}
