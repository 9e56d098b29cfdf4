//! Figures of the driver alone: `cargo run --release -p jobs-sqlite --example speed`.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use jobs_core::{
    AuthorizedJob, Job, Outcome, Queue, Settlement, authorized,
    grant::grant_without_user,
    queue::{Pushed, Reserve},
};
use jobs_sqlite::{Durability, Options, Sqlite};

type Done<T = ()> = Result<T, Box<dyn std::error::Error>>;

fn job(tenant: &str, name: &str) -> Done<AuthorizedJob> {
    let grant = grant_without_user("speed", "work.do", tenant)?;
    let pad = "x".repeat(100);
    Ok(authorized(&grant, Job::new(&grant, name, &pad)?)?)
}

async fn fill(store: &Sqlite, jobs: usize, tenants: usize, names: usize) -> Done<f64> {
    let all: Done<Vec<_>> = (0..jobs)
        .map(|i| job(&format!("t{}", i % tenants), &format!("n{}", i / tenants % names)))
        .collect();
    let (all, start) = (all?, Instant::now());
    for answer in store.enqueue(&all).await {
        assert_eq!(answer?, Pushed::Stored);
    }
    Ok(jobs as f64 / start.elapsed().as_secs_f64())
}

fn wish(names: usize, n: usize) -> Done<Reserve> {
    let names: Vec<_> = (0..names).map(|n| format!("n{n}")).collect();
    Ok(Reserve::new("default", names.clone(), "speed")?.slots(4).ahead(n - 4, names))
}

async fn drain(store: &Sqlite, names: usize, n: usize, most: usize) -> Done<f64> {
    let (start, mut done, mut settlements) = (Instant::now(), 0, Vec::new());
    loop {
        let (_, reserved) = store.settle_and_reserve(&settlements, &wish(names, n)?).await?;
        let held = reserved.deliveries;
        if held.is_empty() || done >= most {
            return Ok(done as f64 / start.elapsed().as_secs_f64());
        }
        done += held.len();
        settlements = held
            .into_iter()
            .map(|delivery| Settlement { claim: delivery.claim, outcome: Outcome::Done })
            .collect();
    }
}

async fn push_one(store: &Sqlite, producers: usize, each: usize) -> Done<f64> {
    let start = Instant::now();
    let tasks: Vec<_> = (0..producers)
        .map(|producer| {
            let store: Arc<dyn Queue> = Arc::new(store.clone());
            tokio::spawn(async move {
                for _ in 0..each {
                    let Ok(job) = job(&format!("t{producer}"), "n0") else { return };
                    for answer in store.enqueue(&[job]).await {
                        assert!(answer.is_ok());
                    }
                }
            })
        })
        .collect();
    for task in tasks {
        task.await?;
    }
    Ok((producers * each) as f64 / start.elapsed().as_secs_f64())
}

async fn reserve_one(store: &Sqlite) -> Done<Duration> {
    let start = Instant::now();
    for _ in 0..200 {
        let reserved = store.reserve(&wish(3, 8)?).await?;
        assert_eq!(reserved.deliveries.len(), 8);
    }
    Ok(start.elapsed() / 200)
}

#[tokio::main(worker_threads = 2)]
async fn main() -> Done {
    let big = std::env::args().nth(1).and_then(|n| n.parse().ok()).unwrap_or(200_000);
    for durability in [Durability::Full, Durability::Normal] {
        let open = async |name: &str| {
            let path = std::env::temp_dir().join(format!("speed-{}-{name}", std::process::id()));
            let options = Options::new(&path.display().to_string())?.durability(durability);
            Sqlite::open(options).await
        };
        let store = open("one").await?;
        println!("{durability:?} push-one C=1    {:8.0}/s", push_one(&store, 1, 1000).await?);
        println!("{durability:?} push-one C=10   {:8.0}/s", push_one(&store, 10, 3000).await?);
        println!("{durability:?} push-one C=50   {:8.0}/s", push_one(&store, 50, 2000).await?);
        for (tenants, names) in [(1, 1), (1, 3), (50, 1), (50, 3)] {
            let store = open(&format!("drain{tenants}x{names}")).await?;
            let push = fill(&store, 100_000, tenants, names).await?;
            let drained = drain(&store, names, 100, usize::MAX).await?;
            println!(
                "{durability:?} {tenants:2} tenants x {names}: push-bulk {push:8.0}/s, drain {drained:8.0}/s"
            );
        }
        let store = open("grow").await?;
        fill(&store, 10_000, 50, 3).await?;
        let small = reserve_one(&store).await?;
        fill(&store, big, 50, 3).await?;
        println!(
            "{durability:?} reserve of 8: {small:?} at 10,000, {:?} at {big}",
            reserve_one(&store).await?
        );
    }
    Ok(())
}
