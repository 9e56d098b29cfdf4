//! A real Redis and a real cluster: what was written is there after a kill, and a replica takes over.

use std::process::ExitCode;

use jobs_servers::{PrivateRedis, PrivateRedisCluster};
use libtest_mimic::{Arguments, Failed, Trial};

fn main() -> ExitCode {
    let tests: [(&str, fn()); 3] = [
        ("a_killed_server_comes_back_with_its_data", killed),
        ("a_cluster_serves_all_slots_and_a_replica_takes_over", cluster),
        ("a_dropped_server_leaves_nothing", dropped),
    ];
    let missing = PrivateRedis::find().is_none();
    let skip = missing && std::env::var_os("JOBS_TEST_REQUIRE").is_none();
    if skip {
        eprintln!("skipped: there is no redis-server");
    }
    let trials = tests.map(|(name, test)| {
        let test = move || {
            test();
            Ok::<(), Failed>(())
        };
        Trial::test(name, test).with_ignored_flag(skip)
    });
    libtest_mimic::run(&Arguments::from_args(), trials.into()).exit_code()
}

fn killed() {
    let mut server = PrivateRedis::start_with(&["--appendfsync", "always"]).expect("it starts");
    assert_eq!(server.cli(&["set", "a", "1"]).as_deref(), Ok("OK"));
    server.kill().expect("it ran");
    server.kill().expect_err("it does not run");
    server.cli(&["get", "a"]).expect_err("nobody answers");
    server.start_again().expect("it starts");
    assert_eq!(server.cli(&["get", "a"]).as_deref(), Ok("1"));
}

fn cluster() {
    let mut cluster = PrivateRedisCluster::start().expect("it starts");
    assert_eq!(cluster.ports().len(), 4);
    let role = |cluster: &PrivateRedisCluster, node| cluster.cli(node, &["role"]).expect("answers");
    assert!(role(&cluster, 3).starts_with("slave"));
    cluster.kill(0).expect("it ran");
    cluster.wait_for(3, "role", "master").expect("the replica takes over");
    cluster.wait_for(1, "cluster info", "cluster_state:ok").expect("all slots are served");
    cluster.start_again(0).expect("it starts");
}

fn dropped() {
    let server = PrivateRedis::start().expect("it starts");
    let folder = server.log().parent().expect("a folder").to_owned();
    assert!(folder.exists());
    let port = server.port();
    drop(server);
    assert!(!folder.exists());
    assert!(std::net::TcpStream::connect(("127.0.0.1", port)).is_err());
}
