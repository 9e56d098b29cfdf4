//! Reasons that take time to come about, in the store whose clock can be moved.

use std::{sync::Arc, time::Duration};

use jobs_core::{
    Admin, Job,
    doctor::{self, Facts},
    queue::Worker,
};
use jobs_testkit::{fixture::Fixture, kit, model::Model};

use crate::verb::Session;

struct Aged {
    model: Model,
    session: Session<Arc<dyn Admin>>,
}

impl Aged {
    async fn new() -> Self {
        let model = Model::default();
        let store = model.make("doctor", Default::default()).await;
        Self { model, session: crate::verb::model::on(store).await }
    }

    async fn age(&self, seconds: u64) {
        self.model.age("doctor", Duration::from_secs(seconds)).await;
    }

    async fn announce(&self, names: &[&str], busy: u32) {
        let worker = Worker {
            id: uuid::Uuid::new_v4(),
            label: "here".into(),
            queues: vec![kit::QUEUE.into()],
            names: names.iter().map(|name| (*name).to_owned()).collect(),
            slots: 4,
            busy,
            stuck: 0,
            leaving: false,
        };
        self.session.store.announce(&worker).await.unwrap();
    }

    /// What it finds: kinds, and all the words.
    async fn finds(&self) -> (Vec<&'static str>, String) {
        let permit = self.session.access.permit().await.unwrap();
        let facts = Facts::gather(&self.session.store, &permit, None).await.unwrap();
        // Its own clock is moved, this machine's is not.
        let mut found = doctor::find(&facts);
        found.retain(|finding| finding.kind != "clock");
        let words = found.iter().map(|finding| format!("{} {}\n", finding.what, finding.remedy));
        (found.iter().map(|finding| finding.kind).collect(), words.collect())
    }
}

#[tokio::test]
async fn a_lease_that_nobody_sweeps() {
    let aged = Aged::new().await;
    let job = kit::push(&*aged.session.store, kit::job("acme")).await;
    kit::take_one(&*aged.session.store).await;
    aged.age(30).await;
    // Over for 10 s: a worker that is alive would be about to sweep.
    assert_eq!(aged.finds().await.0, ["no_worker"]);
    aged.age(30).await;
    let (kinds, words) = aged.finds().await;
    assert_eq!(kinds, ["no_worker", "expired"]);
    assert!(words.contains("1 job is held by a silent worker past the lease"), "{words}");
    assert!(words.contains(&job.job_ref().to_string()) && words.contains("for 40s"), "{words}");
    assert!(words.contains("Any worker sweeps, of any queue: start one."), "{words}");
    aged.announce(&[kit::NAME], 0).await;
    let words = aged.finds().await.1;
    assert!(words.contains("Any live worker should have swept"), "{words}");
}

#[tokio::test]
async fn jobs_that_wait_long() {
    let aged = Aged::new().await;
    kit::push(&*aged.session.store, kit::job("acme")).await;
    aged.age(50).await;
    aged.announce(&[kit::NAME], 0).await;
    assert_eq!(aged.finds().await.0, [""; 0], "a minute is not long");
    aged.age(50).await;
    aged.announce(&[kit::NAME], 4).await;
    aged.age(20).await;
    let (kinds, words) = aged.finds().await;
    assert_eq!(kinds, ["busy"]);
    assert!(words.contains("all 4 slots of the workers of queue work are busy"), "{words}");
    assert!(words.contains("jobs wait for 2m"), "{words}");
    aged.announce(&[kit::NAME], 1).await;
    let (kinds, words) = aged.finds().await;
    assert_eq!(kinds, ["not_taken"]);
    assert!(words.contains("jobs of queue work of tenant acme wait for 2m"), "{words}");
    // Where one of the lane's names is known to nobody, that is what waits.
    let other = Job { name: "mail.send".into(), ..kit::job("acme") };
    kit::push(&*aged.session.store, other).await;
    assert_eq!(aged.finds().await.0, ["name_not_known"]);
}
