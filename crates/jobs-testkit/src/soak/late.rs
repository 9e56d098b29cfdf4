//! Late writes: settlements of all kinds and renewals of claims that are over, as a network may
//! deliver them when their job has another holder, and of claims that are held, under another nonce.
//! Each must be refused (S1, S2) or, of a claim that is over, told what was settled before (S3); and
//! must change nothing.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use fastrand::Rng;
use jobs_core::{
    Admin, Claim, JobRef, Nonce, Outcome, Result, Settlement,
    queue::{Lease, Renewed},
    view::JobRecord,
};
use tokio::{runtime::Builder, time::sleep};

use super::{
    Done, LEASE, Soak, Trouble,
    claims::Claims,
    ledger::{Event, Pen, Told, now},
    opened,
    process::Orders,
    strict::Strict,
};
use crate::kit::operator;

/// Between two of one process.
const EVERY: Duration = Duration::from_millis(100);
/// A renewal's, were it accepted: a lease of this length is nobody's.
const LONG: Duration = Duration::from_secs(60);
/// What a lease may differ from its length by.
const SLACK: Duration = Duration::from_millis(100);

/// The thread that sends them, with a handle of its own.
pub struct Late {
    over: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Late {
    /// Sends them until it is to end.
    ///
    /// # Errors
    /// The system gives no thread.
    pub fn start(soak: &dyn Soak, orders: &Orders, pen: Arc<Pen>, claims: Claims) -> Done<Self> {
        let over = Arc::new(AtomicBool::new(false));
        let (open, told) = (soak.opener(), over.clone());
        let (url, mut random) = (orders.url.clone(), Rng::with_seed(orders.seed));
        let send = move || {
            let Ok(runtime) = Builder::new_current_thread().enable_all().build() else { return };
            runtime.block_on(async {
                // It is a second writer, on a sound connection and clock.
                let Ok(store) = opened(&*open, &url, Trouble::default()).await else { return };
                let store = Strict::new(store, pen.clone());
                for turn in 0_usize.. {
                    sleep(EVERY).await;
                    if told.load(Ordering::Relaxed) {
                        break;
                    }
                    // Its failures are written down where they are for good.
                    if let Some(Ok(event)) = one(&store, &claims, &mut random, turn).await {
                        pen.write(event);
                    }
                }
            });
        };
        let thread = thread::Builder::new().name("soak-late".to_owned()).spawn(send);
        Ok(Self { over, thread: thread.map_err(|error| error.to_string())? })
    }

    /// Ends it; `false` if it does not within `limit`.
    pub fn ended(self, limit: Duration) -> bool {
        self.over.store(true, Ordering::Relaxed);
        let since = Instant::now();
        while !self.thread.is_finished() && since.elapsed() < limit {
            thread::sleep(Duration::from_millis(10));
        }
        self.thread.is_finished() && self.thread.join().is_ok()
    }
}

/// One write, if there is a claim for it.
async fn one(
    store: &dyn Admin,
    claims: &Claims,
    random: &mut Rng,
    turn: usize,
) -> Option<Result<Event>> {
    let forged = random.u8(0..3) == 0;
    let claim = match forged {
        true => Claim { nonce: Nonce::random(), ..claims.held(random)? },
        // Young ones meet the job's retry, old ones whatever came after.
        false => claims.take(random.i64(100_000..1_500_000), random.bool())?,
    };
    let looks = random.u8(0..8) == 0;
    Some(write(store, claim, outcome(turn), forged, looks).await)
}

/// All six by turns, and a renewal.
fn outcome(turn: usize) -> Option<Outcome> {
    let (after, cause) = (Duration::ZERO, "late".into());
    match turn % 7 {
        0 => Some(Outcome::Done),
        1 => Some(Outcome::Retry { after, cause }),
        2 => Some(Outcome::Park { cause }),
        3 => Some(Outcome::Snooze { after }),
        4 => Some(Outcome::Release),
        5 => Some(Outcome::Cancelled { cause }),
        _ => None,
    }
}

async fn write(
    store: &dyn Admin,
    claim: Claim,
    outcome: Option<Outcome>,
    forged: bool,
    looks: bool,
) -> Result<Event> {
    let before = if looks { get(store, &claim.job).await? } else { None };
    let (sent, kind) = (now(), outcome.as_ref().map(Outcome::kind));
    let told = match outcome {
        Some(outcome) => {
            let settlement = Settlement { claim: claim.clone(), outcome };
            store.settle(&[settlement]).await?.first().map(|told| (*told).into())
        }
        None => {
            let lease = Lease::new(LONG).unwrap_or_default();
            let told = store.renew(lease, std::slice::from_ref(&claim)).await?;
            told.first().map(|told| if *told == Renewed::Lost { Told::Lost } else { Told::Held })
        }
    };
    let after = if before.is_some() { get(store, &claim.job).await? } else { None };
    let changed = before.zip(after).and_then(|(before, after)| changed(&before, &after));
    let Claim { job, fence, .. } = claim;
    // One that was not answered at all was accepted by nobody who says so.
    let told = told.unwrap_or(Told::Lost);
    Ok(Event::Late { job, fence, outcome: kind, forged, sent, told, changed })
}

async fn get(store: &dyn Admin, job: &JobRef) -> Result<Option<JobRecord>> {
    store.get(&operator().await, job).await
}

/// What a refused write did between these two. Where somebody else moved the job, that is theirs.
fn changed(before: &JobRecord, after: &JobRecord) -> Option<String> {
    let moved = |record: &JobRecord| {
        let holder = record.holder.clone().map(|holder| (holder.worker, holder.started_at));
        (record.fence, record.view.state, holder, record.last_verb.clone())
    };
    if moved(before) != moved(after) {
        return None;
    }
    let kept = |record: &JobRecord| {
        let JobRecord { view, snoozes, releases, .. } = record;
        (view.clone(), *snoozes, *releases, record.attempts.len())
    };
    let (was, is) = (kept(before), kept(after));
    if was != is {
        return Some(format!("{was:?} became {is:?}"));
    }
    let holder = after.holder.as_ref()?;
    let lease = holder.lease_until.duration_since(holder.renewed_at);
    let lease = Duration::try_from(lease).unwrap_or_default();
    let own = LEASE - SLACK..=LEASE + SLACK;
    (!own.contains(&lease)).then(|| format!("its lease is of {lease:?}, not of {LEASE:?}"))
}

#[cfg(test)]
mod tests {
    use jobs_core::OutcomeKind;

