//! What wake-ups cost pushes: 64 pushers, one job each at a time, with another handle that listens and
//! with none told at all, in turn. Prints a JSON line with each pair's rates and the median ratio.
//!
//! `wakes <url> [pairs] [seconds]`, on a database that holds nothing else.

use std::{
    error::Error,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use jobs_core::{Job, Queue, QueueExt, grant::grant_without_user};
use jobs_postgres::{Options, Postgres};
use tokio::{
    task::JoinSet,
    time::{Instant, sleep_until},
};

const PUSHERS: usize = 64;

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

/// Pushes a second, for so long.
async fn rate(store: &Postgres, seconds: f64) -> Result<f64> {
    let (count, begun) = (Arc::new(AtomicU64::new(0)), Instant::now());
    let until = begun + Duration::from_secs_f64(seconds);
    let mut pushers = JoinSet::new();
    for pusher in 0..PUSHERS {
        let (store, count) = (store.clone(), count.clone());
        pushers.spawn(async move {
            let grant = grant_without_user("bench", "work.do", &format!("t{}", pusher % 8))?;
            while Instant::now() < until {
                let job = Job::new(&grant, "noop", &())?;
                let _stored = store.push(&grant, job).await?;
                count.fetch_add(1, Relaxed);
            }
            Result::Ok(())
        });
    }
    sleep_until(until).await;
    while let Some(pusher) = pushers.join_next().await {
        pusher??;
    }
    Ok(count.load(Relaxed) as f64 / begun.elapsed().as_secs_f64())
}

#[tokio::main]
async fn main() -> Result<()> {
    let mut args = std::env::args().skip(1);
    let url = args.next().ok_or("wakes <url> [pairs] [seconds]")?;
    let pairs: usize = args.next().as_deref().unwrap_or("9").parse()?;
    let seconds: f64 = args.next().as_deref().unwrap_or("3").parse()?;
    let options = Options::new(&url)?.schema("jobs_wakes")?;
    let told = Postgres::open(options.clone()).await?;
    told.migrate().await?;
    let untold = Postgres::open(options.clone().tells_nobody()).await?;
    let listens = Postgres::open(options).await?;
    for store in [&told, &untold] {
        rate(store, 1.0).await?;
    }
    let (mut ratios, mut rates) = (Vec::new(), Vec::new());
    for pair in 0..pairs {
        let (mut with, mut without) = (0.0, 0.0);
        for half in 0..2 {
            if (pair + half) % 2 == 0 {
                let watch = listens.watch(&["default".to_owned()]).await?;
                with = rate(&told, seconds).await?;
                drop(watch);
            } else {
                without = rate(&untold, seconds).await?;
            }
        }
        ratios.push(with / without);
        rates.push([with.round(), without.round()]);
    }
    ratios.sort_by(f64::total_cmp);
    let median = ratios[ratios.len() / 2];
    println!("{}", serde_json::json!({ "pairs": rates, "median_ratio": median }));
    Ok(())
}
