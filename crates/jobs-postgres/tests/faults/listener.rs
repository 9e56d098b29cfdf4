//! The connection that listens goes silent, and nobody is told: its probe notices.

use std::time::Duration;

use jobs_core::{Queue, wake::Watch};
use jobs_postgres::{Options, Postgres};
use jobs_testkit::{
    cases::Case,
    kit::{Kit, QUEUE, job, push, take_one},
    proxy::Proxy,
};
use sqlx::{Connection, PgConnection, Row};
use tokio::time::{Instant, sleep, timeout};

use crate::common;

/// The case.
pub const CASES: &[Case] = &[Case {
    name: "a_silent_listener_is_noticed",
    crosses_processes: false,
    run: |kit| Box::pin(a_silent_listener_is_noticed(kit)),
}];

/// What the driver's probe takes to notice (10 s, 5 s for its answer), and what a busy machine adds.
const NOTICED: Duration = Duration::from_secs(25);
/// A wake-up that comes, comes within.
const WOKEN: Duration = Duration::from_secs(5);
/// How long a wake-up that is not to come is waited for: it is sent within 50 ms.
const NOT: Duration = Duration::from_millis(700);

/// The ports of the connections that listen on this channel, as the server sees them.
async fn listening(conn: &mut PgConnection, channel: &str) -> Vec<u16> {
    let which = "SELECT client_port FROM pg_stat_activity
        WHERE query LIKE 'LISTEN%' AND strpos(query, $1) > 0";
    let rows = sqlx::query(which).bind(channel).fetch_all(conn).await.expect("it answers");
    rows.iter().map(|row| u16::try_from(row.get::<i32, _>(0)).expect("a port")).collect()
}

/// What was said before is not what is waited for.
async fn quiet(watch: &mut Watch) {
    while timeout(NOT, watch.woken()).await.is_ok() {}
}

async fn a_silent_listener_is_noticed(kit: &Kit) {
    let url = common::url();
    let proxy = Proxy::before(&url).expect("a proxy");
    let near = kit.handle().await;
    let options = Options::new(&proxy.url(&url)).and_then(|o| o.schema(&kit.namespace));
    let far = Postgres::open(options.expect("a URL and a name")).await.expect("it answers");
    let mut watch = far.watch(&[QUEUE.to_owned()]).await.expect("it answers");
    let mut conn = PgConnection::connect(&url).await.expect("the server answers");

    quiet(&mut watch).await;
    let first = push(&*near, job("acme")).await;
    timeout(WOKEN, watch.woken()).await.expect("another handle's push wakes");
    assert_eq!(take_one(&far).await.claim.job, first.job_ref());

    let ports = listening(&mut conn, &kit.namespace).await;
    let [port] = ports[..] else { panic!("one connection listens: {ports:?}") };
    assert!(proxy.ports().contains(&port), "through the proxy");
    quiet(&mut watch).await;
    let begun = Instant::now();
    proxy.silence(|this| this == port);
    // Polling finds what no wake-up tells of.
    let second = push(&*near, job("acme")).await;
    assert!(timeout(NOT, watch.woken()).await.is_err(), "its wake-up is lost");
    assert_eq!(take_one(&far).await.claim.job, second.job_ref());

    // The new one wakes everybody once: something may have been said meanwhile.
    timeout(NOTICED, watch.woken()).await.expect("its probe notices");
    loop {
        let ports = listening(&mut conn, &kit.namespace).await;
        if ports.iter().any(|new| *new != port && proxy.ports().contains(new)) {
            break;
        }
        assert!(begun.elapsed() < NOTICED + WOKEN, "no new connection listens");
        sleep(Duration::from_millis(50)).await;
    }
    quiet(&mut watch).await;
    let third = push(&*near, job("acme")).await;
    timeout(WOKEN, watch.woken()).await.expect("wake-ups come again");
    assert_eq!(take_one(&far).await.claim.job, third.job_ref());
}