    use super::*;
    use crate::{
        kit::{self, push, wants},
        model::Model,
    };

    /// A job that is held, and its claim.
    async fn held(store: &dyn Admin) -> Claim {
        push(store, kit::job("acme")).await;
        let lease = Lease::new(LEASE).unwrap();
        let reserved = store.reserve(&wants(1).lease(lease)).await.unwrap();
        reserved.deliveries[0].claim.clone()
    }

    #[tokio::test]
    async fn what_is_refused_changes_nothing() {
        let store = Model::alone();
        let claim = held(&store).await;
        for turn in 0..7 {
            let forged = Claim { nonce: Nonce::random(), ..claim.clone() };
            let event = write(&store, forged, outcome(turn), true, true).await.unwrap();
            let Event::Late { told, changed, .. } = event else { panic!("{event:?}") };
            assert_eq!((told, changed), (Told::Lost, None));
        }
        let kinds: std::collections::BTreeSet<Option<OutcomeKind>> =
            (0..7).map(|turn| outcome(turn).map(|outcome| outcome.kind())).collect();
        assert_eq!(kinds.len(), 7);
    }

    #[tokio::test]
    async fn what_a_write_did_is_seen() {
        let store = Model::alone();
        let claim = held(&store).await;
        let before = get(&store, &claim.job).await.unwrap().unwrap();
        assert_eq!(changed(&before, &before), None);
        let mut given_back = before.clone();
        given_back.view.attempt = 0;
        assert!(changed(&before, &given_back).unwrap().contains("became"));
        // By its holder.
        let renewed = store_renews(&store, &claim, LEASE).await;
        assert_eq!(changed(&before, &renewed), None);
        let extended = store_renews(&store, &claim, LONG).await;
        assert!(changed(&before, &extended).unwrap().contains("its lease is of 60s"));
        // By somebody else's delivery.
        given_back.fence += 1;
        assert_eq!(changed(&before, &given_back), None);
    }

    async fn store_renews(store: &dyn Admin, claim: &Claim, lease: Duration) -> JobRecord {
        let lease = Lease::new(lease).unwrap();
        let told = store.renew(lease, std::slice::from_ref(claim)).await;
        assert_eq!(told.unwrap(), [Renewed::Held]);
        get(store, &claim.job).await.unwrap().unwrap()
    }
}
