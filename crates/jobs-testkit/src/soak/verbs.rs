//! Operators who cancel, retry and delete what runs, waits and is parked, against settlements.

use std::time::{Duration, Instant};

use fastrand::Rng;
use jobs_core::{Admin, JobRef, Result, State, view::List};
use tokio::time::sleep;

use super::{
    ledger::{Event, Pen},
    probe::NAME,
    read::UNANSWERED,
};
use crate::kit::operator;

/// Which states an operator looks at, parked ones first: that is where they are needed.
const STATES: [State; 5] =
    [State::Parked, State::Running, State::Parked, State::Scheduled, State::Cancelled];

/// Does verbs for `length`.
pub async fn some(store: &dyn Admin, pen: &Pen, random: &mut Rng, length: Duration) {
    let until = Instant::now() + length;
    while Instant::now() < until {
        let state = STATES[random.usize(0..STATES.len())];
        let permit = operator().await;
        let list = List { state: Some(state), page: 50, ..List::default() };
        let jobs = store.list(&permit, &list).await.map(|page| page.jobs).unwrap_or_default();
        for _ in 0..4 {
            // Not a newcomer's: it measures.
            let view = random.choice(&jobs).filter(|view| view.job.name != NAME);
            if let Some(view) = view {
                one(store, pen, random, state, view.job.job_ref()).await;
            }
        }
        sleep(Duration::from_millis(random.u64(10..100))).await;
    }
}

async fn one(store: &dyn Admin, pen: &Pen, random: &mut Rng, state: State, job: JobRef) {
    let verb = match (state, random.u8(0..10)) {
        (State::Cancelled, _) => "retry",
        (State::Parked, 0..4) => "retry",
        (State::Parked, 4..7) => "cancel",
        (State::Parked, _) | (_, 0..2) => "delete",
        (_, _) => "cancel",
    };
    let line = |answer| Event::Verb { verb: verb.to_owned(), job: job.clone(), answer };
    pen.write(line(None));
    let answer = ask(store, verb, &job).await;
    pen.write(line(Some(answer.unwrap_or_else(|error| format!("{UNANSWERED}: {error}")))));
}

async fn ask(store: &dyn Admin, verb: &str, job: &JobRef) -> Result<String> {
    let jobs = std::slice::from_ref(job);
    Ok(match verb {
        "retry" => format!("{:?}", store.retry(&operator().await, jobs).await?),
        "cancel" => format!("{:?}", store.cancel(&operator().await, jobs).await?),
        _ => format!("{:?}", store.delete(&operator().await, jobs).await?),
    })
}
