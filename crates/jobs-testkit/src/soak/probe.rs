//! What the coordinator does beside the faults: newcomers that measure fairness, the store's clock
//! against the machine's, and a look for keys that two live jobs hold.

use std::{collections::HashMap, time::Duration};

use jobs_core::{
    Admin, JobRef, Key, KeyScope, State,
    view::{JobRecord, JobView, List},
};
use tokio::time::{Instant, sleep};

use super::{
    Done, Soak,
    ledger::{Event, Pen, now},
    producer::{self, NOISY},
};
use crate::kit::operator;

/// Where the backlog is.
pub const QUEUE: &str = "main";
/// A reading of the clock takes less, in microseconds.
const READING: i64 = 200_000;
/// What newcomers push.
pub const NAME: &str = "probe";

/// Every two seconds a tenant that nobody knows pushes one job behind the backlog. The last push
/// before `until` is answered and written down before this returns: dropped in the middle, it would
/// be stored without a witness.
///
/// # Errors
/// The driver answers nothing.
pub async fn newcomers(store: &dyn Admin, pen: &Pen, until: Instant) -> Done {
    for number in 0.. {
        sleep(Duration::from_millis(1700)).await;
        if Instant::now() >= until {
            break;
        }
        let Some(waiting) = producer::waiting(store, QUEUE, NOISY).await else { continue };
        let job = producer::job(&format!("n{number}"), NAME, QUEUE)?.priority(-100);
        pen.write(Event::Probe { job: job.job_ref(), waiting });
        producer::push(store, pen, vec![job]).await?;
    }
    Ok(())
}

/// Writes down how far the store's clock is ahead of the machine's.
pub async fn clock(store: &dyn Admin, pen: &Pen) {
    loop {
        let permit = operator().await;
        let sent = now();
        let check = store.check(&permit).await;
        let answered = now();
        // What takes long is no reading.
        if let Some(check) = check.ok().filter(|_| answered - sent < READING) {
            let millis = check.now.as_millisecond() - (sent + answered) / 2000;
            pen.write(Event::Ahead { millis, within: (answered - sent) / 2000 + 1 });
        }
        sleep(Duration::from_millis(400)).await;
    }
}

/// Asks the store about its soundness again and again, while there is a backlog to be wrong about.
pub async fn soundness(soak: &dyn Soak, url: &str, pen: &Pen, every: Duration) {
    loop {
        sleep(every).await;
        // One that restarts says nothing.
        if let Ok(findings) = soak.unsound(url).await {
            pen.write(Event::Looked { findings });
        }
    }
}

/// Looks for keys that two live jobs hold, every few seconds.
pub async fn keys(store: &dyn Admin, pen: &Pen) {
    loop {
        sleep(Duration::from_secs(4)).await;
        look_at_keys(store, pen).await;
    }
}

/// One look at all live jobs with keys.
pub async fn look_at_keys(store: &dyn Admin, pen: &Pen) {
    let mut holders: HashMap<(String, String), Vec<JobRef>> = HashMap::new();
    for state in [State::Parked, State::Running, State::Ready, State::Scheduled] {
        let list = List { state: Some(state), page: 1000, ..List::default() };
        for view in walk(store, list).await {
            // One until started may wait for its first delivery, or for another.
            let may_hold = |key: &Key| {
                let waits = matches!(state, State::Ready | State::Scheduled);
                key.scope == KeyScope::UntilFinished || (waits && view.attempt == 0)
            };
            let Some(key) = view.job.key.clone().filter(may_hold) else { continue };
            let job = view.job.job_ref();
            let others = holders.entry((job.tenant.clone(), key.text.clone())).or_default();
            // The walk is not one moment: a job may have ended since it was listed.
            for other in others.iter().filter(|other| **other != job) {
                if both_hold(store, other, &job).await {
                    let (job, other) = (job.clone(), other.clone());
                    pen.write(Event::TwoKeys { job, other, key: key.text.clone() });
                }
            }
            others.push(job);
        }
    }
}

/// Holding it before and after the other was seen to hold it is holding it then: a cancelled job that
/// is retried meanwhile would have to take its key from the other.
async fn both_hold(store: &dyn Admin, one: &JobRef, other: &JobRef) -> bool {
    for job in [one, other, one] {
        if !get(store, job).await.is_some_and(|record| holds(&record)) {
            return false;
        }
    }
    true
}

fn holds(record: &JobRecord) -> bool {
    let scope = record.view.job.key.as_ref().map(|key| key.scope);
    // Before its first delivery no fence was given.
    let until_started = scope == Some(KeyScope::UntilStarted);
    record.view.state.is_live() && (!until_started || record.fence == 0)
}

/// One job, asked until the store answers, within reason.
pub async fn get(store: &dyn Admin, job: &JobRef) -> Option<JobRecord> {
    for _ in 0..20 {
        let permit = operator().await;
        match store.get(&permit, job).await {
            Ok(record) => return record,
            Err(_) => sleep(Duration::from_millis(200)).await,
        }
    }
    None
}

/// All jobs of a list; what the store did not answer is left out.
pub async fn walk(store: &dyn Admin, mut list: List) -> Vec<JobView> {
    let mut jobs = Vec::new();
    let mut failures = 0;
    while failures < 20 {
        let permit = operator().await;
        match store.list(&permit, &list).await {
            Ok(page) => {
                jobs.extend(page.jobs);
                list.after = page.next;
                if list.after.is_none() {
                    break;
                }
            }
            Err(_) => {
                failures += 1;
                sleep(Duration::from_millis(200)).await;
            }
        }
    }
    jobs
}

#[cfg(test)]
mod tests {
    use crate::{model::Model, soak::read::Ledger};

    use super::*;

    #[tokio::test]
    async fn the_last_newcomer_is_answered_and_written_down() {
        let directory = std::env::temp_dir().join(format!("newcomers-{}", uuid::Uuid::new_v4()));
        std::fs::create_dir(&directory).unwrap();
        let (store, pen) = (Model::alone(), Pen::open(&directory, "coordinator").unwrap());
        let begun = Instant::now();
        newcomers(&store, &pen, begun).await.unwrap();
        assert!(Ledger::read(&directory).unwrap().lines.is_empty(), "the faults are over");
        newcomers(&store, &pen, begun + Duration::from_secs(4)).await.unwrap();
        let ledger = Ledger::read(&directory).unwrap();
        assert_eq!((ledger.lines.len(), ledger.stories.len()), (1, 1));
        assert!(ledger.stories.values().all(|story| story.stored().is_some()));
        std::fs::remove_dir_all(directory).unwrap();
    }
}
