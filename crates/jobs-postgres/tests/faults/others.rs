//! The verbs that the suite's own cases of lost answers leave out: they read, or say a state that
//! saying twice does not change.

use jobs_core::{
    Admin, JobRef, Result,
    admin::{LaneChange, LaneRef, Pause, Tuned},
    queue::Worker,
    view::{Lanes, List},
};
use jobs_testkit::{
    cases::Case,
    kit::{Kit, QUEUE, job, operator, push, take_one, wants},
};
use uuid::Uuid;

/// All of them.
const VERBS: [&str; 7] = ["get", "list", "counts", "workers", "check", "announce", "set_lane"];
/// No verb makes more round trips.
const MOST: usize = 64;

/// The case.
pub const CASE: Case = Case {
    name: "the_verbs_that_change_no_job",
    crosses_processes: false,
    run: |kit| Box::pin(the_verbs_that_change_no_job(kit)),
};

/// What `verb` answers, but for what the clock changes.
async fn ask(store: &dyn Admin, verb: &str, job: &JobRef, id: Uuid) -> Result<String> {
    let (read, queue) = (operator().await, QUEUE.to_owned());
    Ok(match verb {
        "get" => format!("{:?}", store.get(&read, job).await?.map(|record| record.view)),
        "list" => format!("{:?}", store.list(&read, &List::default()).await?.jobs),
        "counts" => {
            let counts = store.counts(&read, &Lanes::default()).await?;
            let lanes = counts.lanes.iter();
            let numbers = lanes.map(|lane| (&lane.tenant, lane.waiting, lane.running));
            format!("{:?}", numbers.collect::<Vec<_>>())
        }
        "workers" => {
            let workers = store.workers(&read).await?;
            format!("{:?}", workers.iter().map(|view| &view.worker).collect::<Vec<_>>())
        }
        "check" => {
            let check = store.check(&read).await?;
            format!("{} {} {:?}", check.store, check.schema, check.findings)
        }
        "announce" => {
            let (queues, names) = (vec![queue], vec!["noop".to_owned()]);
            let label = "suite".to_owned();
            let worker =
                Worker { id, label, queues, names, slots: 4, busy: 1, stuck: 0, leaving: false };
            format!("{:?}", store.announce(&worker).await?)
        }
        "set_lane" => {
            let lane = LaneRef { queue, tenant: Some("paused".to_owned()) };
            let change = LaneChange { pause: Some(Pause::On), ..LaneChange::default() };
            let tuned = store.set_lane(&operator().await, &lane, change).await?;
            assert_eq!(tuned, Tuned::Tuned);
            format!("{tuned:?}")
        }
        other => panic!("no verb {other}"),
    })
}

async fn the_verbs_that_change_no_job(kit: &Kit) {
    let store = &*kit.handle().await;
    push(store, job("acme")).await;
    let held = take_one(store).await.claim.job;
    push(store, job("acme")).await;
    let id = Uuid::from_u128(7);
    for verb in VERBS {
        let plain = ask(store, verb, &held, id).await.expect("the server answers");
        let mut cuts = 0;
        loop {
            let cut = kit.fixture.make_cut(&kit.namespace, cuts + 1).await;
            match ask(&*cut, verb, &held, id).await {
                // A cut that is still to come would hit a repetition.
                Ok(told) => {
                    assert_eq!(told, plain);
                    break;
                }
                Err(error) => assert!(error.is_transient(), "{verb}: {error:?}"),
            }
            let again = ask(&*cut, verb, &held, id).await.expect("it is cut once");
            assert_eq!(again, plain, "{verb}, repeated after cut {cuts}");
            cuts += 1;
            assert!(cuts < MOST, "{verb} was still cut after {MOST} round trips");
        }
        assert!(cuts > 0, "{verb} was never cut");
    }
    // Said several times, it is so once.
    let alive = store.workers(&operator().await).await.expect("the server answers");
    assert_eq!(alive.len(), 1);
    push(store, job("paused")).await;
    let got = store.reserve(&wants(10)).await.expect("the server answers").deliveries;
    let tenants: Vec<_> = got.iter().map(|delivery| delivery.job.tenant.as_str()).collect();
    assert_eq!(tenants, ["acme"], "one that nobody took, and nothing of the paused lane");
}
